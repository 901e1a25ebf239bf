import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { toHubError } from "../../src/core/error.ts";
import type { Principal } from "../../src/core/tool.ts";
import { createTransportAuth } from "../../src/mcp/oauth/auth_provider.ts";
import { resealMcp } from "../../src/store/reseal_mcp.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import {
  createPrincipal,
  createReplica,
  factsOf,
  masterKey,
  type OAuthReplica,
  ownerOf,
  REDIRECT_URI,
} from "../support/oauth_rig.ts";
import { type OAuthServer, type OAuthSwitches, startOAuthServer } from "../support/oauth_server.ts";
import { openTestDatabase, withDatabase } from "../support/postgres.ts";
import { eventually } from "../support/test_hub.ts";
import type { Database } from "../../src/store/database.ts";

interface Rig {
  server: OAuthServer;
  db: Database;
  first: OAuthReplica;
  second: OAuthReplica;
  url: string;
}

async function withRig(switches: OAuthSwitches, body: (rig: Rig) => Promise<void>): Promise<void> {
  await withDatabase(async (db, url) => {
    const server = startOAuthServer(switches);
    const other = openTestDatabase(url);
    const servers = { guarded: { url: server.url } };
    try {
      const first = createReplica(db, servers);
      const second = createReplica(other, servers);
      await body({ server, db, first, second, url });
      const spoken = [...first.lines, ...second.lines].join("\n");
      for (const secret of server.secrets) assert.ok(!spoken.includes(secret), "a secret in a log");
    } finally {
      await other.close();
      await server.stop();
    }
  });
}

const IDENTITY = { redirectUri: REDIRECT_URI, metadataUrl: null };

async function letIn(
  { server, replica, principal, isForTenant = false }: {
    server: OAuthServer;
    replica: OAuthReplica;
    principal: Principal;
    isForTenant?: boolean;
  },
): Promise<void> {
  const wish = { server: "guarded", principal, isForTenant };
  const { url } = await replica.authorize.begin(wish, IDENTITY);
  await replica.authorize.finish(factsOf(await server.approve(url, principal.keyName)));
}

/** What a caller's transport gets its tokens from; a caller without any is one of its own. */
function sourceFor({ tokens }: OAuthReplica, principal: Principal) {
  const { tenantId } = principal;
  return tokens.sourceOf("guarded", { tenantId, owner: ownerOf(principal) });
}

/** What the tools of a server are to somebody, and what `whoami` says. */
async function use(
  { server, replica, principal }: {
    server: OAuthServer;
    replica: OAuthReplica;
    principal: Principal;
  },
): Promise<{ tools: string[]; who: string }> {
  const source = sourceFor(replica, principal);
  const client = new Client({ name: "test", version: "1.0.0" });
  const transport = new StreamableHTTPClientTransport(
    new URL(server.url),
    createTransportAuth(source, fetch),
  );
  try {
    await client.connect(transport);
    const { tools } = await client.listTools();
    const { content } = await client.callTool({ name: "whoami", arguments: {} });
    const [said] = content as { text: string }[];
    return { tools: tools.map(({ name }) => name).toSorted(), who: said?.text ?? "" };
  } finally {
    await client.close();
  }
}

async function failureOf(work: Promise<unknown>): Promise<{ code: string; message: string }> {
  try {
    await work;
  } catch (error) {
    for (let at: unknown = error; at instanceof Error; at = at.cause) {
      if (at.name === "HubError") return { code: toHubError(at).code, message: at.message };
    }
    return { code: "other", message: String(error) };
  }
  throw new Error("It did not fail");
}

Deno.test("nobody gets in without an authorization, and is told how to begin one", async () => {
  await withRig({}, async ({ server, first }) => {
    const principal = createPrincipal("ada");
    const failure = await failureOf(use({ server, replica: first, principal }));
    assert.equal(failure.code, "needs_authorization");
    assert.match(failure.message, /nobody has authorized.*POST \/v1\/mcp\/guarded\/authorize/);
    assert.equal(server.counts.calls, 0);
  });
});

Deno.test("two users of one server have their own tokens and tools, on all replicas; an operator's are for those who have none", async () => {
  await withRig({}, async ({ server, first, second }) => {
    const ada = createPrincipal("ada");
    const bob = createPrincipal("bob");
    const eve = createPrincipal("eve");
    await letIn({ server, replica: first, principal: ada });
    await letIn({ server, replica: second, principal: bob });
    for (const replica of [first, second]) {
      const both = await Promise.all(
        [ada, bob].map((principal) => use({ server, replica, principal })),
      );
      assert.deepEqual(both, [
        { tools: ["secret_of_ada", "whoami"], who: "ada" },
        { tools: ["secret_of_bob", "whoami"], who: "bob" },
      ]);
    }
    const failure = await failureOf(use({ server, replica: first, principal: eve }));
    assert.equal(failure.code, "needs_authorization");
    const own = { tenantId: ada.tenantId, owner: ownerOf(ada), isReady: true };
    assert.deepEqual(await first.tokens.whose("guarded", ada), own);
    assert.equal(await first.tokens.whose("guarded", eve), null);

    const operator = createPrincipal("operator");
    await letIn({ server, replica: first, principal: operator, isForTenant: true });
    assert.equal((await use({ server, replica: second, principal: eve })).who, "operator");
    assert.equal((await first.tokens.whose("guarded", eve))?.owner, "tenant");
    assert.equal((await use({ server, replica: second, principal: ada })).who, "ada");

    const stranger = createPrincipal("stranger", "00000000-0000-7000-8000-0000000000ff");
    const other = await failureOf(use({ server, replica: first, principal: stranger }));
    assert.equal(other.code, "needs_authorization");

    const wish = { server: "guarded", principal: ada, isForTenant: false };
    assert.equal(await second.authorize.forget(wish), true);
    assert.equal((await use({ server, replica: first, principal: ada })).who, "operator");
  });
});

Deno.test("whatever is refused side by side on two replicas, one of them refreshes it once", async () => {
  await withRig({}, async ({ server, first, second }) => {
    const principal = createPrincipal("ada");
    await letIn({ server, replica: first, principal });
    for (let round = 1; round <= 2; round++) {
      server.expireAll();
      const held = Promise.withResolvers<void>();
      let begun = 0;
      server.switches.beforeRefresh = async () => {
        begun++;
        await held.promise;
      };
      const before = server.counts.unauthorized;
      const using = Array.from(
        { length: 16 },
        (_, index) => use({ server, replica: index % 2 === 0 ? first : second, principal }),
      );
      // All have been refused before the first gets an answer.
      await eventually(() => server.counts.unauthorized - before >= 16 || null);
      held.resolve();
      for (const { who } of await Promise.all(using)) assert.equal(who, "ada");
      assert.equal(begun, 1);
      assert.equal(server.counts.refreshes, round);
    }
  });
});

Deno.test("a token that is about to expire is refreshed before it is sent", async () => {
  await withRig({ lifeSeconds: 3600 }, async ({ server, db, first, second }) => {
    const principal = createPrincipal("ada");
    await letIn({ server, replica: first, principal });
    await db.within(db.control`
      update hub.mcp_grants set refresh_after = now() where tenant_id = ${DEFAULT_TENANT_ID}`);
    const before = server.counts.unauthorized;
    await Promise.all([first, second].map((replica) => use({ server, replica, principal })));
    assert.equal(server.counts.refreshes, 1);
    assert.deepEqual(first.refreshes.concat(second.refreshes), ["guarded succeeded"]);
    assert.equal(server.counts.unauthorized, before);
  });
});

Deno.test("a refresh that is refused ends in needs_auth, and is never tried again", async () => {
  await withRig({}, async ({ server, first, second }) => {
    const principal = createPrincipal("ada");
    await letIn({ server, replica: first, principal });
    server.revoke("ada");
    const failures = await Promise.all(
      [first, second, first, second].map((replica) =>
        failureOf(use({ server, replica, principal }))
      ),
    );
    for (const { code } of failures) assert.equal(code, "needs_authorization");
    assert.equal(server.counts.refreshes, 1);
    const { message } = await failureOf(use({ server, replica: second, principal }));
    assert.match(message, /invalid_grant/);
    assert.deepEqual(first.refreshes.concat(second.refreshes), ["guarded refused"]);
    assert.equal(server.counts.refreshes, 1);
    const wish = { server: "guarded", principal, isForTenant: false };
    assert.equal((await second.authorize.status(wish))?.state, "needs_auth");

    await letIn({ server, replica: second, principal });
    assert.equal((await use({ server, replica: first, principal })).who, "ada");
    assert.equal(server.counts.registrations, 1);
  });
});

Deno.test("a server that refuses fresh tokens too ends in needs_auth, not in a loop", async () => {
  await withRig({}, async ({ server, first }) => {
    const principal = createPrincipal("ada");
    await letIn({ server, replica: first, principal });
    server.switches.refusesAll = true;
    for (let round = 0; round < 3; round++) {
      await failureOf(use({ server, replica: first, principal }));
    }
    assert.equal(server.counts.refreshes, 1);
    const wish = { server: "guarded", principal, isForTenant: false };
    assert.match((await first.authorize.status(wish))?.reason ?? "", /just refreshed/);
  });
});

Deno.test("an authorization server that is away is left alone for a while, and its token not given up", async () => {
  await withRig({}, async ({ server, db, first, second }) => {
    const principal = createPrincipal("ada");
    await letIn({ server, replica: first, principal });
    server.expireAll();
    let asked = 0;
    server.switches.onToken = () => {
      asked++;
      return new Response("sorry: refresh_0123456789", { status: 503 });
    };
    const failure = await failureOf(use({ server, replica: first, principal }));
    assert.equal(failure.code, "upstream_error");
    assert.ok(!failure.message.includes("refresh_0123456789"));
    const again = await failureOf(use({ server, replica: second, principal }));
    assert.equal(again.code, "upstream_unreachable");
    assert.equal(asked, 1);
    assert.deepEqual(first.refreshes.concat(second.refreshes), ["guarded failed"]);

    delete server.switches.onToken;
    await db.within(db.control`
      update hub.mcp_grants set refresh_until = now() where tenant_id = ${DEFAULT_TENANT_ID}`);
    assert.equal((await use({ server, replica: second, principal })).who, "ada");
  });
});

Deno.test("a replica that died while it refreshed is followed by another", async () => {
  await withRig({}, async ({ server, db, first }) => {
    const principal = createPrincipal("ada");
    await letIn({ server, replica: first, principal });
    server.expireAll();
    await db.within(db.control`
      update hub.mcp_grants set refresh_owner = 'dead', refresh_until = now() + interval '300 milliseconds'
      where tenant_id = ${DEFAULT_TENANT_ID}`);
    assert.equal((await use({ server, replica: first, principal })).who, "ada");
    assert.equal(server.counts.refreshes, 1);
  });
});

Deno.test("a scope that is lacking is said, and asked for with the next authorization", async () => {
  await withRig({ wantsScope: "admin" }, async ({ server, first }) => {
    const principal = createPrincipal("ada");
    await letIn({ server, replica: first, principal });
    const failure = await failureOf(use({ server, replica: first, principal }));
    assert.equal(failure.code, "needs_authorization");
    assert.match(failure.message, /scope admin/);
    assert.equal(server.counts.refreshes, 0);
    await letIn({ server, replica: first, principal });
    assert.equal((await use({ server, replica: first, principal })).who, "ada");
  });
});

Deno.test("tokens go to the address only that they were given for", async () => {
  await withRig({}, async ({ server, db, first }) => {
    const principal = createPrincipal("ada");
    await letIn({ server, replica: first, principal });
    const moved = createReplica(db, { guarded: { url: "https://elsewhere.example/mcp" } });
    const { message } = await failureOf(sourceFor(moved, principal).current());
    assert.match(message, /another address/);
  });
});

Deno.test("nothing of it is stored in the clear, and boxes cannot be swapped", async () => {
  await withRig({}, async ({ server, db, first }) => {
    const [ada, bob] = [createPrincipal("ada"), createPrincipal("bob")];
    await letIn({ server, replica: first, principal: ada });
    await letIn({ server, replica: first, principal: bob });
    const wish = { server: "guarded", principal: ada, isForTenant: false };
    const { url } = await first.authorize.begin(wish, IDENTITY);
    const state = new URL(url).searchParams.get("state") ?? "";
    const tables = ["mcp_grants", "mcp_registrations", "mcp_authorizations", "audit"];
    let rows = "";
    for (const table of tables) {
      const found = await db.within(
        db.read.unsafe(`select t::text as row, encode(to_jsonb(t)::text::bytea, 'escape') as json
          from hub.${table} t`),
      );
      assert.ok(found.length > 0, table);
      rows += JSON.stringify(found);
    }
    for (const secret of [...server.secrets, state]) {
      assert.ok(!rows.includes(secret));
      assert.ok(!rows.includes(new TextEncoder().encode(secret).toHex()));
    }
    await db.within(db.control`
      update hub.mcp_grants set (nonce, ciphertext) = (
        select nonce, ciphertext from hub.mcp_grants o
        where o.tenant_id = ${DEFAULT_TENANT_ID} and o.owner = ${ownerOf(bob)})
      where tenant_id = ${DEFAULT_TENANT_ID} and owner = ${ownerOf(ada)}`);
    const failure = await failureOf(sourceFor(first, ada).current());
    assert.equal(failure.code, "invalid_configuration");
  });
});

Deno.test("another master key opens what the former one sealed, and seals it anew", async () => {
  await withRig({}, async ({ server, db, first }) => {
    const principal = createPrincipal("ada");
    await letIn({ server, replica: first, principal });
    const servers = { guarded: { url: server.url } };
    const both = masterKey(2, [masterKey(1)]);
    const rotated = createReplica(db, servers, { key: both });
    assert.equal((await use({ server, replica: rotated, principal })).who, "ada");
    const tenantId = DEFAULT_TENANT_ID;
    assert.deepEqual(await resealMcp(db, { tenantId, key: both }), { resealed: 2, left: 0 });
    assert.deepEqual(await resealMcp(db, { tenantId, key: both }), { resealed: 0, left: 0 });
    const alone = createReplica(db, servers, { key: masterKey(2) });
    assert.equal((await use({ server, replica: alone, principal })).who, "ada");
    const old = await failureOf(use({ server, replica: first, principal }));
    assert.equal(old.code, "invalid_configuration");
    assert.deepEqual(await resealMcp(db, { tenantId, key: masterKey(3) }), {
      resealed: 0,
      left: 2,
    });
    server.expireAll();
    assert.equal((await use({ server, replica: alone, principal })).who, "ada");
  });
});
