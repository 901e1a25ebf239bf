import assert from "node:assert/strict";
import { type HubProcess, startHubProcess } from "../support/hub_process.ts";
import { type PostgresServer, withPostgresServer } from "../support/postgres_server.ts";
import {
  chatStream,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";
import { MONEY_CONFIG, used } from "./money_rig.ts";

const GRACE_MS = 2000;
/** What an end may take beside its grace, and what starting to measure it may add. */
const BEYOND_MS = 5000;
const USAGE = { promptTokens: 100, completionTokens: 50 };

interface Rig {
  server: PostgresServer;
  upstream: ScriptedUpstream;
  folder: string;
  key: string;
  start(): Promise<HubProcess>;
  ask(hub: HubProcess, stream: boolean): Promise<Response>;
  rows(): Promise<number>;
}

async function withRig(body: (rig: Rig, first: HubProcess) => Promise<void>): Promise<void> {
  await withPostgresServer(async (server) => {
    const upstream = await startScriptedUpstream();
    upstream.script(({ json }) =>
      json["stream"] === true ? chatStream({ deltas: ["a", "b"], usage: USAGE }) : used(USAGE)
    );
    const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-usage-" });
    const limits = { shutdownDelayMs: 0, shutdownGraceMs: GRACE_MS };
    await Deno.writeTextFile(
      `${folder}/loophub.json`,
      JSON.stringify({ ...MONEY_CONFIG(upstream.url), server: limits }),
    );
    const hubs: HubProcess[] = [];
    const start = async () => {
      const hub = await startHubProcess(folder, { DATABASE_URL: server.url });
      hubs.push(hub);
      return hub;
    };
    try {
      const first = await start();
      const key = await eventually(() => first.key());
      await body({
        server,
        upstream,
        folder,
        key,
        start,
        ask: (hub, stream) =>
          fetch(`${hub.url}/v1/chat/completions`, {
            method: "POST",
            headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
            body: JSON.stringify({
              model: "up/m",
              stream,
              messages: [{ role: "user", content: "Hi" }],
            }),
          }),
        async rows() {
          const [row] = await server.admin<{ count: number }>(
            "select count(*)::int as count from hub.usage",
          );
          return row?.count ?? 0;
        },
      }, first);
    } finally {
      for (const hub of hubs) await hub.end("SIGKILL").catch(() => {});
      await upstream.stop();
      await Deno.remove(folder, { recursive: true });
    }
  });
}

const journalsOf = async (folder: string) =>
  (await Array.fromAsync(Deno.readDir(`${folder}/data/usage`)).catch(() => []))
    .filter(({ name }) => name.endsWith(".journal")).map(({ name }) => name);

Deno.test("hubs killed with answers that clients have: the next start books each row, once", async () => {
  await withRig(async ({ start, ask, rows }, first) => {
    let hub = first;
    let answered = 0;
    for (let kill = 0; kill < 3; kill++) {
      const answers = Array.from({ length: 25 }, async (_, index) => {
        const answer = await ask(hub, index % 2 === 0);
        assert.equal(answer.status, 200);
        await answer.text();
        answered++;
      });
      await Promise.all(answers);
      await hub.end("SIGKILL");
      hub = await start();
    }
    await eventually(async () => await rows() >= answered || null).catch(() => {});
    assert.equal(await rows(), answered);
  });
});

Deno.test("a hub that ends while Postgres is away leaves its rows for the next start, in time, and says so by its exit code", async () => {
  await withRig(async ({ server, folder, start, ask, rows }, first) => {
    await (await ask(first, true)).text();
    await eventually(async () => await rows() === 1 || null);
    await server.stop("fast");
    for (let call = 0; call < 5; call++) {
      assert.match(await (await ask(first, false)).text(), /hello/);
    }
    const fromMs = performance.now();
    assert.equal(await first.end("SIGTERM"), 6);
    const tookMs = performance.now() - fromMs;
    assert.ok(tookMs < GRACE_MS + BEYOND_MS, `${tookMs} ms`);
    assert.ok(tookMs > GRACE_MS / 2, `the grace was used: ${tookMs} ms`);
    const [name = ""] = await journalsOf(folder);
    assert.equal(((await Deno.stat(`${folder}/data/usage/${name}`)).mode ?? 0) & 0o777, 0o600);
    // A crash may have cut the last line.
    await Deno.writeTextFile(`${folder}/data/usage/${name}`, '\nffffffff "half a ro', {
      append: true,
    });
    await server.start();
    const next = await Promise.all([start(), start()]);
    await eventually(async () => await rows() === 6 || null);
    await eventually(async () => (await journalsOf(folder)).length === next.length || null);
    for (const hub of next) assert.equal(await hub.end("SIGTERM"), 0);
    assert.equal(await rows(), 6);
    assert.deepEqual(await journalsOf(folder), []);
  });
});

Deno.test("a hub whose journal cannot be written says so once, and serves", async () => {
  await withRig(async ({ folder, start, ask, rows }, first) => {
    await first.end("SIGTERM");
    await Deno.remove(`${folder}/data/usage`, { recursive: true });
    await Deno.writeTextFile(`${folder}/data/usage`, "in the way");
    const hub = await start();
    await (await ask(hub, true)).text();
    await eventually(async () => await rows() === 1 || null);
    assert.equal(hub.err().split("no journal of usage rows").length, 2);
    assert.equal(await hub.end("SIGTERM"), 0);
  });
});
