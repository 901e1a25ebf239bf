import { Type } from "@sinclair/typebox";
import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import { HubError } from "../core/error.ts";
import type { HandedCredentials } from "../core/handed_credentials.ts";
import { isJsonObject, type Json } from "../core/json.ts";
import { HANDED_FIELD, HANDED_PREFIX, type HandedPart, readHanded } from "../mcp/read_handed.ts";
import type { Call } from "./call.ts";

/** What handing credentials over needs. */
export interface HandedOptions {
  /** MCP servers as they are configured now. */
  mcpServers(): Readonly<Record<string, LoadedMcpServer>>;
}

/** How the header is described to those who read `/openapi.json`. */
export const HANDED_HEADER: Readonly<Record<string, string>> = Object.freeze({
  [`${HANDED_PREFIX}{prefix}`]:
    "A credential for the MCP server of this prefix, for this run's calls to it only",
});

/** The field of a body that does the same; checked by `handedOf`, whose errors say nothing of what came. */
export const HandedField = {
  [HANDED_FIELD]: Type.Optional(
    Type.Unknown({ description: "Credentials of this run for MCP servers, by their prefixes" }),
  ),
};

/**
 * What a request hands over, in headers and in its body; null for nothing. Throws `invalid_request`, and `permission_denied`
 * for a request with a browser token: a page must not choose the account with which a run calls servers.
 */
export function handedOf(
  { request, body, principal }: Pick<Call, "request" | "body" | "principal">,
  { mcpServers }: HandedOptions,
): HandedCredentials | null {
  const parts = request.headersFrom(HANDED_PREFIX).map(([place, value]): HandedPart => ({
    slug: place.slice(HANDED_PREFIX.length),
    value,
    place,
  }));
  const field = isJsonObject(body as Json)
    ? (body as { [HANDED_FIELD]?: Json })[HANDED_FIELD]
    : undefined;
  if (principal.scope !== undefined && (parts.length > 0 || field !== undefined)) {
    throw new HubError(
      "permission_denied",
      "A request with a browser token may not bring credentials for MCP servers",
      {
        param: parts[0]?.place ?? HANDED_FIELD,
      },
    );
  }
  if (field !== undefined && !isJsonObject(field)) throw refuse(HANDED_FIELD, "it is no object");
  for (const [slug, value] of Object.entries(field ?? {})) {
    const place = `${HANDED_FIELD}.${slug.slice(0, 40)}`;
    if (typeof value !== "string") throw refuse(place, "it is no text");
    parts.push({ slug, value, place });
  }
  return readHanded(parts, mcpServers());
}

/** Hands a run that goes on, or waits, other credentials. Throws `invalid_request` for a server that it has none for. */
export function handOver(
  given: HandedCredentials,
  { runId, before }: { runId: string; before: HandedCredentials },
): void {
  if (before.take(given)) return;
  throw new HubError(
    "invalid_request",
    `${runId} began with credentials for ${
      before.servers.join() || "no MCP server"
    }, and takes others for these only`,
  );
}

function refuse(place: string, problem: string): HubError {
  return new HubError("invalid_request", `${place}: ${problem}`, { param: place });
}
