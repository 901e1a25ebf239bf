import assert from "node:assert/strict";
import type { JSONRPCMessage } from "@modelcontextprotocol/server";
import { joinBytes } from "../../../src/core/join_bytes.ts";
import { WsConnection } from "../../../src/headends/mcp_server/ws_connection.ts";
import { CLOSE, closeFrame, pongFrame, textFrame } from "../../../src/wire/websocket/frames.ts";
import { createFakeClock, settle } from "../../support/fake_clock.ts";

const PING_MS = 1000;

/** A server's frame under a mask of zeros. */
function fromClient(frame: Uint8Array, first = frame[0] ?? 0): Uint8Array {
  assert.ok((frame[1] ?? 0) < 126);
  return joinBytes([
    new Uint8Array([first, (frame[1] ?? 0) | 0x80, 0, 0, 0, 0]),
    frame.subarray(2),
  ]);
}

async function open(assertKey: () => Promise<unknown> = () => Promise.resolve()) {
  const clock = createFakeClock();
  const incoming = new TransformStream<Uint8Array, Uint8Array>(undefined, { highWaterMark: 9 });
  const [writer, reader] = [incoming.writable.getWriter(), incoming.readable.getReader()];
  let ends = 0;
  const connection = new WsConnection({
    request: { readUpgraded: async () => (await reader.read()).value ?? null },
    clock,
    pingMs: PING_MS,
    assertKey,
    onEnd: () => void ends++,
  });
  const got: JSONRPCMessage[] = [];
  connection.onmessage = got.push.bind(got);
  const sent: string[] = [];
  await connection.start();
  const pump = (async () => {
    for (;;) {
      const bytes = await connection.frames.pull();
      if (bytes === null) return;
      const [first = 0] = bytes;
      const payload = bytes.subarray(bytes[1] === 126 ? 4 : 2);
      sent.push(
        first === 0x81
          ? new TextDecoder().decode(payload)
          : first === 0x88
          ? `close ${((payload[0] ?? 0) << 8) | (payload[1] ?? 0)}`
          : first === 0x89
          ? "ping"
          : `pong ${payload.join()}`,
      );
    }
  })();
  return {
    clock,
    connection,
    got,
    sent,
    ends: () => ends,
    async say(frame: Uint8Array, first?: number) {
      await writer.write(fromClient(frame, first));
      await settle();
    },
    async leave() {
      await writer.close();
      await settle();
    },
    async over() {
      await pump;
      assert.equal(ends, 1);
      assert.equal(clock.pending(), 0);
      await writer.close().catch(() => {});
    },
  };
}

const ping = (id: number) => textFrame(JSON.stringify({ jsonrpc: "2.0", id, method: "ping" }));

Deno.test("a text is a message; pings are answered, a close is returned", async () => {
  const { say, got, sent, over, connection } = await open();
  await say(ping(1));
  await say(pongFrame(new Uint8Array([1, 2])), 0x89);
  await connection.send({ jsonrpc: "2.0", method: "x" });
  await say(textFrame("junk"));
  await say(textFrame("{}"));
  await say(closeFrame(CLOSE.normal));
  await over();
  assert.equal(got.length, 1);
  assert.deepEqual(sent.slice(0, 2), ["pong 1,2", '{"jsonrpc":"2.0","method":"x"}']);
  assert.match(sent[2] ?? "", /-32700/);
  assert.match(sent[3] ?? "", /-32600/);
  assert.deepEqual(sent.slice(4), ["close 1000"]);
  await assert.rejects(connection.send({ jsonrpc: "2.0", method: "x" }), /has ended/);
});

Deno.test("what breaks the protocol, a key that holds no more and a stop end it with their status", async () => {
  const broken = await open();
  await broken.say(textFrame("x"), 0x82);
  await broken.over();
  assert.deepEqual(broken.sent, ["close 1003"]);

  let holds = true;
  const revoked = await open(() => holds ? Promise.resolve() : Promise.reject(new Error("no")));
  await revoked.say(ping(1));
  holds = false;
  await revoked.say(ping(2));
  await revoked.over();
  assert.equal(revoked.got.length, 1);
  assert.deepEqual(revoked.sent, ["close 1008"]);

  const stopped = await open();
  await stopped.connection.close();
  await stopped.over();
  assert.deepEqual(stopped.sent, ["close 1001"]);
});

Deno.test("a client that says nothing to three pings is gone", async () => {
  const { clock, say, sent, over, ends } = await open();
  await clock.advance(3 * PING_MS);
  assert.deepEqual(sent, ["ping", "ping", "ping"]);
  await say(pongFrame(new Uint8Array(0)));
  await clock.advance(3 * PING_MS);
  assert.equal(ends(), 0);
  await clock.advance(PING_MS);
  await over();
  assert.deepEqual(sent.slice(6), ["close 1001"]);
});

Deno.test("a client that leaves, or never reads, ends it", async () => {
  const left = await open();
  await left.leave();
  await left.over();

  const clock = createFakeClock();
  let ends = 0;
  const slow = new WsConnection({
    request: { readUpgraded: () => new Promise(() => {}) },
    clock,
    pingMs: PING_MS,
    assertKey: () => Promise.resolve(),
    onEnd: () => void ends++,
  });
  await slow.start();
  for (let at = 0; at < 9; at++) {
    await slow.send({ jsonrpc: "2.0", method: "x".repeat(1024 * 1024) }).catch(() => {});
  }
  assert.equal(ends, 1);
  assert.equal(await slow.frames.pull(), null);
  assert.equal(clock.pending(), 0);
});
