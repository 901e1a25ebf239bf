import { configJsonSchema } from "../config/json_schema.ts";
import { didYouMean } from "../config/nearest_name.ts";
import { visibleText } from "../core/visible_text.ts";
import { VERSION } from "../core/version.ts";
import { CACHE } from "./cache.ts";
import { chat } from "./chat.ts";
import { check } from "./check/check.ts";
import { type Command, describeForms, describeUsage } from "./command.ts";
import { EXIT } from "./exit_codes.ts";
import { GRANTS } from "./grants.ts";
import { KEYS } from "./keys.ts";
import { MCP } from "./mcp.ts";
import { migrateDatabase } from "./migrate.ts";
import { print, printError } from "./print.ts";
import { PROVIDERS } from "./providers.ts";
import { run } from "./run.ts";
import { RUNS } from "./runs.ts";
import { start } from "./start.ts";
import { work } from "./worker.ts";

const OF_RUNS = "[--agent NAME] [--model NAME] [--session ID] [--budget steps=20 …] [--preflight]";

/** Every command: what `loophub help` lists, in its order, and what the dispatcher runs. */
export const COMMANDS: readonly Command[] = [
  one(start, {
    name: "start",
    serves: true,
    aliases: ["serve"],
    args: "[--config FILE] [--replicas N]",
    summary:
      "start the hub, in N processes on one port; serve is the same, and --workers is --replicas",
  }),
  one(run, {
    name: "run",
    args: `[PROMPT] ${OF_RUNS} [--json] [--accounting FILE]`,
    summary: "run an agent once; the prompt comes from arguments or stdin",
  }),
  one(chat, {
    name: "chat",
    args: `${OF_RUNS} [--url URL] [--key-env NAME]`,
    summary: "talk with an agent, here or of a running hub; /help lists what can be said",
  }),
  one(check, {
    name: "check",
    args: "[--config FILE]",
    summary: "validate the configuration and say what it would start",
  }),
  one(printSchema, {
    name: "schema",
    args: "",
    summary: "print the JSON Schema of the configuration",
  }),
  one(migrateDatabase, {
    name: "migrate",
    args: "[--config FILE]",
    summary: "bring the database up to date and exit",
  }),
  KEYS,
  PROVIDERS,
  CACHE,
  MCP,
  RUNS,
  GRANTS,
  one(printHelp, {
    name: "help",
    aliases: ["--help", "-h"],
    args: "[COMMAND]",
    summary: "say what commands there are, or what one of them wants",
  }),
  one(printVersion, {
    name: "version",
    aliases: ["--version", "-V"],
    args: "",
    summary: "print the version",
  }),
  { name: "worker", serves: true, forms: {}, run: work },
];

/** The command of this name; null when there is none. */
export function findCommand(name: string): Command | null {
  return COMMANDS.find((command) => command.name === name || command.aliases?.includes(name)) ??
    null;
}

/** What `loophub help` says. */
export function describeCommands(): string {
  return "loophub, a hub between everything that calls models and everything that serves them\n\n" +
    describeForms(COMMANDS);
}

/** What is said to a name that no command has. */
export function describeUnknown(name: string): string {
  const names = COMMANDS.filter(({ forms }) => Object.keys(forms).length > 0).map(({ name }) =>
    name
  );
  return `There is no command ${visibleText(name)}${didYouMean(name, names)}; see loophub help`;
}

function one(
  run: Command["run"],
  { args, summary, ...command }: {
    name: string;
    serves?: boolean;
    aliases?: string[];
    args: string;
    summary: string;
  },
): Command {
  return { ...command, forms: { "": { args, summary } }, run };
}

function printHelp([name]: string[]): number {
  const command = name === undefined ? null : findCommand(name);
  if (name !== undefined && command === null) {
    printError(describeUnknown(name));
    return EXIT.usage;
  }
  print(command === null ? describeCommands() : describeUsage(command));
  return EXIT.ok;
}

function printSchema(): number {
  print(JSON.stringify(configJsonSchema(), null, 2));
  return EXIT.ok;
}

function printVersion(): number {
  print(`loophub ${VERSION}`);
  return EXIT.ok;
}
