import assert from "node:assert/strict";
import {
  chatCompletion,
  chatError,
  chatStream,
  type Reply,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, tookUnder, withHub } from "../support/test_hub.ts";

const messages = [{ role: "user", content: "Hi" }];
const never: Reply = { before: [{ wait: new Promise(() => {}) }], body: "" };
const JSON_TYPE = { "content-type": "application/json" };

/** Where the answer stands when the client leaves: what the upstream sends, and whether the client reads some first. */
interface Phase {
  name: string;
  stream: boolean;
  reply: Reply;
  reads?: RegExp;
  headers?: Record<string, string>;
}

const half = chatStream({ text: "a b c", endAfter: 3, end: "stall" });
const PHASES: Phase[] = [
  { name: "head-whole", stream: false, reply: never },
  { name: "head-stream", stream: true, reply: never },
  { name: "head-stream-pinged", stream: true, reply: never, reads: /: open/ },
  {
    name: "body-whole",
    stream: false,
    reply: { headers: JSON_TYPE, body: '{"id"', contentLength: 99, end: "stall" },
  },
  { name: "before-content", stream: true, reply: chatStream({ endAfter: 1, end: "stall" }) },
  { name: "mid-stream", stream: true, reply: half, reads: /"a / },
  {
    name: "mid-ui",
    stream: true,
    reply: half,
    reads: /text-delta/,
    headers: { "hub-stream": "ui" },
  },
];

/** Asks over a connection of its own, and gives the way to leave with a FIN or a reset. */
async function connect(hub: TestHub, phase: Phase) {
  const { hostname, port } = new URL(hub.url);
  const socket = await Deno.connect({ hostname, port: Number(port) });
  const body = JSON.stringify({ model: `up/${phase.name}`, stream: phase.stream, messages });
  const head = [
    "POST /v1/chat/completions HTTP/1.1",
    `host: ${hostname}:${port}`,
    `authorization: Bearer ${hub.key}`,
    "content-type: application/json",
    `content-length: ${body.length}`,
    ...Object.entries(phase.headers ?? {}).map(([name, value]) => `${name}: ${value}`),
  ];
  await socket.write(new TextEncoder().encode(`${head.join("\r\n")}\r\n\r\n${body}`));
  return socket;
}

async function readUntil(socket: Deno.TcpConn, wanted: RegExp): Promise<void> {
  const buffer = new Uint8Array(65_536);
  let text = "";
  while (!wanted.test(text)) {
    const size = await socket.read(buffer);
    assert.ok(size !== null, `The connection ended after ${text}`);
    text += new TextDecoder().decode(buffer.subarray(0, size));
  }
}

Deno.test("a client that leaves stops the provider's work at once", async (t) => {
  const upstream = await startScriptedUpstream();
  const config = {
    // One request at a time: a place that an abort does not give back stops everything after it.
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-up", maxConcurrent: 1, maxRetries: 2 } },
    defaultModel: "up/m",
    server: { keepaliveMs: 100 },
  };
  try {
    await withHub(config, async (hub) => {
      const rowsOf = (model: string) =>
        hub.hub.start.db.read<{ outcome: string; error_code: string; estimated: boolean }[]>`
          select outcome, error_code, estimated from hub.usage where model = ${model}`;
      /** Requests that ended because their client had left. */
      const left = async () => {
        const text = await (await hub.call("/metrics")).text();
        const counted = /requests_total\{[^}]*completions[^}]*status="499"[^}]*\} (\d+)/.exec(text);
        return Number(counted?.[1]);
      };
      const asked = (model: string, signal?: AbortSignal) =>
        hub.call("/v1/chat/completions", {
          body: { model: `up/${model}`, messages },
          ...(signal === undefined ? {} : { signal }),
        });

      /** How often each phase was left. */
      const times = new Map<string, number>();
      for (const phase of PHASES) {
        await t.step(`${phase.name}: the upstream sees it within 250 ms`, async () => {
          upstream.script(phase.reply);
          await tookUnder(250, async () => {
            const requests = upstream.requests.length;
            const closes = upstream.closedByClient.length;
            const socket = await connect(hub, phase);
            await upstream.until(() => upstream.requests.length > requests);
            if (phase.reads !== undefined) await readUntil(socket, phase.reads);
            const leftMs = performance.now();
            socket.close();
            await upstream.until(() => upstream.closedByClient.length > closes);
            const seen = upstream.closedByClient.at(-1);
            assert.equal(seen?.during, "reply");
            assert.equal(upstream.requests.length, requests + 1);
            times.set(phase.name, (times.get(phase.name) ?? 0) + 1);
            return (seen?.atMs ?? NaN) - leftMs;
          });
        });
      }

      await t.step("each is one aborted usage row, which is estimated", async () => {
        for (const { name } of PHASES) {
          const count = times.get(name) ?? 0;
          const rows = await eventually(async () => {
            const found = await rowsOf(name);
            return found.length >= count ? found : null;
          });
          const facts = rows.map((row) => `${row.outcome} ${row.error_code}`);
          assert.deepEqual(facts, Array(count).fill("aborted client_closed"), name);
          assert.ok(rows.every(({ estimated }) => estimated), name);
        }
      });

      await t.step(
        "a client that leaves while it waits for its turn never reaches it",
        async () => {
          const gate = Promise.withResolvers<void>();
          upstream.script([{ ...chatCompletion({ text: "1" }), before: [{ wait: gate.promise }] }]);
          const before = upstream.requests.length;
          const first = asked("turn");
          await upstream.until(() => upstream.requests.length > before);
          const leftBefore = await left();
          const abort = new AbortController();
          const second = assert.rejects(asked("turn", abort.signal));
          await eventually(async () => {
            const text = await (await hub.call("/metrics")).text();
            return text.includes('loophub_gate_waiting{gate="provider",name="up"} 1') || null;
          });
          abort.abort();
          await eventually(async () => await left() > leftBefore ? true : null);
          await second;
          gate.resolve();
          assert.equal((await (await first).json()).choices[0].message.content, "1");
          upstream.script(chatCompletion({ text: "next" }));
          assert.equal((await (await asked("turn")).json()).choices[0].message.content, "next");
          assert.equal(upstream.requests.length, before + 2);
        },
      );

      await t.step("a client that leaves between two tries leaves no retry behind", async () => {
        upstream.script((_, index) =>
          index === before
            ? chatError(503, { headers: { "retry-after": "5" } })
            : chatCompletion({ text: "after" })
        );
        const before = upstream.requests.length;
        const abort = new AbortController();
        const rejected = assert.rejects(asked("backoff", abort.signal));
        // The row of the first try is written while the hub waits for the second.
        await eventually(async () => (await rowsOf("backoff"))[0]);
        assert.equal(upstream.requests.length, before + 1);
        abort.abort();
        await rejected;
        // The place is free again, and the second try would have come by then.
        await (await asked("other")).body?.cancel();
        await assert.rejects(upstream.until(() => upstream.requests.length > before + 2, 5500));
        assert.equal((await rowsOf("backoff")).length, 1);
      });
    });
  } finally {
    await upstream.stop();
  }
});
