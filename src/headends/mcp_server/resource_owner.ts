import type { McpConnection } from "../../mcp/connection.ts";
import { type McpContent, NO_CONTENT } from "../../mcp/read_content.ts";
import { outwardUri } from "../../mcp/tool_names.ts";
import type { CallersContent, ContentCaller } from "../../policy/callers_content.ts";

/** A server of a caller, and what of it the caller may use. */
export interface Served {
  connection: McpConnection;
  content: McpContent;
}

/** The servers of a caller. Never waits for a server: what is not known yet is told once it is. */
export async function servedTo(content: CallersContent, caller: ContentCaller): Promise<Served[]> {
  return (await content.servers(caller)).map((connection) => ({
    connection,
    content: content.restrict(caller, connection, connection.content.listing ?? NO_CONTENT),
  }));
}

/** The server that a URI of a client belongs to, and the URI that it knows: by prefix, else by what is listed. */
export function findOwner(
  served: readonly Served[],
  uri: string,
): { connection: McpConnection; own: string } | null {
  for (const { connection } of served) {
    const start = outwardUri(connection.server, "");
    if (start !== "" && uri.startsWith(start)) return { connection, own: uri.slice(start.length) };
  }
  const plain = served.filter(({ connection }) => !connection.server.isPrefixed);
  const having = (isIt: (content: McpContent) => boolean) =>
    plain.find(({ content }) => isIt(content));
  // What one server lists is never another's, however much a template of that takes in.
  const owner = having(({ resources }) => resources.some((own) => own.uri === uri)) ??
    having(({ templates }) => templates.some(({ uriTemplate }) => uriTemplate === uri)) ??
    having(({ templates }) => templates.some(({ uriTemplate }) => fits(uriTemplate, uri))) ??
    plain[0];
  return owner === undefined ? null : { connection: owner.connection, own: uri };
}

/** Whether a URI begins and ends as a template does. */
function fits(template: string, uri: string): boolean {
  const open = template.indexOf("{");
  if (open < 0) return false;
  const end = template.slice(template.lastIndexOf("}") + 1);
  return uri.startsWith(template.slice(0, open)) && uri.endsWith(end);
}
