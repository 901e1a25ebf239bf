import assert from "node:assert/strict";
import {
  CLOSE,
  closeFrame,
  pingFrame,
  pongFrame,
  textFrame,
  type WebSocketEvent,
} from "../../../src/wire/websocket/frames.ts";
import { MAX_MESSAGE_FRAMES, WebSocketReader } from "../../../src/wire/websocket/reader.ts";
import { joinBytes } from "../../../src/core/join_bytes.ts";

const MAX = 100_000;

/** A server's frame as a client would send it. */
function masked(frame: Uint8Array, { first = frame[0] ?? 0 } = {}): Uint8Array {
  const mask = new Uint8Array([1, 2, 250, 4]);
  const short = frame[1] ?? 0;
  const start = short < 126 ? 2 : short === 126 ? 4 : 10;
  const payload = frame.slice(start).map((byte, at) => byte ^ (mask[at & 3] ?? 0));
  const head = frame.slice(0, start);
  head[0] = first;
  head[1] = short | 0x80;
  return joinBytes([head, mask, payload]);
}

const failed = (events: WebSocketEvent[]) =>
  events.map((event) => event.type === "failed" ? event.code : event.type);

Deno.test("texts of all lengths are read, wherever they are cut", () => {
  for (const length of [0, 1, 125, 126, 65_535, 65_536]) {
    const text = "ä".repeat(length >> 1) + "a".repeat(length & 1);
    const bytes = masked(textFrame(text));
    for (const size of [1, 7, bytes.length]) {
      if (size === 1 && length > 1000) continue;
      const reader = new WebSocketReader(MAX);
      const events: WebSocketEvent[] = [];
      for (let at = 0; at < bytes.length; at += size) {
        events.push(...reader.push(bytes.subarray(at, at + size)));
      }
      assert.deepEqual(events, [{ type: "text", text }]);
    }
  }
});

Deno.test("a message in pieces, with control frames between them", () => {
  const reader = new WebSocketReader(MAX);
  const bytes = joinBytes([
    masked(textFrame("one "), { first: 0x01 }),
    masked(pongFrame(new Uint8Array([7])), { first: 0x89 }),
    masked(textFrame("two "), { first: 0x00 }),
    masked(pingFrame(), { first: 0x8a }),
    masked(textFrame("three"), { first: 0x80 }),
    masked(closeFrame(CLOSE.normal)),
    masked(textFrame("never")),
  ]);
  assert.deepEqual(reader.push(bytes), [
    { type: "ping", payload: new Uint8Array([7]) },
    { type: "pong" },
    { type: "text", text: "one two three" },
    { type: "close", code: 1000 },
  ]);
  assert.deepEqual(reader.push(masked(textFrame("never"))), []);
});

Deno.test("what breaks the protocol ends it with its status", () => {
  const text = textFrame("x");
  const cases: [Uint8Array, number][] = [
    [text, 1002],
    [masked(text, { first: 0xc1 }), 1002],
    [masked(text, { first: 0x83 }), 1002],
    [masked(text, { first: 0x80 }), 1002],
    [masked(text, { first: 0x09 }), 1002],
    [masked(textFrame("x".repeat(126)), { first: 0x89 }), 1002],
    [joinBytes([masked(text, { first: 0x01 }), masked(text)]), 1002],
    [masked(text, { first: 0x88 }), 1002],
    [masked(text, { first: 0x82 }), 1003],
    [masked(pongFrame(new Uint8Array([0xff])), { first: 0x81 }), 1007],
    [masked(textFrame("x".repeat(MAX + 1))).subarray(0, 14), 1009],
    [new Uint8Array([0x81, 0xff, 255, 255, 255, 255, 255, 255, 255, 255]), 1009],
  ];
  for (const [bytes, code] of cases) {
    assert.deepEqual(failed(new WebSocketReader(MAX).push(bytes)), [code]);
  }
  const reader = new WebSocketReader(10);
  assert.deepEqual(failed(reader.push(masked(textFrame("123456"), { first: 0x01 }))), []);
  assert.deepEqual(failed(reader.push(masked(textFrame("78901"), { first: 0x80 }))), [1009]);
});

Deno.test("WebSocketReader bounds the frames of a message, empty ones too", () => {
  for (const part of ["", "x"]) {
    const reader = new WebSocketReader(MAX);
    assert.deepEqual(reader.push(masked(textFrame(part), { first: 0x01 })), []);
    const next = masked(textFrame(part), { first: 0x00 });
    for (let frames = 1; frames < MAX_MESSAGE_FRAMES; frames++) {
      assert.deepEqual(reader.push(next), []);
    }
    assert.deepEqual(failed(reader.push(next)), [1008]);
  }
  const reader = new WebSocketReader(MAX);
  for (let messages = 0; messages < 3; messages++) {
    const pieces = [masked(textFrame("a"), { first: 0x01 })];
    while (pieces.length < MAX_MESSAGE_FRAMES - 1) pieces.push(masked(textFrame(""), { first: 0 }));
    pieces.push(masked(textFrame("z"), { first: 0x80 }));
    assert.deepEqual(reader.push(joinBytes(pieces)), [{ type: "text", text: "az" }]);
  }
});

Deno.test("WebSocketReader reads the frames of servers, which have no mask", () => {
  const reader = new WebSocketReader(MAX, { from: "server" });
  const text = "ä".repeat(40_000);
  assert.deepEqual(reader.push(textFrame(text)), [{ type: "text", text }]);
  assert.deepEqual(failed(reader.push(masked(textFrame("x")))), [1002]);
  const mask = new Uint8Array([9, 8, 7, 6]);
  const client = new WebSocketReader(MAX);
  assert.deepEqual(client.push(textFrame(text, mask)), [{ type: "text", text }]);
  assert.deepEqual(client.push(closeFrame(CLOSE.policy, mask)), [{ type: "close", code: 1008 }]);
});
