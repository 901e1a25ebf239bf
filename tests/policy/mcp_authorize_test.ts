import assert from "node:assert/strict";
import { HubError, toHubError } from "../../src/core/error.ts";
import type { Principal } from "../../src/core/tool.ts";
import { pruneAuthorizations, pruneRevokedOwners } from "../../src/store/mcp_authorizations.ts";
import type { Database } from "../../src/store/database.ts";
import { createKey, revokeKey } from "../../src/store/keys.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import {
  createPrincipal,
  createReplica,
  factsOf,
  type OAuthReplica,
  REDIRECT_URI,
} from "../support/oauth_rig.ts";
import { type OAuthServer, type OAuthSwitches, startOAuthServer } from "../support/oauth_server.ts";
import { testIds, withDatabase } from "../support/postgres.ts";

type ReplicaOptions = Parameters<typeof createReplica>[2];

async function withServer(
  switches: OAuthSwitches,
  body: (
    rig: { server: OAuthServer; db: Database; replica: OAuthReplica; ada: Principal },
  ) => Promise<void>,
  options: ReplicaOptions = {},
): Promise<void> {
  await withDatabase(async (db) => {
    const server = startOAuthServer(switches);
    try {
      const replica = createReplica(db, { guarded: { url: server.url } }, options);
      await body({ server, db, replica, ada: createPrincipal("ada") });
    } finally {
      await server.stop();
    }
  });
}

const IDENTITY = { redirectUri: REDIRECT_URI, metadataUrl: null };
const wishOf = (principal: Principal) => ({ server: "guarded", principal, isForTenant: false });

async function refusal(work: Promise<unknown>): Promise<HubError> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof HubError, String(error));
    return toHubError(error);
  }
  throw new Error("It was not refused");
}

Deno.test("the address has PKCE, the resource, a scope and a state, and registers the hub once", async () => {
  await withServer({}, async ({ server, replica, ada }) => {
    const { url } = await replica.authorize.begin(wishOf(ada), IDENTITY);
    const facts = Object.fromEntries(new URL(url).searchParams);
    assert.equal(facts["code_challenge_method"], "S256");
    assert.equal(facts["resource"], server.url);
    assert.equal(facts["scope"], "tools");
    assert.equal(facts["redirect_uri"], REDIRECT_URI);
    assert.match(facts["state"] ?? "", /^[\w-]{64}$/);
    await replica.authorize.begin(wishOf(ada), IDENTITY);
    assert.equal(server.counts.registrations, 1);
    const elsewhere = { ...IDENTITY, redirectUri: "https://hub.example/v1/mcp/oauth/callback" };
    await replica.authorize.begin(wishOf(ada), elsewhere);
    assert.equal(server.counts.registrations, 2);
  });
});

Deno.test("a state counts once, and only the newest of an owner", async () => {
  await withServer({}, async ({ server, replica, ada }) => {
    const older = await replica.authorize.begin(wishOf(ada), IDENTITY);
    const newer = await replica.authorize.begin(wishOf(ada), IDENTITY);
    const late = await refusal(
      replica.authorize.finish(factsOf(await server.approve(older.url, "ada"))),
    );
    assert.equal(late.code, "invalid_request");
    const facts = factsOf(await server.approve(newer.url, "ada"));
    const ends = await Promise.allSettled(
      [1, 2, 3, 4].map(() => replica.authorize.finish(facts)),
    );
    assert.deepEqual(ends.map(({ status }) => status).toSorted(), [
      "fulfilled",
      "rejected",
      "rejected",
      "rejected",
    ]);
    assert.equal(server.counts.codes, 1);
    for (const state of ["", "x", "A".repeat(64), facts.state.replace(/.$/, "~")]) {
      const unknown = await refusal(replica.authorize.finish({ ...facts, state }));
      assert.equal(unknown.code, "invalid_request");
    }
  });
});

Deno.test("a state that is too old is void, and swept away", async () => {
  await withServer({}, async ({ server, db, replica, ada }) => {
    const { url } = await replica.authorize.begin(wishOf(ada), IDENTITY);
    const facts = factsOf(await server.approve(url, "ada"));
    const age = () =>
      db.within(db.control`
        update hub.mcp_authorizations set expires_at = now() where tenant_id = ${DEFAULT_TENANT_ID}`);
    await age();
    assert.equal((await refusal(replica.authorize.finish(facts))).code, "invalid_request");
    assert.equal(server.counts.codes, 0);
    await replica.authorize.begin(wishOf(ada), IDENTITY);
    assert.equal(await pruneAuthorizations(db), 0);
    await age();
    assert.equal(await pruneAuthorizations(db), 1);
  });
});

Deno.test("a key that was revoked meanwhile gets nothing", async () => {
  const valid = new Set<string>();
  await withServer({}, async ({ server, replica, ada }) => {
    valid.add(ada.keyId);
    const { url } = await replica.authorize.begin(wishOf(ada), IDENTITY);
    const facts = factsOf(await server.approve(url, "ada"));
    valid.clear();
    assert.equal((await refusal(replica.authorize.finish(facts))).code, "permission_denied");
    assert.equal(server.counts.codes, 0);
    assert.equal(await replica.authorize.status(wishOf(ada)), null);
  }, { isValid: ({ keyId }) => Promise.resolve(valid.has(keyId)) });
});

Deno.test("what revoked keys had is swept away", async () => {
  await withServer({}, async ({ server, db, replica, ada }) => {
    const { keyId, tenantId } = ada;
    const key = { tenantId, keyId, name: "ada", role: "user", lookupId: "l" } as const;
    await createKey(db, { ...key, hash: new Uint8Array(32) });
    const { url } = await replica.authorize.begin(wishOf(ada), IDENTITY);
    await replica.authorize.finish(factsOf(await server.approve(url, "ada")));
    await pruneRevokedOwners(db);
    assert.equal((await replica.authorize.status(wishOf(ada)))?.state, "ready");
    const auditId = testIds.next("aud");
    const audit = { auditId, actorKeyId: null, action: "key.revoke", details: {} };
    await revokeKey(db, { tenantId, keyId, audit });
    await pruneRevokedOwners(db);
    assert.equal(await replica.authorize.status(wishOf(ada)), null);
  });
});

Deno.test("an answer of another issuer, or of none, is not used (RFC 9207)", async () => {
  await withServer({}, async ({ server, replica, ada }) => {
    for (const iss of ["https://evil.example", undefined, `${server.origin}/`]) {
      const { url } = await replica.authorize.begin(wishOf(ada), IDENTITY);
      const { iss: _, ...facts } = factsOf(await server.approve(url, "ada"));
      const mixed = { ...facts, ...iss === undefined ? {} : { iss } };
      const failure = await refusal(replica.authorize.finish(mixed));
      assert.equal(failure.code, "unsafe_server");
      assert.ok(!failure.message.includes("evil"));
      const again = await refusal(replica.authorize.finish(facts));
      assert.equal(again.code, "invalid_request");
    }
    assert.equal(server.counts.codes, 0);
  });
});

Deno.test("a person who says no is told so, in no words of the server", async () => {
  await withServer({}, async ({ server, replica, ada }) => {
    for (const [error, told] of [["access_denied", "access_denied"], ["<b>x</b>", "no code"]]) {
      const { url } = await replica.authorize.begin(wishOf(ada), IDENTITY);
      const state = new URL(url).searchParams.get("state") ?? "";
      const facts = { state, iss: server.origin, error: error ?? "" };
      const failure = await refusal(replica.authorize.finish(facts));
      assert.equal(failure.code, "needs_authorization");
      assert.ok(failure.message.includes(told ?? "") && !failure.message.includes("<b>"));
    }
  });
});

Deno.test("a code of somebody else's browser cannot be used: its verifier is another", async () => {
  await withServer({}, async ({ server, replica, ada }) => {
    const bob = createPrincipal("bob");
    const mine = await replica.authorize.begin(wishOf(ada), IDENTITY);
    const other = await replica.authorize.begin(wishOf(bob), IDENTITY);
    const { state } = factsOf(await server.approve(mine.url, "ada"));
    const { code } = factsOf(await server.approve(other.url, "bob"));
    const injected = { state, code: code ?? "", iss: server.origin };
    const failure = await refusal(replica.authorize.finish(injected));
    assert.match(failure.message, /invalid_grant/);
    assert.equal(await replica.authorize.status(wishOf(ada)), null);
  });
});

/** What a server may say, and what the hub says to it. */
const HOSTILE: readonly [what: string, switches: OAuthSwitches, code: string, message: RegExp][] = [
  [
    "metadata for another resource",
    {
      answer: (path, body) =>
        path.includes("protected") ? { ...body, resource: "https://bank.example/mcp" } : body,
    },
    "unsafe_server",
    /another resource/,
  ],
  [
    "metadata for another path",
    {
      answer: (path, body) =>
        path.includes("protected") ? { ...body, resource: `${body["resource"]}/deeper` } : body,
    },
    "unsafe_server",
    /another resource/,
  ],
  [
    "metadata of another issuer",
    {
      answer: (path, body) =>
        path.includes("authorization") ? { ...body, issuer: "https://evil.example" } : body,
    },
    "unsafe_server",
    /another issuer/,
  ],
  [
    "a token endpoint without TLS",
    {
      answer: (path, body) =>
        path.includes("authorization")
          ? { ...body, token_endpoint: "http://evil.example/t" }
          : body,
    },
    "unsafe_server",
    /wanted https/,
  ],
  [
    "an authorization endpoint without TLS",
    {
      answer: (path, body) =>
        path.includes("authorization")
          ? { ...body, authorization_endpoint: "http://evil.example/a" }
          : body,
    },
    "unsafe_server",
    /wanted https/,
  ],
  [
    "an authorization endpoint that is a script",
    {
      answer: (path, body) =>
        path.includes("authorization")
          ? { ...body, authorization_endpoint: "javascript:alert(1)" }
          : body,
    },
    "upstream_malformed",
    /not what the standard says/,
  ],
  [
    "an authorization endpoint that is a command",
    {
      answer: (path, body) =>
        path.includes("authorization")
          ? { ...body, authorization_endpoint: "file:///c:/windows/system32/calc.exe" }
          : body,
    },
    "unsafe_server",
    /wanted https/,
  ],
  [
    "an authorization server without TLS",
    {
      answer: (path, body) =>
        path.includes("protected")
          ? { ...body, authorization_servers: ["http://auth.example"] }
          : body,
    },
    "unsafe_server",
    /wanted https/,
  ],
  [
    "no PKCE",
    {
      answer: (path, body) => {
        const { code_challenge_methods_supported: _, ...others } = body;
        return path.includes("authorization") ? others : body;
      },
    },
    "unsafe_server",
    /PKCE/,
  ],
  [
    "plain PKCE only",
    {
      answer: (path, body) =>
        path.includes("authorization")
          ? { ...body, code_challenge_methods_supported: ["plain"] }
          : body,
    },
    "unsafe_server",
    /PKCE/,
  ],
  [
    "a redirect of the metadata to another origin",
    {
      answer: (path, body) =>
        path.includes("protected") ? Response.redirect("https://evil.example/prm", 302) : body,
    },
    "unsafe_server",
    /redirects to https:\/\/evil\.example/,
  ],
  [
    "a redirect of the registration to another origin",
    {
      answer: (path, body) =>
        path === "/register" ? Response.redirect("https://evil.example/r", 307) : body,
    },
    "unsafe_server",
    /redirects to https:\/\/evil\.example/,
  ],
  [
    "metadata of a megabyte",
    {
      answer: (path, body) =>
        path.includes("protected") ? { ...body, resource_name: "x".repeat(1 << 20) } : body,
    },
    "unsafe_server",
    /more than 262144 bytes/,
  ],
  [
    "metadata that are no JSON",
    {
      answer: (path, body) => path.includes("protected") ? new Response("<html>") : body,
    },
    "upstream_malformed",
    /not what the standard says/,
  ],
  [
    "metadata behind an error",
    {
      answer: (path, body) =>
        path.includes("protected") ? new Response("no", { status: 500 }) : body,
    },
    "upstream_malformed",
    /status 500/,
  ],
  [
    "a registration with another redirect URI",
    {
      answer: (path, body) =>
        path === "/register" ? { ...body, redirect_uris: ["https://evil.example/cb"] } : body,
    },
    "unsafe_server",
    /another redirect URI/,
  ],
  [
    "a registration that is refused",
    {
      answer: (path, body) =>
        path === "/register"
          ? Response.json({ error: "invalid_redirect_uri", error_description: "<b>" }, {
            status: 400,
          })
          : body,
    },
    "needs_authorization",
    /refused with status 400/,
  ],
  [
    "no way to register",
    {
      answer: (path, body) => {
        const { registration_endpoint: _, ...others } = body;
        return path.includes("authorization") ? others : body;
      },
    },
    "needs_authorization",
    /set oauth\.clientId/,
  ],
];

Deno.test("what a server says against the standard is refused with a reason", async (t) => {
  await withDatabase(async (db) => {
    for (const [what, switches, code, message] of HOSTILE) {
      await t.step(what, async () => {
        const server = startOAuthServer(switches);
        try {
          const replica = createReplica(db, { guarded: { url: server.url } });
          const ada = createPrincipal("ada");
          const failure = await refusal(replica.authorize.begin(wishOf(ada), IDENTITY));
          assert.equal(failure.code, code, failure.message);
          assert.match(failure.message, message);
          assert.equal(server.counts.authorizations, 0);
          assert.equal(await replica.authorize.status(wishOf(ada)), null);
        } finally {
          await server.stop();
        }
      });
    }
  });
});

Deno.test("a token of another type, or an answer without one, is not used and not repeated", async () => {
  const answers: readonly Response[] = [
    Response.json({ access_token: "leak-me-not", token_type: "mac" }),
    Response.json({ token: "leak-me-not" }),
    new Response("leak-me-not", { status: 200 }),
    new Response("leak-me-not", { status: 400 }),
    Response.json({ error: "leak-me-not", error_description: "leak-me-not" }, { status: 400 }),
    Response.redirect("https://evil.example/leak-me-not", 307),
  ];
  await withServer({}, async ({ server, replica, ada }) => {
    for (const answer of answers) {
      server.switches.onToken = () => answer;
      const { url } = await replica.authorize.begin(wishOf(ada), IDENTITY);
      const facts = factsOf(await server.approve(url, "ada"));
      const failure = await refusal(replica.authorize.finish(facts));
      assert.ok(!Deno.inspect(failure, { depth: 9 }).includes("leak-me-not"), failure.message);
      assert.equal(await replica.authorize.status(wishOf(ada)), null);
    }
  });
});

Deno.test("an operator's own registration, or the hub's metadata document, needs no other", async () => {
  await withDatabase(async (db) => {
    const server = startOAuthServer({
      answer: (path, body) =>
        path.includes("authorization")
          ? { ...body, client_id_metadata_document_supported: true }
          : body,
    });
    const metadataUrl = "https://hub.example/v1/mcp/oauth/client.json";
    const clientIdOf = (url: string) => new URL(url).searchParams.get("client_id");
    try {
      const servers = {
        guarded: { url: server.url },
        own: { url: server.url, clientId: "by-hand", clientSecret: "by-hand-secret" },
      };
      const replica = createReplica(db, servers);
      const principal = createPrincipal("ada");
      const identity = { ...IDENTITY, metadataUrl };
      const wish = { server: "guarded", principal, isForTenant: false };
      const begun = await replica.authorize.begin(wish, identity);
      assert.equal(clientIdOf(begun.url), metadataUrl);
      await replica.authorize.finish(factsOf(await server.approve(begun.url, "ada")));
      assert.equal((await replica.authorize.status(wish))?.state, "ready");
      const own = await replica.authorize.begin({ ...wish, server: "own" }, identity);
      assert.equal(clientIdOf(own.url), "by-hand");
      assert.equal(server.counts.registrations, 0);
    } finally {
      await server.stop();
    }
  });
});

Deno.test("a server from before protected-resource metadata is its own authorization server", async () => {
  const old = { oldChallenge: true } as const;
  await withServer({
    ...old,
    answer: (path, body) => path.includes("protected") ? new Response("", { status: 404 }) : body,
  }, async ({ server, replica, ada }) => {
    const { url } = await replica.authorize.begin(wishOf(ada), IDENTITY);
    assert.equal(new URL(url).searchParams.get("resource"), server.url);
    await replica.authorize.finish(factsOf(await server.approve(url, "ada")));
    assert.equal((await replica.authorize.status(wishOf(ada)))?.state, "ready");
  });
});

Deno.test("what is forgotten is revoked where it came from; where that fails, it is forgotten all the same", async () => {
  await withServer({}, async ({ server, replica, ada }) => {
    const letIn = async () => {
      const { url } = await replica.authorize.begin(wishOf(ada), IDENTITY);
      await replica.authorize.finish(factsOf(await server.approve(url, "ada")));
    };
    await letIn();
    assert.equal(await replica.authorize.forget(wishOf(ada)), true);
    assert.deepEqual(server.counts.revoked.toSorted(), ["access_token", "refresh_token"]);
    assert.equal(replica.lines.join("\n").includes("not revoked"), false);
    assert.equal(await replica.authorize.forget(wishOf(ada)), false);
    server.switches.revokeStatus = 503;
    await letIn();
    assert.equal(await replica.authorize.forget(wishOf(ada)), true);
    assert.equal(await replica.authorize.status(wishOf(ada)), null);
    assert.match(replica.lines.join("\n"), /forgotten and not revoked[^]*503/);
    for (const secret of server.secrets) assert.ok(!replica.lines.join("\n").includes(secret));
    server.switches.answer = (_path, { revocation_endpoint: _, ...body }) => body;
    await letIn();
    assert.equal(await replica.authorize.forget(wishOf(ada)), true);
    assert.equal(server.counts.revoked.length, 2);
  });
});
