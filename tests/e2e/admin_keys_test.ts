import assert from "node:assert/strict";
import postgres from "postgres";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { derivePepper, hashApiKey, makeApiKey } from "../../src/policy/api_key.ts";
import { openDatabase } from "../../src/store/database.ts";
import { createKey } from "../../src/store/keys.ts";
import { loadMasterKey } from "../../src/store/master_key.ts";
import { testIds } from "../support/postgres.ts";
import { systemClock } from "../support/system_clock.ts";
import { eventually, startTestHub, type TestHub, tookUnder, withHub } from "../support/test_hub.ts";

const OTHER_TENANT = "00000000-0000-7000-8000-00000000000b";
const randomBytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));

/** Calls the admin API and keeps the text of every answer. */
function createAdmin(hub: TestHub, seen: string[] = []) {
  return async (
    path: string,
    { token, ...options }: { method?: string; body?: Json; token?: string } = {},
  ) => {
    const headers: Record<string, string> = token === undefined
      ? {}
      : { authorization: `Bearer ${token}` };
    const answer = await hub.call(`/v1/admin/${path}`, { ...options, headers });
    const text = await answer.text();
    seen.push(text);
    return { status: answer.status, value: JSON.parse(text) as JsonObject };
  };
}

const keyOf = ({ value }: { value: JsonObject }) => (value["key"] ?? value) as JsonObject;

Deno.test("keys through the admin API", async (t) => {
  await withHub({}, async (hub) => {
    const seen: string[] = [];
    const admin = createAdmin(hub, seen);
    const works = async (token: string) =>
      (await hub.hub.app.request("/v1/models", { headers: { authorization: `Bearer ${token}` } }))
        .status === 200;

    await t.step("a key is made, shown once, listed, read and changed", async () => {
      const expiresAt = "2030-01-01T00:00:00.000Z";
      const policy = { models: ["demo/*"], budgets: { daily: { hardMicros: 5 } } };
      const facts = { name: "laptop", owner: "ann", tags: ["team-a"], expiresAt, policy };
      const made = await admin("keys", { body: facts });
      assert.equal(made.status, 201);
      const token = String(made.value["token"]);
      const { id, createdAt, ...shown } = keyOf(made);
      assert.deepEqual(shown, {
        ...facts,
        role: "user",
        state: "valid",
        revokedAt: null,
        formerTokenUntil: null,
      });
      assert.ok(Date.parse(String(createdAt)) > 0);
      assert.ok(await works(token));
      const all = await admin("keys");
      assert.deepEqual((all.value["data"] as JsonObject[]).map(({ name }) => name), [
        "first",
        "laptop",
      ]);
      const page = await admin("keys?limit=1");
      const rest = await admin(`keys?limit=1&after=${page.value["nextCursor"]}`);
      assert.deepEqual((rest.value["data"] as JsonObject[]).map(({ name }) => name), ["laptop"]);
      assert.equal(rest.value["nextCursor"], null);
      const changed = await admin(`keys/${id}`, {
        method: "PATCH",
        body: { owner: null, tags: [], policy: {} },
      });
      assert.deepEqual([changed.value["owner"], changed.value["tags"], changed.value["policy"]], [
        null,
        [],
        {},
      ]);
      assert.equal(changed.value["name"], "laptop");
      assert.deepEqual(keyOf(await admin(`keys/${id}`)), changed.value);
      for (const later of seen.slice(1)) assert.ok(!later.includes(token));
    });

    await t.step("an expired key is refused", async () => {
      const made = await admin("keys", { body: { name: "short" } });
      const token = String(made.value["token"]);
      assert.ok(await works(token));
      const body = { expiresAt: "2020-01-01T00:00:00Z" };
      const changed = await admin(`keys/${keyOf(made)["id"]}`, { method: "PATCH", body });
      assert.equal(changed.value["state"], "expired");
      assert.ok(!await works(token));
    });

    await t.step("after a rotation both tokens hold, then the new one alone", async () => {
      const made = await admin("keys", { body: { name: "turning" } });
      const { id } = keyOf(made);
      const first = String(made.value["token"]);
      const rotated = await admin(`keys/${id}/rotate`, { body: { graceSeconds: 3600 } });
      const second = String(rotated.value["token"]);
      assert.equal(keyOf(rotated)["id"], id);
      assert.ok(Date.parse(String(keyOf(rotated)["formerTokenUntil"])) > Date.now() + 3_500_000);
      assert.ok(first !== second && await works(first) && await works(second));
      const third = await admin(`keys/${id}/rotate`, { body: { graceSeconds: 0 } });
      assert.deepEqual(
        [await works(first), await works(second), await works(String(third.value["token"]))],
        [false, false, true],
      );
    });

    await t.step("a revoked key is refused for ever", async () => {
      const made = await admin("keys", { body: { name: "gone" } });
      const { id } = keyOf(made);
      const token = String(made.value["token"]);
      assert.ok(await works(token));
      const revoked = await admin(`keys/${id}/revoke`, { method: "POST" });
      assert.equal(revoked.value["state"], "revoked");
      assert.ok(!await works(token));
      for (
        const [path, method, body] of [
          [`keys/${id}/revoke`, "POST", undefined],
          [`keys/${id}/rotate`, "POST", {}],
          [`keys/${id}`, "PATCH", { name: "back" }],
        ] as const
      ) {
        const options = body === undefined ? { method } : { method, body };
        assert.equal((await admin(path, options)).status, 404, path);
      }
    });

    await t.step("bodies are checked, and wrong ones change nothing", async () => {
      const wrong: Json[] = [
        {},
        { name: " " },
        { name: "x", role: "root" },
        { name: "x", policy: { budgets: { daily: { hardMicros: -1 } } } },
        { name: "x", policy: { budgets: { weekly: { hardMicros: 1 } } } },
        { name: "x", policy: { requestsPerMinute: 0 } },
        { name: "x", policy: { agentBudgets: { "a,b}": {} } } },
        { name: "x", token: "lh_mine" },
        { name: "x", expiresAt: "soon" },
      ];
      const before = (await admin("keys")).value["data"] as Json[];
      for (const body of wrong) {
        assert.equal((await admin("keys", { body })).status, 400, JSON.stringify(body));
      }
      assert.equal(((await admin("keys")).value["data"] as Json[]).length, before.length);
    });

    await t.step("every change has its audit row, without secrets", async () => {
      const rows = (await admin("audit?limit=200")).value["data"] as JsonObject[];
      const actions = rows.map(({ action }) => action);
      for (const action of ["key.create", "key.change", "key.rotate", "key.revoke"]) {
        assert.ok(actions.includes(action), action);
      }
      const [first] = (await admin("keys")).value["data"] as JsonObject[];
      for (const row of rows) assert.equal(row["actor"], first?.["id"]);
      const page = await admin("audit?limit=2");
      const next = await admin(`audit?limit=200&after=${page.value["nextCursor"]}`);
      assert.equal((next.value["data"] as Json[]).length, rows.length - 2);
      for await (const { name } of Deno.readDir(new URL("../../src/store/", import.meta.url))) {
        const text = await Deno.readTextFile(new URL(`../../src/store/${name}`, import.meta.url));
        assert.doesNotMatch(text, /(?:update|delete from)\s+hub\.audit/, name);
      }
    });

    await t.step("a user key gets 403 on all of it, and no answer ever has a hash", async () => {
      const made = await admin("keys", { body: { name: "user" } });
      const token = String(made.value["token"]);
      const { id } = keyOf(made);
      for (
        const [path, method, body] of [
          ["keys", "GET", undefined],
          ["keys", "POST", { name: "mine", role: "admin" }],
          [`keys/${id}`, "GET", undefined],
          [`keys/${id}`, "PATCH", { policy: {} }],
          [`keys/${id}/rotate`, "POST", {}],
          [`keys/${id}/revoke`, "POST", undefined],
          ["audit", "GET", undefined],
        ] as const
      ) {
        const options = body === undefined ? { method, token } : { method, body, token };
        assert.equal((await admin(path, options)).status, 403, `${method} ${path}`);
      }
      const sql = postgres(hub.databaseUrl, { max: 1 });
      const rows =
        await sql`select encode(secret_hash, 'hex') as hash, encode(secret_hash, 'base64') as base,
        encode(former_hash, 'hex') as former, lookup_id from hub.api_keys`;
      await sql.end();
      assert.ok(rows.length > 4);
      for (const row of rows) {
        for (const secret of [row["hash"], row["base"].slice(0, 40), row["former"]]) {
          if (secret === null) continue;
          for (const text of seen) assert.ok(!text.includes(secret));
        }
      }
      const { paths = {} } = hub.hub.app.openapi as { paths?: JsonObject };
      const ofKeys = Object.entries(paths).filter(([path]) => path.startsWith("/v1/admin/keys"));
      assert.ok(ofKeys.length > 0);
      assert.doesNotMatch(JSON.stringify(ofKeys), /hash"|lookup/i);
    });

    await t.step("an admin of another tenant sees and changes none of these keys", async () => {
      const mine = (await admin("keys")).value["data"] as JsonObject[];
      const db = openDatabase({
        url: hub.databaseUrl,
        poolSize: 1,
        readPoolSize: 1,
        deadlineMs: 10_000,
        prepare: true,
        skipLocked: true,
        clock: systemClock,
      });
      const master = await loadMasterKey({ given: undefined, dataDir: hub.dataDir, randomBytes });
      const { token, lookupId } = makeApiKey(randomBytes);
      const hash = hashApiKey(token, derivePepper(master.bytes));
      const keyId = testIds.next("key");
      const facts = { name: "other", role: "admin" as const, lookupId, hash, keyId };
      await createKey(db, { ...facts, tenantId: OTHER_TENANT });
      await db.close();
      const listed = await admin("keys", { token });
      assert.deepEqual((listed.value["data"] as JsonObject[]).map(({ id }) => id), [keyId]);
      assert.deepEqual((await admin("audit", { token })).value["data"], []);
      for (const { id } of mine) {
        assert.equal((await admin(`keys/${id}`, { token })).status, 404);
        const body = { name: "stolen" };
        assert.equal((await admin(`keys/${id}`, { method: "PATCH", body, token })).status, 404);
        assert.equal((await admin(`keys/${id}/rotate`, { body: {}, token })).status, 404);
        assert.equal((await admin(`keys/${id}/revoke`, { method: "POST", token })).status, 404);
      }
      assert.deepEqual((await admin("keys")).value["data"], mine);
    });
  });
});

Deno.test("another replica knows of a change within a second", async () => {
  await withHub({}, async (hub) => {
    const second = await startTestHub({}, {
      databaseUrl: hub.databaseUrl,
      dataDir: hub.dataDir,
      key: hub.key,
    });
    try {
      const admin = createAdmin(hub);
      const status = async (token: string, model = "demo/talk") => {
        const answer = await second.call("/v1/chat/completions", {
          headers: { authorization: `Bearer ${token}` },
          body: { model, messages: [{ role: "user", content: "Hi" }] },
        });
        await answer.body?.cancel();
        return answer.status;
      };
      await eventually(async () => {
        const text = await (await second.hub.app.request("/metrics")).text();
        return text.includes("loophub_listener_up 1") ? true : null;
      });
      await tookUnder(1000, async () => {
        const made = await admin("keys", { body: { name: "k" } });
        const id = keyOf(made)["id"];
        let token = String(made.value["token"]);
        assert.equal(await status(token), 200);
        let longestMs = 0;
        const heard = async (wanted: number) => {
          const startedMs = performance.now();
          await eventually(async () => await status(token) === wanted ? true : null);
          longestMs = Math.max(longestMs, performance.now() - startedMs);
        };
        await admin(`keys/${id}`, { method: "PATCH", body: { policy: { models: [] } } });
        await heard(403);
        await admin(`keys/${id}`, { method: "PATCH", body: { policy: {} } });
        await heard(200);
        const rotated = await admin(`keys/${id}/rotate`, { body: { graceSeconds: 0 } });
        await heard(401);
        token = String(rotated.value["token"]);
        await heard(200);
        await admin(`keys/${id}/revoke`, { method: "POST" });
        await heard(401);
        return longestMs;
      });
    } finally {
      await second.close();
    }
  });
});
