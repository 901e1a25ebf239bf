import { type Static, Type } from "@sinclair/typebox";
import { HubError } from "../../core/error.ts";
import { isLoopbackHost } from "../../core/private_address.ts";
import { clientMetadata } from "../../mcp/oauth/authorization.ts";
import type { McpAuthorize } from "../../policy/mcp_authorize.ts";
import { type GrantFacts, WHOLE_TENANT } from "../../store/mcp_grants.ts";
import type { Call } from "../call.ts";
import type { HubRequest } from "../hub_request.ts";
import { bytesReply, emptyReply, jsonReply, type Reply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { Time } from "./schemas.ts";

/** What the routes of authorizations at MCP servers need. */
export interface McpAuthorizeRoutesOptions {
  authorize: McpAuthorize;
  /** Where the hub is seen from outside, without a slash at its end; undefined for the address of the request. */
  publicUrl: string | undefined;
}

const CALLBACK = "/v1/mcp/oauth/callback";
const CLIENT_METADATA = "/v1/mcp/oauth/client.json";

const Params = Type.Object({ server: Type.String({ minLength: 1, maxLength: 64 }) });
const text = (maxLength: number) => Type.Optional(Type.String({ maxLength }));
const Callback = Type.Object({
  state: Type.String({ maxLength: 200 }),
  code: text(4096),
  iss: text(2048),
  error: text(200),
});
const Begun = Type.Object({
  url: Type.String({ description: "Where a person lets the hub in" }),
  expiresAt: Time,
});
const Nullable = Type.Union([Type.String(), Type.Null()]);
const Status = Type.Object({
  server: Type.String(),
  state: Type.Union([
    Type.Literal("none"),
    Type.Literal("ready"),
    Type.Literal("needs_auth"),
  ]),
  forTenant: Type.Boolean({ description: "Whether it is that of all keys" }),
  issuer: Nullable,
  scope: Nullable,
  reason: Nullable,
  authorizedAt: Type.Union([Time, Type.Null()]),
  expiresAt: Type.Union([Time, Type.Null()]),
});

const ClientDocument = Type.Object({
  client_id: Type.String(),
  client_name: Type.String(),
  redirect_uris: Type.Array(Type.String()),
}, { description: "OAuth Client ID Metadata Document" });

const NOT_FOUND = { 404: { description: "There is no such server that can be authorized" } };
const STATUS = { 200: { description: "How it stands", schema: Status }, ...NOT_FOUND };
const BEGUN = { 200: { description: "The address, for ten minutes", schema: Begun }, ...NOT_FOUND };
const GONE = { 204: { description: "It is gone" }, 404: { description: "There was none" } };

/** Authorizations of the hub at MCP servers: begun with a key, finished by the browser that comes back. */
export function mcpAuthorizeRoutes(options: McpAuthorizeRoutesOptions): Route[] {
  const { authorize } = options;
  type ServerCall = Call<Static<typeof Params>>;
  const wish = ({ params: { server }, principal }: ServerCall, isForTenant: boolean) => ({
    server,
    principal,
    isForTenant,
  });
  const show = async (call: ServerCall, isForTenant: boolean) =>
    jsonReply(toStatus(call.params.server, await authorize.status(wish(call, isForTenant))));
  const begin = async (call: ServerCall, isForTenant: boolean) => {
    const base = baseUrl(options.publicUrl, call.request);
    const { url, expiresAt } = await authorize.begin(wish(call, isForTenant), {
      redirectUri: base + CALLBACK,
      metadataUrl: base.startsWith("https:") ? base + CLIENT_METADATA : null,
    });
    return jsonReply({ url, expiresAt: new Date(expiresAt).toISOString() });
  };
  const forget = async (call: ServerCall, isForTenant: boolean) => {
    if (await authorize.forget(wish(call, isForTenant))) return emptyReply();
    throw new HubError("not_found", `Nobody has authorized the hub at ${call.params.server}`);
  };
  const own = { auth: "user", tag: "mcp", params: Params, takesRoom: false } as const;
  const all = { auth: "admin", tag: "admin", params: Params } as const;
  return [
    defineRoute({
      ...own,
      method: "GET",
      path: "/v1/mcp/:server/authorize",
      summary: "How the authorization of this key at an MCP server stands",
      responses: STATUS,
      handle: (call) => show(call, false),
    }),
    defineRoute({
      ...own,
      method: "POST",
      path: "/v1/mcp/:server/authorize",
      summary: "Begin to authorize the hub at an MCP server, for this key",
      responses: BEGUN,
      handle: (call) => begin(call, false),
    }),
    defineRoute({
      ...own,
      method: "DELETE",
      path: "/v1/mcp/:server/authorize",
      summary: "Forget what this key has authorized at an MCP server",
      responses: GONE,
      handle: (call) => forget(call, false),
    }),
    defineRoute({
      ...all,
      method: "GET",
      path: "/v1/admin/mcp/:server/authorize",
      summary: "How the authorization of all keys at an MCP server stands",
      responses: STATUS,
      handle: (call) => show(call, true),
    }),
    defineRoute({
      ...all,
      method: "POST",
      path: "/v1/admin/mcp/:server/authorize",
      summary:
        "Begin to authorize the hub at an MCP server, for all keys that have none of their own",
      responses: BEGUN,
      handle: (call) => begin(call, true),
    }),
    defineRoute({
      ...all,
      method: "DELETE",
      path: "/v1/admin/mcp/:server/authorize",
      summary: "Forget what was authorized at an MCP server for all keys",
      responses: GONE,
      handle: (call) => forget(call, true),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/mcp/oauth/callback",
      auth: "public",
      tag: "mcp",
      summary: "Where authorization servers send the browser back to",
      query: Callback,
      responses: {
        200: { description: "The hub is authorized", contentType: "text/plain" },
        400: { description: "Nothing is known of it, or no more" },
      },
      async handle({ query }) {
        const server = await authorize.finish(query);
        return page(`Loophub is authorized at ${server}. This window can be closed.\n`);
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/mcp/oauth/client.json",
      auth: "public",
      tag: "mcp",
      summary: "What the hub says of itself to authorization servers (client-id metadata document)",
      responses: {
        200: { description: "The document", schema: ClientDocument },
        404: { description: "server.publicUrl is no https address" },
      },
      handle() {
        const { publicUrl } = options;
        if (publicUrl?.startsWith("https:") !== true) {
          throw new HubError("not_found", "server.publicUrl is no https address");
        }
        return jsonReply({
          ...clientMetadata(publicUrl + CALLBACK),
          client_id: publicUrl + CLIENT_METADATA,
          client_uri: publicUrl,
          token_endpoint_auth_method: "none",
        });
      },
    }),
  ];
}

/** Names of hosts that a request brings lead a code nowhere: only this machine's own do. */
function baseUrl(publicUrl: string | undefined, request: HubRequest): string {
  if (publicUrl !== undefined) return publicUrl;
  const host = request.header("host") ?? "";
  if (isLoopbackHost(host.replace(/:\d{1,5}$/, ""))) return `http://${host}`;
  throw new HubError(
    "invalid_request",
    "server.publicUrl is not set, and authorization servers need an address to send browsers back to",
  );
}

/** Nothing of its address, which holds a code, goes anywhere. */
function page(words: string): Reply {
  return bytesReply(words, {
    contentType: "text/plain; charset=utf-8",
    headers: {
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
      "content-security-policy": "default-src 'none'",
      "x-content-type-options": "nosniff",
    },
  });
}

function toStatus(server: string, grant: GrantFacts | null): Static<typeof Status> {
  const time = (ms: number | null) => ms === null ? null : new Date(ms).toISOString();
  return {
    server,
    state: grant?.state ?? "none",
    forTenant: grant?.owner === WHOLE_TENANT,
    issuer: grant?.issuer ?? null,
    scope: grant?.scope ?? null,
    reason: grant?.reason ?? null,
    authorizedAt: time(grant?.authorizedAt ?? null),
    expiresAt: time(grant?.expiresAt ?? null),
  };
}
