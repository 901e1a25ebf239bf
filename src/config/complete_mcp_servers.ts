import { resolve } from "node:path";
import { checkHeaders } from "./check_headers.ts";
import { quoteGot } from "./describe_got.ts";
import { MAX_ROOTS, type McpServer, ROOT_PATTERN, ROOT_WANTED } from "./mcp_schema.ts";
import type { ProblemList } from "./problem.ts";

/** How an MCP server is spoken to. */
export type McpTransport = "stdio" | "http" | "sse" | "ws";

/** An MCP server with nothing left to decide; its texts still hold `${VAR}`. */
export interface LoadedMcpServer
  extends Omit<McpServer, "command" | "environment" | "type" | "prefix" | "protocol"> {
  /** What its tools' names begin with; no two servers have the same. */
  slug: string;
  /** Whether its tools' names do begin with it. */
  isPrefixed: boolean;
  transport: McpTransport;
  /** Whether another transport may be taken where the server does not know this one. */
  mayFallBack: boolean;
  protocol: NonNullable<McpServer["protocol"]>;
  /** The program and its arguments; empty for servers elsewhere. */
  argv: readonly string[];
}

/** Operations of the hub itself begin so. */
const RESERVED = "hub";
const MAX_SLUG = 20;
/** What the protocol and its transports set. */
const OWN_HEADERS =
  /^(?:sec-websocket-.*|mcp-(?:session-id|protocol-version|method|name)|last-event-id)$/;
const ABSOLUTE = new RegExp(ROOT_PATTERN);

/** Settles transport, slug and program of each server, and checks what a schema cannot. */
export function completeMcpServers(
  servers: Readonly<Record<string, McpServer>>,
  { folder, problems }: { folder: string; problems: ProblemList },
): Record<string, LoadedMcpServer> {
  const owners = new Map<string, string>([[RESERVED, "the hub itself"]]);
  const completed: Record<string, LoadedMcpServer> = {};
  for (const [name, server] of Object.entries(servers)) {
    const path = ["mcpServers", name];
    const isPrefixed = server.prefix !== false;
    const slug = server.prefix || toSlug(name);
    const owner = owners.get(slug);
    if (owner !== undefined) {
      problems.add([...path, "prefix"], {
        got: `${quoteGot(slug)}, which ${owner} has`,
        wanted: "a prefix of its own",
      });
    }
    owners.set(slug, name);
    const { command, args, env, environment, type: _, prefix: __, ...others } = server;
    const argv = [...typeof command === "string" ? [command] : command ?? [], ...args ?? []];
    const transport = transportOf(server);
    if (transport === null || (command === undefined) === (server.url === undefined)) {
      problems.add(path, {
        got: describeForm(server),
        wanted: "a program (command, args, env) or an address (url, headers), as its type says",
      });
      continue;
    }
    checkRoots(server, { path, problems });
    const headers = server.headers ?? {};
    checkHeaders(headers, { path: [...path, "headers"], own: OWN_HEADERS, problems });
    const variables = { ...environment, ...env };
    completed[name] = {
      ...others,
      slug,
      isPrefixed,
      transport,
      mayFallBack: transport === "http" && server.transport === undefined &&
        (server.type === undefined || server.type === "remote"),
      protocol: server.protocol ?? (transport === "http" ? "auto" : "legacy"),
      argv,
      ...(Object.keys(variables).length === 0 ? {} : { env: variables }),
      ...(server.cwd === undefined ? {} : { cwd: resolve(folder, server.cwd) }),
    };
  }
  return completed;
}

function checkRoots(
  { roots = [] }: McpServer,
  { path, problems }: { path: string[]; problems: ProblemList },
): void {
  if (roots.length > MAX_ROOTS) {
    const got = `${roots.length} places`;
    problems.add([...path, "roots"], { got, wanted: `${MAX_ROOTS} at most` });
  }
  for (const [index, root] of roots.entries()) {
    const uri = typeof root === "string" ? root : root.uri;
    if (ABSOLUTE.test(uri)) continue;
    const got = quoteGot(uri.slice(0, 80));
    problems.add([...path, "roots", index], { got, wanted: ROOT_WANTED });
  }
}

function toSlug(name: string): string {
  const clean = name.toLowerCase().replace(/[^a-z0-9-]+/g, "-").replace(/^-+|-+$/g, "");
  return clean.slice(0, MAX_SLUG).replace(/-+$/, "") || "mcp";
}

/** Null when program, address and type contradict each other. */
function transportOf({ transport, type, command, url }: McpServer): McpTransport | null {
  const isWs = /^wss?:/i.test(url ?? "");
  const isHttp = /^https?:/i.test(url ?? "") || (url ?? "").startsWith("${");
  const wanted = transport ?? nameOf(type);
  if (command !== undefined) return wanted === null || wanted === "stdio" ? "stdio" : null;
  if (wanted === "stdio" || !isWs && !isHttp) return null;
  if (isWs) return wanted === null || wanted === "ws" ? "ws" : null;
  return wanted ?? "http";
}

function nameOf(type: McpServer["type"]): McpTransport | null {
  switch (type) {
    case "stdio":
    case "local":
      return "stdio";
    case "sse":
    case "ws":
      return type;
    case undefined:
    case "remote":
      return null;
    default:
      return "http";
  }
}

function describeForm({ command, url, type, transport }: McpServer): string {
  const parts = [
    command === undefined ? "no command" : "a command",
    url === undefined ? "no url" : `the url ${quoteGot(url.slice(0, 80))}`,
    ...type === undefined ? [] : [`type ${type}`],
    ...transport === undefined ? [] : [`transport ${transport}`],
  ];
  return parts.join(", ");
}
