import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { chat, createAdmin, createRawLog, takeKeys } from "../support/providers_rig.ts";
import { type ScriptedUpstream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { startTcpProxy } from "../support/tcp_proxy.ts";
import { eventually, startTestHub, type TestHub } from "../support/test_hub.ts";

const OLD = "sk-rotated-old-000001";
const NEW = "sk-rotated-new-000002";
const LAST = "sk-rotated-end-000003";

/** Asks again and again at both hubs until told to stop; gives what came, oldest first. */
function startLoad(hubs: readonly TestHub[], model: string) {
  let going = true;
  const answers: string[] = [];
  const loops = Array.from({ length: 8 }, async (_, index) => {
    const hub = hubs[index % hubs.length];
    while (going && hub !== undefined) answers.push(await chat(hub, model));
  });
  return {
    answers,
    /** Resolves once so many more have been answered. */
    async more(count: number) {
      const wanted = answers.length + count;
      await eventually(() => answers.length >= wanted ? true : null);
    },
    async stop() {
      going = false;
      await Promise.all(loops);
    },
  };
}

async function withHubs(
  body: (parts: {
    start(dataDir?: string): Promise<TestHub & { close(): Promise<void> }>;
    upstream: ScriptedUpstream;
    folder: string;
    log: ReturnType<typeof createRawLog>;
    setDatabase(mode: "pass" | "refuse"): Promise<void>;
  }) => Promise<void>,
): Promise<void> {
  const server = await startTestPostgres({ migrated: false });
  const proxy = await startTcpProxy(server.url);
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-hub-" });
  const upstream = await startScriptedUpstream();
  const log = createRawLog();
  const hubs: (TestHub & { close(): Promise<void> })[] = [];
  try {
    await body({
      upstream,
      folder,
      log,
      async setDatabase(mode) {
        await proxy.set(mode);
        if (mode === "refuse") proxy.cut();
      },
      async start(dataDir = `${folder}/data`) {
        const key = hubs[0]?.key;
        const config = { providers: { file: { kind: "demo" } }, defaultModel: "file/talk" };
        const hub = await startTestHub(config, {
          databaseUrl: proxy.through(server.url),
          dataDir,
          log: log.log,
          ...(key === undefined ? {} : { key }),
        });
        hubs.push(hub);
        return hub;
      },
    });
  } finally {
    await proxy.set("pass");
    for (const hub of hubs) await hub.close();
    await upstream.stop();
    await proxy.stop();
    await server.stop();
    await Deno.remove(folder, { recursive: true });
  }
}

const keyOf = ({ value }: { value: JsonObject }) => value["key"] as JsonObject;

Deno.test("a key is rotated under load on two replicas, and no request fails", async () => {
  await withHubs(async ({ start, upstream, log }) => {
    const hubs = [await start(), await start()];
    const [first] = hubs;
    assert.ok(first !== undefined);
    const admin = createAdmin(first);
    takeKeys(upstream, OLD);
    const body = { name: "db", baseUrl: upstream.url, apiKey: OLD };
    const { id } = (await admin("providers", { body })).value;
    for (const hub of hubs) {
      await eventually(async () => await chat(hub, "db/m") === "by 000001" ? true : null);
    }
    const load = startLoad(hubs, "db/m");
    try {
      await load.more(50);
      // The provider does not know the new key yet: the old one holds.
      const rotated = await admin(`providers/${id}/rotate`, { body: { apiKey: NEW } });
      assert.deepEqual(keyOf(rotated)["formerHolds"], true);
      await eventually(() =>
        upstream.requests.some((r) => r.header("authorization") === `Bearer ${NEW}`) || null
      );
      await load.more(100);
      assert.equal(keyOf(await admin(`providers/${id}`))["formerUntil"], null);
      // From one moment to the next it takes the new one alone, while that one still rests.
      takeKeys(upstream, NEW);
      await load.more(100);
      await eventually(async () => keyOf(await admin(`providers/${id}`))["formerUntil"]);
      // A wrong key, and a right one in its place.
      await admin(`providers/${id}/rotate`, { body: { apiKey: "sk-mistyped-000004" } });
      await load.more(100);
      takeKeys(upstream, NEW, LAST);
      await admin(`providers/${id}/rotate`, { body: { apiKey: LAST } });
      await eventually(() => load.answers.at(-1) === "by 000003" || null);
      takeKeys(upstream, LAST);
      await load.more(100);
    } finally {
      await load.stop();
    }
    const kinds = new Set(load.answers);
    assert.deepEqual([...kinds].sort(), ["by 000001", "by 000002", "by 000003"]);
    assert.ok(log.count("A provider's new key works") >= 1);
    for (const line of log.lines) assert.doesNotMatch(line, /sk-rotated|sk-mistyped/);
  });
});

Deno.test("the proxy goes on with the database's providers while that is away", async () => {
  await withHubs(async ({ start, upstream, log, setDatabase }) => {
    const hub = await start();
    const admin = createAdmin(hub);
    takeKeys(upstream, OLD, NEW);
    const body = { name: "db", baseUrl: upstream.url, apiKey: OLD };
    const { id } = (await admin("providers", { body })).value;
    await admin(`providers/${id}/rotate`, { body: { apiKey: NEW } });
    await setDatabase("refuse");
    for (let round = 0; round < 20; round++) assert.equal(await chat(hub, "db/m"), "by 000002");
    await eventually(() => log.count("That a provider's new key works was not stored") || null);
    assert.equal((await admin("providers")).status, 503);
    await setDatabase("pass");
    await eventually(async () => {
      await chat(hub, "db/m");
      const answer = await admin(`providers/${id}`);
      return answer.status === 200 ? keyOf(answer)["formerUntil"] : null;
    });
  });
});

Deno.test("the master key is changed replica by replica, and nothing stops working", async () => {
  await withHubs(async ({ start, upstream, folder, log }) => {
    takeKeys(upstream, OLD, NEW);
    const first = await start();
    const one = (await Deno.readTextFile(`${folder}/data/master.key`)).trim();
    const two = crypto.getRandomValues(new Uint8Array(32)).toHex();
    const withKeys = async (name: string, ...keys: string[]) => {
      await Deno.mkdir(`${folder}/${name}`);
      await Deno.writeTextFile(`${folder}/${name}/master.key`, `${keys.join("\n")}\n`);
      return await start(`${folder}/${name}`);
    };
    const admin = createAdmin(first);
    const body = { name: "db", baseUrl: upstream.url, apiKey: OLD, headers: { "x-a": "b" } };
    const { id } = (await admin("providers", { body })).value;
    assert.equal(await chat(first, "db/m"), "by 000001");

    // First all of them read the new one, then all of them write it.
    const reader = await withKeys("reader", one, two);
    const writer = await withKeys("writer", two, one);
    const load = startLoad([reader, writer], "db/m");
    try {
      const made = keyOf(
        await createAdmin(writer)("providers", {
          body: { name: "fresh", baseUrl: upstream.url, apiKey: NEW },
        }),
      );
      assert.notEqual(made["masterKeyId"], keyOf(await admin(`providers/${id}`))["masterKeyId"]);
      assert.equal(await chat(reader, "fresh/m").then((text) => text), "by 000002");
      const resealed = await createAdmin(writer)("secrets/reseal", { method: "POST" });
      assert.deepEqual(resealed.value, {
        masterKeyId: made["masterKeyId"],
        resealed: 3,
        left: 0,
      });
      await load.more(50);
      const alone = await withKeys("alone", two);
      assert.equal(await chat(alone, "db/m"), "by 000001", "API keys hold too");
      assert.equal(
        keyOf(await createAdmin(alone)(`providers/${id}`))["masterKeyId"],
        made["masterKeyId"],
      );
      const again = await createAdmin(alone)("secrets/reseal", { method: "POST" });
      assert.equal(again.value["resealed"], 0);

      // One that was left behind goes on as it was, says so, and cannot be started anew.
      await eventually(() =>
        log.count("A provider of the database was not reloaded: it goes on") || null
      );
      assert.equal(await chat(first, "db/m"), "by 000001");
      await Deno.mkdir(`${folder}/lost`);
      await Deno.writeTextFile(`${folder}/lost/master.key`, one);
      await assert.rejects(start(`${folder}/lost`), {
        code: "invalid_configuration",
        message: /sealed with master key/,
      });
    } finally {
      await load.stop();
    }
    assert.deepEqual([...new Set(load.answers)], ["by 000001"]);
  });
});
