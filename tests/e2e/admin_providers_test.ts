import assert from "node:assert/strict";
import postgres from "postgres";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { createKey } from "../../src/store/keys.ts";
import { derivePepper, hashApiKey, makeApiKey } from "../../src/policy/api_key.ts";
import { loadMasterKey } from "../../src/store/master_key.ts";
import { startTestPostgres, testIds } from "../support/postgres.ts";
import { chat, createAdmin, createRawLog, takeKeys } from "../support/providers_rig.ts";
import { issueSecondKey } from "../support/second_key.ts";
import {
  chatStream,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, startTestHub, type TestHub, withReplicas } from "../support/test_hub.ts";

const CANARY = "sk-canary-7f3a9b2c5d8e1f40-secret1";
const SECOND = "sk-canary-0e4d8c2b6a915f73-secret2";
const HEADER = "canary-header-55d1c0ffee77";
const OTHER_TENANT = "00000000-0000-7000-8000-00000000000b";
const randomBytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));

async function withRig(
  body: (
    rig: {
      hub: TestHub & { dataDir: string };
      upstream: ScriptedUpstream;
      lines: string[];
    },
  ) => Promise<void>,
): Promise<void> {
  const server = await startTestPostgres({ migrated: false });
  const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-hub-" });
  const upstream = await startScriptedUpstream();
  const { log, lines } = createRawLog();
  const config = { providers: { file: { baseUrl: upstream.url, apiKey: "file-key" } } };
  const hub = await startTestHub({ ...config, defaultModel: "file/m" }, {
    databaseUrl: server.url,
    dataDir,
    log,
  });
  try {
    await body({ hub: { ...hub, dataDir }, upstream, lines });
  } finally {
    await hub.close();
    await upstream.stop();
    await server.stop();
    await Deno.remove(dataDir, { recursive: true });
  }
}

Deno.test("providers through the admin API", async (t) => {
  await withRig(async ({ hub, upstream, lines }) => {
    const seen: string[] = [];
    const admin = createAdmin(hub, seen);
    takeKeys(upstream, CANARY, SECOND, "file-key");
    let id = "";

    await t.step("one is added and serves at once, with its key and headers", async () => {
      assert.equal(await chat(hub, "db/m"), "404");
      const models = { m: { pricing: { inputPerMillion: 1, outputPerMillion: 2 } } };
      const settings = { baseUrl: upstream.url, models, maxConcurrent: 7 };
      const body = { name: "db", ...settings, apiKey: CANARY, headers: { "x-gateway": HEADER } };
      const made = await admin("providers", { body });
      assert.equal(made.status, 201, seen.at(-1));
      id = String(made.value["id"]);
      const { id: _, createdAt, updatedAt: __, key, ...shown } = made.value;
      assert.deepEqual(shown, {
        name: "db",
        kind: "openai-compatible",
        source: "database",
        isUsed: true,
        baseUrl: upstream.url,
        settings,
        headers: ["x-gateway"],
        problem: null,
      });
      assert.match(String((key as JsonObject)["masterKeyId"]), /^[0-9a-f]{16}$/);
      assert.ok(Date.parse(String(createdAt)) > 0);
      assert.equal(await chat(hub, "db/m"), "by ecret1");
      assert.equal(upstream.requests.at(-1)?.header("x-gateway"), HEADER);
      const { data } = await (await hub.call("/v1/models")).json();
      assert.ok(data.some((model: JsonObject) => model["id"] === "db/m"));
      assert.equal((await admin("providers", { body })).status, 409);
    });

    await t.step("it is listed beside those of the configuration, and read", async () => {
      const all = (await admin("providers")).value["data"] as JsonObject[];
      assert.deepEqual(all.map(({ name, source }) => `${name} ${source}`), [
        "db database",
        "file configuration",
      ]);
      assert.deepEqual((await admin(`providers/${id}`)).value, all[0]);
    });

    await t.step("it is changed; secrets never follow to another address", async () => {
      const patch = (body: Json) => admin(`providers/${id}`, { method: "PATCH", body });
      const changed = await patch({ maxConcurrent: 9, models: null });
      assert.deepEqual(changed.value["settings"], { baseUrl: upstream.url, maxConcurrent: 9 });
      assert.equal(await chat(hub, "db/other"), "by ecret1");
      const elsewhere = { baseUrl: "http://127.0.0.1:9/v1" };
      assert.equal((await patch(elsewhere)).status, 400);
      assert.equal((await patch({ ...elsewhere, apiKey: SECOND })).status, 400);
      const moved = await patch({ ...elsewhere, apiKey: SECOND, headers: null });
      assert.deepEqual([moved.status, moved.value["headers"]], [200, []], seen.at(-1));
      const back = await patch({ baseUrl: upstream.url, apiKey: CANARY });
      assert.deepEqual((back.value["key"] as JsonObject)["formerHolds"], false);
      assert.equal(await chat(hub, "db/m"), "by ecret1");
    });

    await t.step("a row of the database stands in the place of the configured one", async () => {
      const body = { name: "file", baseUrl: upstream.url, apiKey: SECOND };
      assert.equal(await chat(hub, "file/m"), "by le-key");
      const made = await admin("providers", { body });
      assert.equal(await chat(hub, "file/m"), "by ecret2");
      const all = (await admin("providers")).value["data"] as JsonObject[];
      const facts = all.filter(({ name }) => name === "file").map((
        one,
      ) => [one.source, one.isUsed]);
      assert.deepEqual(facts, [["database", true], ["configuration", false]]);
      assert.ok(lines.some((line) => line.includes("stand in the place of configured ones")));
      const gone = await admin(`providers/${made.value["id"]}`, { method: "DELETE" });
      assert.equal(gone.status, 204);
      assert.equal(await chat(hub, "file/m"), "by le-key");
    });

    await t.step(
      "what the configuration would refuse is refused, and changes nothing",
      async () => {
        const hosts = [
          "169.254.169.254",
          "2852039166",
          "0xa9fea9fe",
          "[::ffff:169.254.169.254]",
          "[fe80::1]",
          "0.0.0.0",
          "metadata.google.internal",
          "100.100.100.200",
        ];
        const wrong: JsonObject[] = [
          {},
          { name: "Bad Name", baseUrl: upstream.url },
          { name: "x" },
          { name: "x", baseUrl: "file:///etc/passwd" },
          { name: "x", baseUrl: "http://user:pass@127.0.0.1/v1" },
          { name: "x", baseUrl: "http://127.0.0.1/v1?key=1" },
          { name: "x", baseUrl: `${upstream.url}/chat/completions` },
          ...hosts.map((host) => ({ name: "x", baseUrl: `http://${host}/v1` })),
          { name: "x", baseUrl: upstream.url, kind: "nobody" },
          { name: "x", baseUrl: upstream.url, apiKey: `${CANARY} with a space` },
          { name: "x", baseUrl: upstream.url, apiKey: [CANARY] },
          { name: "x", baseUrl: upstream.url, apiKeys: [CANARY, SECOND] },
          { name: "x", baseUrl: upstream.url, api_key: CANARY },
          { name: "x", baseUrl: upstream.url, headers: { host: CANARY } },
          { name: "x", baseUrl: upstream.url, headers: { "x-a": `${CANARY}\n` } },
          { name: "x", baseUrl: upstream.url, maxConcurrent: 0 },
        ];
        for (const body of wrong) {
          const answer = await admin("providers", { body });
          assert.equal(answer.status, 400, JSON.stringify(body));
        }
        const plain = { name: "plain", baseUrl: upstream.url, apiKey: "${HOME}" };
        const made = await admin("providers", { body: plain });
        await chat(hub, "plain/m");
        const sent = upstream.requests.at(-1)?.header("authorization");
        assert.equal(sent, "Bearer ${HOME}", "nothing of the environment gets in");
        await admin(`providers/${made.value["id"]}`, { method: "DELETE" });
        assert.equal(((await admin("providers")).value["data"] as Json[]).length, 2);
        for (const body of [{ apiKey: "" }, { apiKey: `${SECOND} x` }, {}]) {
          assert.equal((await admin(`providers/${id}/rotate`, { body })).status, 400);
        }
        assert.equal(await chat(hub, "db/m"), "by ecret1");
      },
    );

    await t.step("a user key and an admin of another tenant get 403", async () => {
      const master = await loadMasterKey({ given: undefined, dataDir: hub.dataDir, randomBytes });
      const { token: foreign, lookupId } = makeApiKey(randomBytes);
      await createKey(hub.hub.start.db, {
        name: "other",
        role: "admin",
        lookupId,
        hash: hashApiKey(foreign, derivePepper(master.bytes)),
        keyId: testIds.next("key"),
        tenantId: OTHER_TENANT,
      });
      for (const token of [await issueSecondKey(hub), foreign]) {
        for (
          const [path, method, body] of [
            ["providers", "GET", undefined],
            ["providers", "POST", { name: "mine", baseUrl: upstream.url }],
            [`providers/${id}`, "GET", undefined],
            [`providers/${id}`, "PATCH", { maxConcurrent: 1 }],
            [`providers/${id}/rotate`, "POST", { apiKey: "x" }],
            [`providers/${id}`, "DELETE", undefined],
            ["secrets/reseal", "POST", undefined],
          ] as const
        ) {
          const options = body === undefined ? { method, token } : { method, body, token };
          assert.equal((await admin(path, options)).status, 403, `${method} ${path}`);
        }
      }
      for (const unknown of [testIds.next("cli"), "nonsense"]) {
        assert.equal((await admin(`providers/${unknown}`)).status, 404);
        assert.equal((await admin(`providers/${unknown}`, { method: "DELETE" })).status, 404);
      }
    });

    await t.step("it is removed; what is under way ends on it", async () => {
      const gate = Promise.withResolvers<void>();
      upstream.script(() => {
        const { frames, ...reply } = chatStream({ text: "one two" });
        return {
          ...reply,
          frames: [
            ...(frames as string[]).slice(0, 2),
            { wait: gate.promise },
            ...(frames as string[]).slice(2),
          ],
        };
      });
      const answer = await hub.call("/v1/chat/completions", {
        body: { model: "db/m", stream: true, messages: [{ role: "user", content: "Hi" }] },
      });
      assert.equal(answer.status, 200);
      assert.equal((await admin(`providers/${id}`, { method: "DELETE" })).status, 204);
      assert.equal(await chat(hub, "db/m"), "404");
      const gateOfIt = async () =>
        /^loophub_gate_inside\{gate="provider",name="db"\} (\d)$/m
          .exec(await (await hub.call("/metrics")).text())?.[1];
      assert.equal(await gateOfIt(), "1");
      gate.resolve();
      assert.match(await answer.text(), /two[^]*\[DONE\]/);
      // Its gate goes with the last who was inside.
      await eventually(async () => await gateOfIt() === undefined ? true : null);
    });

    await t.step("every change has its audit row", async () => {
      const rows = (await admin("audit?limit=200")).value["data"] as JsonObject[];
      const mine = rows.filter(({ subject }) => subject === id).map(({ action }) => action);
      assert.deepEqual(mine.toReversed(), [
        "provider.create",
        "provider.change",
        "provider.change",
        "provider.change",
        "provider.remove",
      ]);
    });

    await t.step("no secret is in any answer, log line, row, metric or description", async () => {
      const sql = postgres(hub.databaseUrl, { max: 1 });
      const tables = await sql<{ text: string }[]>`
        select c::text as text from hub.clients c union all select s::text from hub.client_secrets s
        union all select a::text from hub.audit a union all select u::text from hub.usage u`;
      await sql.end();
      const texts = [
        ...seen,
        ...lines,
        ...tables.map(({ text }) => text),
        await (await hub.call("/metrics")).text(),
        JSON.stringify(hub.hub.app.openapi),
      ];
      for (const secret of [CANARY, SECOND, HEADER]) {
        for (const text of texts) {
          for (const form of [secret, btoa(secret), new TextEncoder().encode(secret).toHex()]) {
            assert.ok(!text.includes(form), text);
          }
        }
      }
    });
  });
});

Deno.test("another replica takes a provider over within a second", async () => {
  const upstream = await startScriptedUpstream();
  const config = { providers: { file: { baseUrl: upstream.url } }, defaultModel: "file/m" };
  try {
    await withReplicas([config, config], async (first, second) => {
      for (const hub of [first, second]) {
        await eventually(async () => {
          const text = await (await hub.hub.app.request("/metrics")).text();
          return text.includes("loophub_listener_up 1") ? true : null;
        });
      }
      const admin = createAdmin(first);
      const within = async (wanted: string) => {
        const startedMs = performance.now();
        await eventually(async () => await chat(second, "db/m") === wanted ? true : null);
        const ms = performance.now() - startedMs;
        assert.ok(ms < 1000, `${wanted} after ${ms} ms`);
      };
      takeKeys(upstream, CANARY, SECOND);
      const body = { name: "db", baseUrl: upstream.url, apiKey: CANARY };
      const { id } = (await admin("providers", { body })).value;
      await within("by ecret1");
      await admin(`providers/${id}/rotate`, { body: { apiKey: SECOND } });
      await within("by ecret2");
      await admin(`providers/${id}`, { method: "PATCH", body: { models: ["other"] } });
      await within("404");
      await admin(`providers/${id}`, { method: "PATCH", body: { models: null } });
      await within("by ecret2");
      await admin(`providers/${id}`, { method: "DELETE" });
      await within("404");
    });
  } finally {
    await upstream.stop();
  }
});
