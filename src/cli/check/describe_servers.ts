import { resolve } from "node:path";
import type { LoadedMcpServer } from "../../config/complete_mcp_servers.ts";
import type { ResolvedConfig } from "../../config/load.ts";
import { askingServers, describeAsking } from "../../hub/asking_servers.ts";

type Row = [string, string];

/**
 * The MCP servers of a configuration: how each is reached, what its tools are called, what is held of them. None is
 * started or connected to, and no argument, variable or path is shown, as they may be secrets.
 */
export async function describeServers(
  config: Pick<ResolvedConfig, "mcpServers" | "agents">,
  { isProgram }: { isProgram(name: string): Promise<boolean> },
): Promise<Row[]> {
  const rows = await Promise.all(
    Object.entries(config.mcpServers).map(async ([name, server]): Promise<Row> => {
      const facts = [
        server.enabled ? await describeWay(server, isProgram) : "disabled",
        server.isPrefixed ? `tools ${server.slug}__*` : "tools without a prefix",
        ...describeList("only", server.tools?.allow),
        ...describeList("without", server.tools?.deny),
        server.trust ? "trusted" : "its definitions are pinned",
        ...describeEffects(server),
      ];
      return ["mcp server", `${name}: ${facts.join("; ")}`];
    }),
  );
  const asking = askingServers(config).map((one): Row => ["asks much", describeAsking(one)]);
  return [...rows, ...asking];
}

async function describeWay(
  { transport, argv, url = "", cwd = "", env = {} }: LoadedMcpServer,
  isProgram: (name: string) => Promise<boolean>,
): Promise<string> {
  if (transport !== "stdio") return `${transport} ${originOf(url)}`;
  const [program = ""] = argv;
  const isElsewhere = program.includes("${") || "PATH" in env;
  const place = program.includes("/") ? resolve(cwd, program) : program;
  const isKnown = isElsewhere || await isProgram(place);
  return isKnown ? `program ${program}` : `program ${program}, which is not found here`;
}

/** Paths and queries may hold keys. */
function originOf(url: string): string {
  if (!URL.canParse(url)) return "at an address with variables";
  const { protocol, host } = new URL(url);
  return `${protocol}//${host}`;
}

function describeList(word: string, patterns: readonly string[] | undefined): string[] {
  return patterns === undefined ? [] : [`${word} ${patterns.join(", ") || "none"}`];
}

function describeEffects({ effect = {} }: LoadedMcpServer): string[] {
  const said = Object.entries(effect).map(([pattern, effect]) => `${pattern} ${effect}`);
  return said.length === 0 ? [] : [said.join(", ")];
}
