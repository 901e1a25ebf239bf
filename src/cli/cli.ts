import { HubError } from "../core/error.ts";
import { visibleText } from "../core/visible_text.ts";
import { type Command, describeUsage } from "./command.ts";
import { describeCommands, describeUnknown, findCommand } from "./commands.ts";
import { EXIT } from "./exit_codes.ts";
import { print, printError, readerGone } from "./print.ts";

/** Runs the command that the arguments name; gives the exit code (see `exit_codes.ts`). Never throws. */
export async function runCli(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args;
  if (name === undefined) {
    printError(describeCommands());
    return EXIT.usage;
  }
  const command = findCommand(name);
  if (command === null) {
    printError(describeUnknown(name));
    return EXIT.usage;
  }
  const options = rest.includes("--") ? rest.slice(0, rest.indexOf("--")) : rest;
  if (options.some((word) => word === "--help" || word === "-h")) {
    print(describeUsage(command));
    return readerGone.aborted ? EXIT.readerGone : EXIT.ok;
  }
  const code = await runCommand(command, rest);
  return code === EXIT.ok && readerGone.aborted && !command.serves ? EXIT.readerGone : code;
}

async function runCommand(command: Command, args: string[]): Promise<number> {
  try {
    return await command.run(args);
  } catch (error) {
    if (error instanceof HubError) {
      printError(visibleText(error.message));
      return error.code === "invalid_configuration" ? EXIT.configuration : EXIT.failed;
    }
    if (
      error instanceof TypeError && "code" in error &&
      String(error.code).startsWith("ERR_PARSE_ARGS")
    ) {
      printError(`${visibleText(error.message)}\nSee loophub ${command.name} --help`);
      return EXIT.usage;
    }
    printError(error instanceof Error ? error.stack ?? error.message : String(error));
    return EXIT.failed;
  }
}
