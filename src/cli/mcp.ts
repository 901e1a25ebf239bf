import { parseArgs } from "node:util";
import { McpServers } from "../mcp/mcp_servers.ts";
import { type ShownServer, showServer } from "../mcp/shown_server.ts";
import { foreignParameters, foreignValidator } from "../operations/foreign_schema.ts";
import { type Command, type Forms, isVerb, refuseCall } from "./command.ts";
import { findRemote } from "./find_remote.ts";
import { EXIT } from "./exit_codes.ts";
import { askRunningHub, type McpQuestion } from "./mcp_remote.ts";
import { bridgeMcp } from "./mcp_bridge.ts";
import { serveMcp } from "./mcp_stdio.ts";
import { print, printError, printText } from "./print.ts";
import { loadSystemConfig, systemHubOptions } from "./system.ts";

const QUESTIONS: Forms<McpQuestion> = {
  list: { args: "[--json]", summary: "the MCP servers of the configuration" },
  status: { args: "[NAME] [--json]", summary: "how they stand; connects only without --url" },
  test: { args: "[NAME] [--json]", summary: "connect to all, or one, and say how they stand" },
  tools: { args: "[NAME] [--json]", summary: "the tools that they offer to agents" },
  refresh: {
    args: "NAME --url URL",
    summary: "have a running hub read what a server lists again",
  },
  logs: {
    args: "NAME",
    summary: "what went between hub and server, if it is traced; the end of its stderr",
  },
};

/** `loophub mcp`. */
export const MCP: Command = {
  name: "mcp",
  forms: {
    "": { args: "[--config FILE]", summary: "be an MCP server over stdin and stdout" },
    "--url": { args: "URL [--key-env NAME]", summary: "be that of a running hub" },
    ...QUESTIONS,
  },
  notes:
    "With --url, a running hub is asked; the variable LOOPHUB_KEY, or that of --key-env, has an admin key.",
  run(args) {
    if (args[0] !== undefined && !args[0].startsWith("-")) return look(args);
    return args.some((word) => word.startsWith("--url")) ? bridgeMcp(args) : serveMcp(args);
  },
};

/** Looks at MCP servers from here, without a running hub. Ends with 1 when one that is asked is not ready. */
async function look(args: string[]): Promise<number> {
  const { values, positionals: [what, name] } = parseArgs({
    args,
    options: {
      config: { type: "string" },
      json: { type: "boolean" },
      url: { type: "string" },
      "key-env": { type: "string" },
    },
    allowPositionals: true,
  });
  const wantsName = what === "logs" || what === "refresh";
  if (what === undefined || !isVerb(QUESTIONS, what) || wantsName && name === undefined) {
    return refuseCall(MCP, [what, name].filter((word) => word !== undefined));
  }
  if (values.url !== undefined) {
    const hub = findRemote({ url: values.url, variable: values["key-env"] });
    if (hub === null) return EXIT.usage;
    try {
      return await askRunningHub(what, { hub, name, isJson: values.json === true });
    } catch (error) {
      printError(error instanceof Error ? error.message : String(error));
      return EXIT.failed;
    }
  }
  if (what === "refresh") {
    printError("loophub mcp refresh asks a running hub: give its address with --url");
    return EXIT.usage;
  }
  const options = systemHubOptions(await loadSystemConfig(values.config), { quiet: true });
  const { mcpServers } = options.loaded.config;
  if (what === "list") {
    for (const [server, { transport, slug, enabled, argv, url }] of Object.entries(mcpServers)) {
      const where = options.redact(argv.length > 0 ? argv.join(" ") : url ?? "");
      printText(`${server}  ${transport}  ${slug}__*  ${enabled ? "" : "(disabled)  "}${where}`);
    }
    return EXIT.ok;
  }
  const chosen = name === undefined
    ? Object.entries(mcpServers)
    : Object.entries(mcpServers).filter(([server]) => server === name);
  if (name !== undefined && chosen.length === 0) {
    const known = Object.keys(mcpServers).join(", ") || "none";
    printError(`There is no MCP server ${name}; configured are ${known}`);
    return EXIT.usage;
  }
  const servers = new McpServers({
    ...options,
    servers: Object.fromEntries(chosen),
    schemas: { parametersOf: foreignParameters, validatorOf: foreignValidator },
    observe() {},
  });
  try {
    const shown = await Promise.all(servers.connections.map(async (connection) => {
      await connection.connect();
      // At once: while others are still connected to, this one may be tried again.
      const { clock, redact } = options;
      return showServer(connection, { nowMs: clock.monotonic(), redact });
    }));
    if (values.json) print(JSON.stringify(shown, null, 2));
    else for (const server of shown) show(what, server);
    const isWell = shown.every(({ state }) => state === "ready" || state === "disabled");
    return isWell ? EXIT.ok : EXIT.failed;
  } finally {
    await servers.close();
  }
}

function show(what: McpQuestion, server: ShownServer): void {
  const { name, state, reason, tools, dropped, stderr } = server;
  if (what === "logs") return printText(stderr.trimEnd());
  if (what === "test" || what === "status" || state !== "ready") {
    const count = state === "ready" ? `, ${tools.length} tools` : "";
    printText(`${name}: ${state}${reason === null ? "" : ` (${reason})`}${count}`);
  }
  if (what === "tools") {
    for (const { name, description } of tools) {
      printText(`${name}  ${description.split("\n")[0]?.slice(0, 100) ?? ""}`);
    }
  }
  for (const left of dropped) printText(`${name}: ${left.name} is left out: ${left.reason}`);
}
