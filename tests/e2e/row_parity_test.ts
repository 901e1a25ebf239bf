import assert from "node:assert/strict";
import postgres from "postgres";
import { startHubProcess } from "../support/hub_process.ts";
import { withPostgresServer } from "../support/postgres_server.ts";
import {
  chatStream,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { startTcpProxy } from "../support/tcp_proxy.ts";
import { eventually, startTestHub } from "../support/test_hub.ts";
import { MONEY_CONFIG, used } from "./money_rig.ts";

const bodyOf = (stream: boolean) => ({
  model: "up/m",
  stream,
  max_tokens: 50,
  messages: [{ role: "user", content: "Hi" }],
});

/** Streams and whole answers; every fourth stream is cut, every fifth request is refused. */
function scriptAll(upstream: ScriptedUpstream, gate?: Promise<void>): void {
  const wait = gate === undefined ? [] : [{ wait: gate }];
  upstream.script((request, index) => {
    if (index % 5 === 4) return { status: 500, body: { error: { message: "no" } }, before: wait };
    if (request.json.stream !== true) return { ...used({ completionTokens: 5 }), before: wait };
    if (index % 4 === 0) return chatStream({ text: "One two", endAfter: 2, end: "reset" });
    return chatStream({ text: "One two three", usage: { completionTokens: 3 } });
  });
}

const post = (url: string, token: string, stream: boolean, signal?: AbortSignal) =>
  fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(bodyOf(stream)),
    ...(signal === undefined ? {} : { signal }),
  });

/** Whatever becomes of it. */
const swallow = (answer: Promise<Response>) =>
  answer.then((answer) => answer.text()).then(() => {}, () => {});

/** Rows and distinct ids; as many as requests that reached the provider. */
const countRows = async (sql: postgres.Sql) =>
  (await sql<{ rows: number }[]>`select count(*)::int as rows from hub.usage`)[0]?.rows ?? 0;

Deno.test("a hub that is told to end writes a row for every request that reached a provider", async () => {
  await withPostgresServer(async (server) => {
    const upstream = await startScriptedUpstream();
    const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-parity-" });
    const config = {
      ...MONEY_CONFIG(upstream.url),
      server: { shutdownDelayMs: 0, shutdownGraceMs: 300 },
    };
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    const hub = await startHubProcess(folder, { DATABASE_URL: server.url });
    const sql = postgres(server.url, { max: 1 });
    try {
      const key = await eventually(() => hub.key());
      scriptAll(upstream);
      await Promise.all(
        Array.from({ length: 40 }, (_, at) => swallow(post(hub.url, key, at % 2 === 0))),
      );
      // Half an answer, none at all, and some that come to their end while the hub does.
      upstream.script((request, index) => {
        if (request.json.stream !== true) {
          return { before: [{ wait: new Promise(() => {}) }], body: "" };
        }
        const half = index % 2 === 0;
        return chatStream(
          half
            ? { text: "One two", endAfter: 2, end: "stall" }
            : { text: "One two three", delayMs: 20 },
        );
      });
      const left = Promise.all(
        Array.from({ length: 24 }, (_, at) => swallow(post(hub.url, key, at % 3 !== 0))),
      );
      await upstream.until(() => upstream.requests.length === 64);
      assert.equal(await hub.end("SIGTERM"), 0, hub.err());
      await left;
      assert.equal(upstream.requests.length, 64);
      assert.equal(await countRows(sql), 64);
      const open = await sql`select 1 from hub.usage where outcome not in
        ('ok', 'error', 'aborted', 'cut', 'timeout')`;
      assert.equal(open.length, 0);
    } finally {
      await sql.end();
      await upstream.stop();
      await Deno.remove(folder, { recursive: true });
    }
  });
});

Deno.test("rows of requests that were served without Postgres are all written when it is back", async () => {
  await withPostgresServer(async (server) => {
    const upstream = await startScriptedUpstream();
    const proxy = await startTcpProxy(server.url);
    const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-parity-" });
    const hub = await startTestHub({
      ...MONEY_CONFIG(upstream.url),
      database: { statementTimeoutMs: 3000 },
    }, { databaseUrl: proxy.through(server.url), dataDir });
    try {
      scriptAll(upstream);
      const burst = (count: number) =>
        Promise.all(
          Array.from({ length: count }, async (_, at) => {
            if (at % 7 !== 6) return await swallow(post(hub.url, hub.key, at % 2 === 0));
            // One that its client leaves, wherever it stands.
            const gone = new AbortController();
            const done = swallow(post(hub.url, hub.key, true, gone.signal));
            gone.abort();
            await done;
          }),
        );
      await burst(30);
      const during = burst(60);
      await server.stop("immediate");
      await during;
      const before = upstream.requests.length;
      await burst(60);
      assert.ok(upstream.requests.length > before);
      await server.start();
      await burst(30);
      const sql = postgres(server.url, { max: 1 });
      try {
        await eventually(
          async () => await countRows(sql) >= upstream.requests.length || null,
          60_000,
        );
        assert.equal(await countRows(sql), upstream.requests.length);
      } finally {
        await sql.end();
      }
    } finally {
      await hub.close();
      await proxy.stop();
      await upstream.stop();
      await Deno.remove(dataDir, { recursive: true });
    }
  });
});
