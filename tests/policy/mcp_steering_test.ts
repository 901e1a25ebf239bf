import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { toHubError } from "../../src/core/error.ts";
import { createPrincipal, createReplica, REDIRECT_URI } from "../support/oauth_rig.ts";
import { startOAuthServer } from "../support/oauth_server.ts";
import { withDatabase } from "../support/postgres.ts";

/** Where each member of the documents could lead the hub, or a person's browser. */
const MEMBERS: Record<string, (body: JsonObject, origin: string) => JsonObject> = {
  authorization_servers: (body, origin) => ({ ...body, authorization_servers: [origin] }),
  authorization_endpoint: (body, origin) => ({
    ...body,
    authorization_endpoint: `${origin}/authorize`,
  }),
  token_endpoint: (body, origin) => ({ ...body, token_endpoint: `${origin}/token` }),
  registration_endpoint: (body, origin) => ({
    ...body,
    registration_endpoint: `${origin}/register`,
  }),
};

Deno.test("an MCP server on this machine leads its authorization to no other port or private host", async () => {
  let reached = 0;
  const other = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => {
    reached++;
    return Response.json({});
  });
  const server = startOAuthServer();
  const places = [`http://127.0.0.1:${other.addr.port}`, "https://169.254.169.254"];
  try {
    await withDatabase(async (db) => {
      const replica = createReplica(db, { notes: { url: server.url } });
      const wish = { server: "notes", principal: createPrincipal("ada"), isForTenant: false };
      const begin = () =>
        replica.authorize.begin(wish, { redirectUri: REDIRECT_URI, metadataUrl: null });
      for (const origin of places) {
        for (const [member, change] of Object.entries(MEMBERS)) {
          server.switches.answer = (_path, body) =>
            Object.hasOwn(body, member) ? change(body, origin) : body;
          await assert.rejects(begin, (error) => {
            const { code, message } = toHubError(error);
            assert.equal(code, "unsafe_server", `${member} ${origin}`);
            assert.match(message, /private network/, `${member} ${origin}`);
            return true;
          });
        }
      }
      assert.equal(reached, 0);
      server.switches.answer = (_path, body) => body;
      assert.match((await begin()).url, /\/authorize\?/);
    });
  } finally {
    await server.stop();
    await other.shutdown();
  }
});
