import { configJsonSchema } from "../config/json_schema.ts";
import { HubError } from "../core/error.ts";
import { visibleText } from "../core/visible_text.ts";
import { cache } from "./cache.ts";
import { chat } from "./chat.ts";
import { check } from "./check.ts";
import { EXIT } from "./exit_codes.ts";
import { grants } from "./grants.ts";
import { keys } from "./keys.ts";
import { bridgeMcp } from "./mcp_bridge.ts";
import { mcp } from "./mcp.ts";
import { serveMcp } from "./mcp_stdio.ts";
import { migrateDatabase } from "./migrate.ts";
import { print, printError } from "./print.ts";
import { providers } from "./providers.ts";
import { run } from "./run.ts";
import { runs } from "./runs.ts";
import { start } from "./start.ts";
import { work } from "./worker.ts";

const HELP = `loophub, a hub between everything that calls models and everything that serves them

  loophub start     [--config FILE]   start the hub (serve is the same)
                    [--replicas N]    N processes on one port (--workers is the same)
  loophub run       [PROMPT]          run an agent once; the prompt comes from arguments or stdin
                    [--agent NAME] [--model NAME] [--session ID] [--json] [--accounting FILE]
                    [--budget steps=20] … what it may use up: steps, time, tokens, cost, bytes
                    [--preflight]     show a plan to a person before tools run
  loophub chat                        talk with an agent; /help lists what can be said
                    [--agent NAME] [--model NAME] [--session ID] [--url URL] [--key-env NAME]
                    [--budget steps=20] … [--preflight]
  loophub mcp       [--config FILE]   be an MCP server over stdin and stdout
                    --url URL [--key-env NAME]   be that of a running hub
  loophub check     [--config FILE]   validate the configuration and say what it would start
  loophub schema                      print the JSON Schema of the configuration
  loophub migrate   [--config FILE]   bring the database up to date and exit
  loophub keys      create NAME [--role user|admin] [--budget daily=1.50] [--rpm N] … | list
                    set KEY_ID … | rotate KEY_ID [--grace 24h] | expire KEY_ID | revoke KEY_ID
  loophub providers list | add NAME --base-url URL … | rotate NAME … | remove NAME | reseal
  loophub cache     [--json]          what the response cache holds, and what it was good for
                    clear [--key KEY_ID]
  loophub mcp       list | test [NAME] | tools [NAME] | logs NAME | refresh NAME   look at MCP servers
  loophub runs      [--all] [--limit N] [--json]   list active and recent runs
                    watch RUN_ID [--json]          follow one to its end
                    steer RUN_ID TEXT [--queue]    say something to it
                    stop RUN_ID                    stop it
                    approve RUN_ID APPROVAL_ID [--remember once|session|always]
                    deny RUN_ID APPROVAL_ID [REASON]   answer what it asks a person
  loophub grants    list [--json] | remove GRANT_ID   approvals that hold for later calls`;

/** Runs the command that the arguments name; gives the exit code (see `exit_codes.ts`). Never throws. */
export async function runCli(args: readonly string[]): Promise<number> {
  const [command, ...rest] = args;
  const options = rest.includes("--") ? rest.slice(0, rest.indexOf("--")) : rest;
  if (options.some((word) => word === "--help" || word === "-h")) {
    print(HELP);
    return EXIT.ok;
  }
  try {
    switch (command) {
      case "start":
      case "serve":
        return await start(rest);
      case "worker":
        return await work();
      case "run":
        return await run(rest);
      case "chat":
        return await chat(rest);
      case "check":
        return await check(rest);
      case "schema":
        print(JSON.stringify(configJsonSchema(), null, 2));
        return EXIT.ok;
      case "migrate":
        return await migrateDatabase(rest);
      case "keys":
        return await keys(rest);
      case "providers":
        return await providers(rest);
      case "cache":
        return await cache(rest);
      case "mcp":
        if (rest[0] !== undefined && !rest[0].startsWith("-")) return await mcp(rest);
        return rest.some((word) => word.startsWith("--url"))
          ? await bridgeMcp(rest)
          : await serveMcp(rest);
      case "grants":
        return await grants(rest);
      case "runs":
        return await runs(rest);
      case "help":
      case "--help":
      case "-h":
        print(HELP);
        return EXIT.ok;
      case undefined:
        printError(HELP);
        return EXIT.usage;
      default:
        printError(`There is no command ${command}\n\n${HELP}`);
        return EXIT.usage;
    }
  } catch (error) {
    if (error instanceof HubError) {
      printError(visibleText(error.message));
      return error.code === "invalid_configuration" ? EXIT.configuration : EXIT.failed;
    }
    if (
      error instanceof TypeError && "code" in error &&
      String(error.code).startsWith("ERR_PARSE_ARGS")
    ) {
      printError(`${error.message}\n\n${HELP}`);
      return EXIT.usage;
    }
    printError(error instanceof Error ? error.stack ?? error.message : String(error));
    return EXIT.failed;
  }
}
