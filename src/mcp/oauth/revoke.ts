import type { OAuthTokens } from "@modelcontextprotocol/client";
import { HubError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Grantor } from "./authorization.ts";
import type { Fetch } from "./guarded_fetch.ts";

/**
 * Voids tokens at the authorization server that gave them (RFC 7009); false when it has no place for that. Rejects when it
 * did not void both; each was tried.
 */
export async function revoke(
  { grantor, tokens, fetch }: { grantor: Grantor; tokens: OAuthTokens; fetch: Fetch },
): Promise<boolean> {
  const { revocation_endpoint: endpoint } = named(grantor);
  if (typeof endpoint !== "string") return false;
  const kinds = ["refresh_token", "access_token"] as const;
  const tried = await Promise.allSettled(kinds.map(async (kind) => {
    const token = tokens[kind];
    if (token === undefined) return;
    const { headers, facts } = introduce(grantor);
    const body = new URLSearchParams({ token, token_type_hint: kind, ...facts });
    const { status } = await fetch(endpoint, { method: "POST", headers, body });
    if (status === 200) return;
    throw new HubError(
      "upstream_error",
      `Revoking the ${kind} at ${grantor.issuer} was answered with ${status}, wanted 200`,
    );
  }));
  for (const one of tried) if (one.status === "rejected") throw one.reason;
  return true;
}

/** The hub as the client that the tokens were given to, as it introduced itself then (RFC 6749, 2.3.1). */
function introduce(
  grantor: Grantor,
): { headers: Record<string, string>; facts: Record<string, string> } {
  const { client } = grantor;
  const { client_id: id, client_secret: secret } = client;
  if (secret === undefined) return { headers: {}, facts: { client_id: id } };
  const chosen = "token_endpoint_auth_method" in client ? client.token_endpoint_auth_method : null;
  const said = named(grantor);
  const methods = said["revocation_endpoint_auth_methods_supported"] ??
    said["token_endpoint_auth_methods_supported"];
  const known = Array.isArray(methods) ? methods : [];
  const isPosted = chosen === "client_secret_post" ||
    chosen !== "client_secret_basic" && known.includes("client_secret_post") &&
      !known.includes("client_secret_basic");
  if (isPosted) return { headers: {}, facts: { client_id: id, client_secret: secret } };
  const pair = `${encodeURIComponent(id)}:${encodeURIComponent(secret)}`;
  return { headers: { authorization: `Basic ${btoa(pair)}` }, facts: {} };
}

/** What the authorization server says of itself, in whichever of its documents (RFC 8414, OpenID Connect). */
function named({ metadata }: Grantor): JsonObject {
  return (metadata ?? {}) as JsonObject;
}
