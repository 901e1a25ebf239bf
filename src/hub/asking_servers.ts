import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import type { ResolvedConfig } from "../config/load.ts";
import type { Log } from "../core/log.ts";
import { mayFitPrefix } from "../core/name_pattern.ts";

/** An MCP server of whose tools nothing is said, and the agents that will ask a person about them. */
export interface AskingServer {
  server: string;
  agents: string[];
}

/** What to set for such a server, in words. */
const SAY_EFFECTS =
  'say which of its tools only read, such as "effect": { "read_*": "pure" }, or "trust": true where the server is your own and says so itself';

/**
 * The servers of which each call asks a person once a run has read their first answer: neither `trust` nor `effect` says
 * that any tool changes nothing, and an agent that may use them asks after it has read what others wrote.
 */
export function askingServers(
  { mcpServers, agents }: Pick<ResolvedConfig, "mcpServers" | "agents">,
): AskingServer[] {
  return Object.entries(mcpServers).flatMap(([name, server]) => {
    const { enabled, trust, effect = {} } = server;
    if (!enabled || trust || Object.values(effect).includes("pure")) return [];
    const asking = Object.entries(agents).flatMap(([agent, { tools, approvals }]) =>
      approvals?.tainted !== "allow" && mayUse(tools, server) ? [agent] : []
    );
    return asking.length === 0 ? [] : [{ server: name, agents: asking }];
  });
}

/** Says of each such server, once, what to set. */
export function tellAskingServers(
  config: Pick<ResolvedConfig, "mcpServers" | "agents">,
  { told, log }: { told: Set<string>; log: Pick<Log, "warn"> },
): void {
  for (const asking of askingServers(config)) {
    const text = describeAsking(asking);
    if (!told.has(text)) log.warn(text);
    told.add(text);
  }
}

/** What there is to know of such a server, in words. */
export function describeAsking({ server, agents }: AskingServer): string {
  return `mcpServers.${server}: each call by ${
    agents.join(", ")
  } asks a person once one was answered; ${SAY_EFFECTS}`;
}

/** Whether some tool of a server fits a pattern, so far as that can be told without asking the server. */
export function mayFitServer(
  pattern: string,
  { slug, isPrefixed }: Pick<LoadedMcpServer, "slug" | "isPrefixed">,
): boolean {
  return mayFitPrefix(pattern, isPrefixed ? `${slug}__` : "");
}

function mayUse(patterns: readonly string[], server: LoadedMcpServer): boolean {
  const wanted = patterns.filter((pattern) => !pattern.startsWith("!"));
  const isTaken = patterns.some((pattern) =>
    pattern === "!*" || (server.isPrefixed && pattern === `!${server.slug}__*`)
  );
  if (isTaken || patterns.length === 0) return false;
  return wanted.length === 0 || wanted.some((pattern) => mayFitServer(pattern, server));
}
