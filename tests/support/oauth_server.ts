import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import type { JsonObject } from "../../src/core/json.ts";

/** How an OAuth server of a test misbehaves, or what it lacks. */
export interface OAuthSwitches {
  /** Changes what a path answers, metadata among them. */
  answer?: (path: string, body: JsonObject) => JsonObject | Response;
  /** Seconds that access tokens live; left out when they say nothing of it. */
  lifeSeconds?: number;
  /** Whether a refresh gives another refresh token, and voids the one before; true unless told. */
  rotates?: boolean;
  /** Awaited before each refresh is answered. */
  beforeRefresh?: () => Promise<void>;
  /** What a token endpoint answers instead. */
  onToken?: (form: URLSearchParams) => Response | null;
  /** Whether the MCP server lets nobody in, whatever the token. */
  refusesAll?: boolean;
  /** What it answers to a revocation; 200 unless told. */
  revokeStatus?: number;
  /** What its tool `whoami` says of itself. */
  description?: string;
  /** Whether its challenge says nothing of metadata. */
  oldChallenge?: boolean;
  /** The scope that `whoami` needs beside that of the token. */
  wantsScope?: string;
}

interface Token {
  user: string;
  clientId: string;
  resource: string;
  scope: string;
}

interface Code extends Token {
  challenge: string;
  redirectUri: string;
}

/** An authorization server, and a real MCP server that takes its tokens only, on one loopback address. */
export interface OAuthServer {
  origin: string;
  /** The address of the MCP server. */
  url: string;
  switches: OAuthSwitches;
  counts: {
    registrations: number;
    authorizations: number;
    codes: number;
    refreshes: number;
    unauthorized: number;
    calls: number;
    /** Kinds of tokens that were voided by their client. */
    revoked: string[];
  };
  /** `Authorization` of each request that the MCP server has let in. */
  seen: string[];
  /** All headers that came, as text. */
  headers: string[];
  /** All tokens, codes and client secrets that were ever given out. */
  secrets: Set<string>;
  /** Does as a person would: opens the address, agrees as `user`, and gives the address that the browser is sent back to. */
  approve(url: string, user: string): Promise<URL>;
  /** Voids all access tokens; refresh tokens hold. */
  expireAll(): void;
  /** Voids everything of a user. */
  revoke(user: string): void;
  stop(): Promise<void>;
}

/** Starts them. Each MCP tool `whoami` answers with the user; each user has a tool of its own, `secret_of_<user>`. */
export function startOAuthServer(switches: OAuthSwitches = {}): OAuthServer {
  const access = new Map<string, Token>();
  const refreshes = new Map<string, Token>();
  const codes = new Map<string, Code>();
  const clients = new Map<string, { secret: string | null; redirectUris: string[] }>();
  const secrets = new Set<string>();
  const mint = (kind: string) => {
    const token = `${kind}_${crypto.randomUUID().replaceAll("-", "")}`;
    secrets.add(token);
    return token;
  };
  const counts: OAuthServer["counts"] = {
    registrations: 0,
    authorizations: 0,
    codes: 0,
    refreshes: 0,
    unauthorized: 0,
    calls: 0,
    revoked: [],
  };
  const seen: string[] = [];
  const headers: string[] = [];

  const give = (token: Token) => {
    const [first, second] = [mint("access"), mint("refresh")];
    access.set(first, token);
    refreshes.set(second, token);
    const { lifeSeconds } = server.switches;
    return Response.json({
      access_token: first,
      refresh_token: second,
      token_type: "Bearer",
      scope: token.scope,
      ...(lifeSeconds === undefined ? {} : { expires_in: lifeSeconds }),
    });
  };
  const fail = (error: string, status = 400) =>
    Response.json({ error, error_description: "told by the test" }, { status });

  const token = async (request: Request): Promise<Response> => {
    const form = new URLSearchParams(await request.text());
    const odd = server.switches.onToken?.(form) ?? null;
    if (odd !== null) return odd;
    const [basicId, basicSecret] = atob(
      /^Basic (.+)$/.exec(request.headers.get("authorization") ?? "")?.[1] ?? "",
    ).split(":").map(decodeURIComponent);
    const clientId = form.get("client_id") ?? basicId ?? "";
    const client = clients.get(clientId);
    const given = form.get("client_secret") ?? basicSecret ?? null;
    if (!clientId.startsWith("https://")) {
      if (client === undefined || client.secret !== (given || null)) {
        return fail("invalid_client", 401);
      }
    }
    if (form.get("grant_type") === "authorization_code") {
      counts.codes++;
      const code = codes.get(form.get("code") ?? "");
      codes.delete(form.get("code") ?? "");
      const verifier = new TextEncoder().encode(form.get("code_verifier") ?? "");
      const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", verifier));
      const isProven =
        digest.toBase64({ alphabet: "base64url", omitPadding: true }) === code?.challenge;
      if (
        code === undefined || !isProven || code.clientId !== clientId ||
        code.redirectUri !== form.get("redirect_uri") || code.resource !== form.get("resource")
      ) return fail("invalid_grant");
      return give(code);
    }
    counts.refreshes++;
    await server.switches.beforeRefresh?.();
    const refreshToken = form.get("refresh_token") ?? "";
    const before = refreshes.get(refreshToken);
    if (before === undefined || before.clientId !== clientId) return fail("invalid_grant");
    if (server.switches.rotates !== false) refreshes.delete(refreshToken);
    return give(before);
  };

  const revoke = async (request: Request): Promise<Response> => {
    const form = new URLSearchParams(await request.text());
    const [id, secret] = atob(
      /^Basic (.+)$/.exec(request.headers.get("authorization") ?? "")?.[1] ?? "",
    ).split(":").map(decodeURIComponent);
    const client = clients.get(form.get("client_id") ?? id ?? "");
    if (client === undefined || client.secret !== (form.get("client_secret") ?? secret)) {
      return fail("invalid_client", 401);
    }
    const { revokeStatus = 200 } = server.switches;
    if (revokeStatus !== 200) return new Response("no", { status: revokeStatus });
    const voided = form.get("token") ?? "";
    if (access.delete(voided) || refreshes.delete(voided)) {
      server.counts.revoked.push(form.get("token_type_hint") ?? "");
    }
    return new Response(null, { status: 200 });
  };

  const authorize = (url: URL): Response => {
    counts.authorizations++;
    const facts = url.searchParams;
    const redirectUri = facts.get("redirect_uri") ?? "";
    const clientId = facts.get("client_id") ?? "";
    const client = clients.get(clientId);
    const isKnown = clientId.startsWith("https://") || client?.redirectUris.includes(redirectUri);
    if (!isKnown || facts.get("code_challenge_method") !== "S256") return fail("invalid_request");
    const code = mint("code");
    codes.set(code, {
      user: facts.get("test_user") ?? "nobody",
      clientId,
      resource: facts.get("resource") ?? "",
      scope: facts.get("scope") ?? "",
      challenge: facts.get("code_challenge") ?? "",
      redirectUri,
    });
    const back = new URL(redirectUri);
    back.searchParams.set("code", code);
    back.searchParams.set("state", facts.get("state") ?? "");
    back.searchParams.set("iss", server.origin);
    return new Response(null, { status: 302, headers: { location: back.href } });
  };

  const mcp = async (request: Request): Promise<Response> => {
    headers.push(JSON.stringify([...request.headers]));
    const bearer = /^Bearer (.+)$/.exec(request.headers.get("authorization") ?? "")?.[1] ?? "";
    const token = access.get(bearer);
    if (token === undefined || token.resource !== server.url || server.switches.refusesAll) {
      counts.unauthorized++;
      return new Response("no", {
        status: 401,
        headers: {
          "www-authenticate": server.switches.oldChallenge === true
            ? "Bearer"
            : `Bearer resource_metadata="${server.origin}/.well-known/oauth-protected-resource/mcp", scope="tools"`,
        },
      });
    }
    const { wantsScope } = server.switches;
    if (wantsScope !== undefined && !token.scope.split(" ").includes(wantsScope)) {
      return new Response("no", {
        status: 403,
        headers: {
          "www-authenticate": `Bearer error="insufficient_scope", scope="${wantsScope}"`,
        },
      });
    }
    // It says nothing by itself.
    if (request.method !== "POST") return new Response(null, { status: 405 });
    counts.calls++;
    seen.push(bearer);
    const peer = new McpServer({ name: "guarded", version: "1.0.0" });
    const text = (said: string) => ({ content: [{ type: "text" as const, text: said }] });
    const { description = "Says whose token came" } = server.switches;
    peer.registerTool("whoami", { description }, () => text(token.user));
    peer.registerTool(`secret_of_${token.user}`, { description: "For one user" }, () => text("!"));
    const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
    await peer.connect(transport);
    try {
      const answer = await transport.handleRequest(request);
      return new Response(await answer.text(), { status: answer.status, headers: answer.headers });
    } finally {
      await peer.close();
    }
  };

  const documents = (path: string): JsonObject | null => {
    const { origin, url } = server;
    switch (path) {
      case "/.well-known/oauth-protected-resource/mcp":
        return { resource: url, authorization_servers: [origin], scopes_supported: ["tools"] };
      case "/.well-known/oauth-authorization-server":
        return {
          issuer: origin,
          authorization_endpoint: `${origin}/authorize`,
          token_endpoint: `${origin}/token`,
          registration_endpoint: `${origin}/register`,
          revocation_endpoint: `${origin}/revoke`,
          response_types_supported: ["code"],
          code_challenge_methods_supported: ["S256"],
          token_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post"],
          authorization_response_iss_parameter_supported: true,
        };
    }
    return null;
  };

  const register = async (request: Request): Promise<JsonObject> => {
    counts.registrations++;
    const asked = await request.json() as JsonObject;
    const [clientId, secret] = [`client-${counts.registrations}`, mint("secret")];
    const redirectUris = asked["redirect_uris"] as string[];
    clients.set(clientId, { secret, redirectUris });
    return { ...asked, client_id: clientId, client_secret: secret, client_secret_expires_at: 0 };
  };

  const listener = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      const url = new URL(request.url);
      const { pathname } = url;
      if (pathname === "/mcp") return await mcp(request);
      if (pathname === "/authorize") return authorize(url);
      if (pathname === "/token") return await token(request);
      if (pathname === "/revoke") return await revoke(request);
      const document = pathname === "/register" ? await register(request) : documents(pathname);
      if (document === null) return new Response("none", { status: 404 });
      const odd = server.switches.answer?.(pathname, document) ?? document;
      return odd instanceof Response ? odd : Response.json(odd);
    },
  );
  const origin = `http://127.0.0.1:${listener.addr.port}`;
  const server: OAuthServer = {
    origin,
    url: `${origin}/mcp`,
    switches,
    counts,
    seen,
    headers,
    secrets,
    async approve(address, user) {
      const url = new URL(address);
      url.searchParams.set("test_user", user);
      const answer = await fetch(url, { redirect: "manual" });
      await answer.body?.cancel();
      const location = answer.headers.get("location");
      if (location === null) throw new Error(`The test's server did not agree: ${answer.status}`);
      return new URL(location);
    },
    expireAll: () => access.clear(),
    revoke(user) {
      for (const [name, { user: of }] of access) if (of === user) access.delete(name);
      for (const [name, { user: of }] of refreshes) if (of === user) refreshes.delete(name);
    },
    stop: () => listener.shutdown(),
  };
  return server;
}
