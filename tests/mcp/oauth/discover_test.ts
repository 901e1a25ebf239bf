import assert from "node:assert/strict";
import { discover } from "../../../src/mcp/oauth/discover.ts";
import { loadSdk } from "../../../src/mcp/oauth/sdk.ts";

Deno.test("a server that guards only what is sent to it is asked so for its challenge", async () => {
  const sdk = await loadSdk();
  const asked: string[] = [];
  const found = await discover(sdk, {
    serverUrl: "http://127.0.0.1:1/mcp",
    fetch(target, init) {
      const { pathname, origin } = new URL(target);
      const method = init?.method ?? "GET";
      asked.push(`${method} ${pathname}`);
      if (pathname === "/mcp" && method === "POST") {
        const challenge = `Bearer scope="notes", resource_metadata="${origin}/far/away"`;
        return Promise.resolve(
          new Response(null, { status: 401, headers: { "www-authenticate": challenge } }),
        );
      }
      if (pathname === "/far/away") {
        return Promise.resolve(Response.json({
          resource: `${origin}/mcp`,
          authorization_servers: [`${origin}/issuer`],
        }));
      }
      if (pathname === "/.well-known/oauth-authorization-server/issuer") {
        return Promise.resolve(Response.json({
          issuer: `${origin}/issuer`,
          authorization_endpoint: `${origin}/authorize`,
          token_endpoint: `${origin}/token`,
          response_types_supported: ["code"],
          code_challenge_methods_supported: ["S256"],
        }));
      }
      return Promise.resolve(new Response(null, { status: 405 }));
    },
  });
  assert.equal(found.scope, "notes");
  assert.equal(found.issuer, "http://127.0.0.1:1/issuer");
  assert.deepEqual(asked.slice(0, 3), ["GET /mcp", "POST /mcp", "GET /far/away"]);
});
