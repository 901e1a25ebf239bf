import assert from "node:assert/strict";
import type { Connect } from "../../../src/providers/http1/dial.ts";
import type { HttpClient } from "../../../src/providers/http1/client.ts";
import type { UpstreamRequest } from "../../../src/providers/transport.ts";
import { createFakeClock } from "../../support/fake_clock.ts";
import type { Reply, ScriptedUpstream } from "../../support/scripted_upstream.ts";
import { tookUnder } from "../../support/test_hub.ts";
import { memorySocket } from "./memory_socket.ts";
import { errorOf, post, withClient } from "./with_client.ts";

const never = () => new Promise<never>(() => {});
const CLOSE_WITHIN_MS = 250;

interface Phase {
  name: string;
  reply: Reply;
  request?: Partial<UpstreamRequest>;
  secure?: boolean;
  early?: boolean;
  /** Resolves when the exchange stands where it is to be stopped; index counts from 0. */
  reached: (upstream: ScriptedUpstream, index: number) => Promise<void>;
  /** Pieces to read before the stop. */
  reads?: number;
}

const requested = (upstream: ScriptedUpstream, index: number) =>
  upstream.until(() => upstream.requests.length > index);

const PHASES: Phase[] = [
  {
    name: "connecting",
    reply: { end: "stall" },
    reached: () => Promise.resolve(),
  },
  {
    name: "the TLS handshake",
    reply: { end: "stall" },
    secure: true,
    reached: (upstream, index) => upstream.until(() => upstream.accepted > index),
  },
  {
    name: "writing the body",
    reply: { before: [{ wait: never() }] },
    request: { body: new Uint8Array(16 * 1024 * 1024) },
    early: true,
    reached: requested,
  },
  {
    name: "waiting for the head",
    reply: { before: [{ wait: never() }] },
    reached: requested,
  },
  {
    name: "a head half arrived",
    reply: { raw: "HTTP/1.1 200 OK\r\nx", end: "stall" },
    reached: requested,
  },
  {
    name: "a stream",
    reply: { frames: ["data: a\n\n"], end: "stall" },
    reached: requested,
    reads: 1,
  },
  {
    name: "a body with a length",
    reply: { frames: ["abc"], contentLength: 1000, chunked: false, end: "stall" },
    reached: requested,
    reads: 1,
  },
];

/** One exchange that is stopped in its phase; gives the moment of the stop. */
async function stopIn(
  phase: Phase,
  index: number,
  at: { upstream: ScriptedUpstream; client: HttpClient },
) {
  const { upstream, client } = at;
  const abort = new AbortController();
  const url = phase.secure === true ? upstream.url.replace("http:", "https:") : upstream.url;
  const sent = client.send(post(url, { ...phase.request, signal: abort.signal }));
  if (phase.reads === undefined) {
    const failed = errorOf(sent);
    await phase.reached(upstream, index);
    abort.abort();
    assert.equal((await failed).code, "aborted");
    return;
  }
  const response = await sent;
  for (let i = 0; i < phase.reads; i++) assert.notEqual(await response.read(), null);
  const failed = errorOf(response.read());
  // Both ways to stop take turns.
  if (index % 2 === 0) abort.abort();
  else response.cancel();
  assert.equal((await failed).code, "aborted");
  response.cancel();
  assert.equal((await errorOf(response.read())).code, "aborted");
}

for (const phase of PHASES) {
  Deno.test(`a call stopped in ${phase.name} closes its connection at once`, () =>
    withClient(async (upstream, client) => {
      upstream.answerBeforeBody(() => phase.early === true);
      upstream.script(phase.reply);
      await tookUnder(CLOSE_WITHIN_MS, async () => {
        const index = phase.secure === true ? upstream.accepted : upstream.requests.length;
        await stopIn(phase, index, { upstream, client });
        const stoppedMs = performance.now();
        assert.equal(client.stats().open, 0);
        upstream.readLeftBodies();
        await upstream.until(() => upstream.open === 0);
        return performance.now() - stoppedMs;
      });
    }));
}

Deno.test("1000 stopped calls in all phases leave no connection open", () =>
  withClient(async (upstream, client) => {
    let stopped = 0;
    for (const phase of PHASES) {
      const early = phase.early === true;
      upstream.answerBeforeBody(() => early);
      upstream.script(phase.reply);
      const count = early ? 40 : 160;
      const [requests, accepted] = [upstream.requests.length, upstream.accepted];
      const base = phase.secure === true ? accepted : requests;
      const lanes = Array.from({ length: 20 }, async (_, lane) => {
        for (let i = lane; i < count; i += 20) {
          // A lane waits for the upstream to have seen as many calls as lanes have begun rounds, its own among them.
          await stopIn(phase, base + (i - lane), { upstream, client });
          stopped++;
        }
      });
      await Promise.all(lanes);
      upstream.readLeftBodies();
      await upstream.until(() => upstream.open === 0);
    }
    assert.equal(stopped, 1000);
    const { open, idle } = client.stats();
    assert.deepEqual({ open, idle }, { open: 0, idle: 0 });
  }));

Deno.test("a signal that has aborted before stops the call before anything is opened", () =>
  withClient(async (upstream, client) => {
    const reason = new Error("gone");
    const error = await errorOf(
      client.send(post(upstream.url, { signal: AbortSignal.abort(reason) })),
    );
    assert.equal(error.code, "aborted");
    assert.equal(error.cause, reason);
    assert.equal(client.stats().connects, 0);
  }));

Deno.test("a stop on a kept connection does not lead to a second request", () =>
  withClient(async (upstream, client) => {
    upstream.script([{ body: "a" }, { before: [{ wait: never() }] }]);
    const first = await client.send(post(upstream.url));
    while (await first.read() !== null);
    const abort = new AbortController();
    const failed = errorOf(client.send(post(upstream.url, { signal: abort.signal })));
    await requested(upstream, 1);
    abort.abort();
    assert.equal((await failed).code, "aborted");
    await upstream.until(() => upstream.open === 0);
    assert.equal(upstream.requests.length, 2);
    assert.equal(client.stats().replays, 0);
  }));

Deno.test("an abort or cancel after the end leaves the kept connection alone", () =>
  withClient(async (upstream, client) => {
    upstream.script({ body: "a" });
    const abort = new AbortController();
    const response = await client.send(post(upstream.url, { signal: abort.signal }));
    while (await response.read() !== null);
    abort.abort();
    response.cancel();
    const next = await client.send(post(upstream.url));
    while (await next.read() !== null);
    assert.deepEqual([upstream.accepted, client.stats().idle], [1, 1]);
  }));

Deno.test("connecting has its own deadline, and a socket that comes too late is closed", async () => {
  const clock = createFakeClock();
  const late = Promise.withResolvers<ReturnType<typeof memorySocket>>();
  let closed = 0;
  const connect: Connect = () => late.promise;
  await withClient(async (_, client) => {
    const failed = errorOf(client.send(post("http://up.test:81/", { connectTimeoutMs: 700 })));
    await clock.advance(699);
    const abort = new AbortController();
    const stopped = errorOf(client.send(post("http://up.test:81/", { signal: abort.signal })));
    abort.abort();
    assert.equal((await stopped).code, "aborted");
    await clock.advance(1);
    const error = await failed;
    assert.equal(error.code, "upstream_timeout");
    assert.equal(error.message, "Connecting to the upstream took longer than 700 ms");
    assert.equal(clock.pending(), 0);
    const socket = memorySocket([]);
    late.resolve({ ...socket, close: () => void closed++ });
    await late.promise;
    await Promise.resolve();
    assert.equal(closed, 2);
    assert.equal(client.stats().open, 0);
  }, { clock, connect });
});

Deno.test("the deadline covers a TLS handshake that does not go on", async () => {
  const clock = createFakeClock();
  await withClient(async (upstream, client) => {
    const url = upstream.url.replace("http:", "https:");
    const failed = errorOf(client.send(post(url, { connectTimeoutMs: 700 })));
    await upstream.until(() => upstream.open === 1);
    await clock.advance(700);
    assert.equal((await failed).code, "upstream_timeout");
    await upstream.until(() => upstream.open === 0);
  }, { clock });
});
