import assert from "node:assert/strict";
import type { JSONRPCMessage } from "@modelcontextprotocol/server";
import { bridgeMessages } from "../../src/cli/bridge_messages.ts";
import { LineTransport } from "../../src/headends/mcp_server/line_transport.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";

/** A bridge between a client that says these lines and leaves its input at once, and a hub that answers when it is told to. */
function createRig(lines: readonly object[], { lastLine = "" } = {}) {
  const clock = createFakeClock();
  const encoder = new TextEncoder();
  const written: { id?: number; result?: unknown; error?: { message: string } }[] = [];
  const sent: { id?: number; method?: string }[] = [];
  const problems: string[] = [];
  const stopped = Promise.withResolvers<void>();
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  const client = new LineTransport({
    input: ReadableStream.from([encoder.encode(text + lastLine)]),
    output: new WritableStream({
      write: (bytes) => void written.push(JSON.parse(new TextDecoder().decode(bytes))),
    }),
    outlivesInput: true,
  });
  const server = {
    ending: null,
    onmessage: (_: JSONRPCMessage) => {},
    start: () => Promise.resolve(),
    close: () => Promise.resolve(),
    send: (message: object) => Promise.resolve(void sent.push(message)),
  };
  const connected = Promise.withResolvers<void>();
  const ended = bridgeMessages({
    ...{ clock, client, server, name: "the hub", stopped: stopped.promise },
    connect: () => connected.promise,
    onLost: (problem) => void problems.push(problem),
  });
  let isOver = false;
  void ended.then(() => isOver = true);
  return {
    ...{ clock, written, sent, problems, ended, connected, stop: () => stopped.resolve() },
    isOver: () => isOver,
    answer: (id: number) => server.onmessage({ jsonrpc: "2.0", id, result: { for: id } }),
  };
}

const request = (id: number, method: string) => ({ jsonrpc: "2.0", id, method });

Deno.test("a bridge whose input ends leaves once all that was asked is sent, answered and written", async () => {
  const lastLine = JSON.stringify(request(2, "tools/list"));
  const rig = createRig([request(1, "ping")], { lastLine });
  await settle();
  assert.deepEqual(rig.sent, []);
  rig.connected.resolve();
  await settle();
  assert.deepEqual(rig.sent.map(({ id }) => id), [1, 2]);
  rig.answer(2);
  await settle();
  assert.equal(rig.isOver(), false);
  rig.answer(1);
  assert.equal(await rig.ended, true);
  assert.deepEqual(rig.written.map(({ id }) => id), [2, 1]);
  assert.equal(rig.clock.pending(), 0);
});

Deno.test("nobody waits for what was cancelled, nor for news without end", async () => {
  const cancelled = { method: "notifications/cancelled", params: { requestId: 1 } };
  const rig = createRig([
    request(1, "tools/call"),
    request(2, "subscriptions/listen"),
    { jsonrpc: "2.0", ...cancelled },
  ]);
  rig.connected.resolve();
  assert.equal(await rig.ended, true);
  assert.equal(rig.sent.length, 3);
});

Deno.test("what is not answered a minute after the end of the input is answered with an error", async () => {
  const rig = createRig([request(1, "tools/call")]);
  rig.connected.resolve();
  await rig.clock.advance(59_999);
  assert.equal(rig.isOver(), false);
  await rig.clock.advance(1);
  assert.equal(await rig.ended, false);
  assert.deepEqual(rig.written.map(({ id }) => id), [1]);
  assert.match(rig.written[0]?.error?.message ?? "", /no answer within 60 s/);
  assert.match(rig.problems.join(), /no answer/);
});

Deno.test("a hub that is not to be had is told of behind the end of the input too, and a signal waits for nothing", async () => {
  const away = createRig([request(1, "ping")]);
  away.connected.reject(new Error("There is nobody"));
  assert.equal(await away.ended, false);
  assert.match(away.written[0]?.error?.message ?? "", /There is nobody/);
  const stopped = createRig([request(1, "ping")]);
  stopped.connected.resolve();
  await settle();
  stopped.stop();
  assert.equal(await stopped.ended, true);
});
