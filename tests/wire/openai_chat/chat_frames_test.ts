import assert from "node:assert/strict";
import process from "node:process";
import fc from "fast-check";
import { ChatFrames } from "../../../src/wire/openai_chat/chat_frames.ts";
import { createChatDecoder } from "../../../src/wire/openai_chat/decode_stream.ts";
import { SseTap } from "../../../src/wire/sse_tap.ts";
import { property } from "../../support/property.ts";
import { chatFrames } from "../../support/scripted_upstream.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const FRAMES = chatFrames({
  reasoning: "hm né",
  text: "Wörld 🌍 done",
  toolCalls: [{ name: "f", arguments: { a: "🌍" } }],
  usage: { promptTokens: 3, completionTokens: 2 },
});
const WITHOUT_USAGE = FRAMES.filter((frame) => !frame.includes('"usage"')).join("");

const newTap = (options: { hideUsage?: boolean; choices?: number } = {}) =>
  new SseTap(new ChatFrames({ hideUsage: false, choices: 1, redact: (text) => text, ...options }));

/** Pushes the bytes in these pieces; what passed, and the facts. */
function tapped(pieces: Uint8Array[], hideUsage: boolean) {
  const tap = newTap({ hideUsage });
  const passed = pieces.map((piece) => decoder.decode(tap.push(piece))).join("");
  return { passed, facts: tap.facts, unfinished: tap.unfinished };
}

for (const [name, newline] of [["LF", "\n"], ["CRLF", "\r\n"]] as const) {
  const text = FRAMES.join("").replaceAll("\n", newline);
  const bytes = encoder.encode(text);
  Deno.test(`${name}: at every cut the same bytes pass and the same is seen`, () => {
    for (let cut = 0; cut <= bytes.length; cut++) {
      const pieces = [bytes.slice(0, cut), bytes.slice(cut)];
      const open = tapped(pieces, false);
      assert.equal(open.passed, text);
      const { content, finished, done, usage } = open.facts;
      assert.deepEqual({ content, finished, done, prompt: usage?.promptTokens }, {
        content: true,
        finished: true,
        done: true,
        prompt: 3,
      });
      assert.equal(tapped(pieces, true).passed, WITHOUT_USAGE.replaceAll("\n", newline));
    }
    const single = [...bytes].map((byte) => new Uint8Array([byte]));
    assert.equal(tapped(single, true).passed, WITHOUT_USAGE.replaceAll("\n", newline));
  });
}

property(
  "any cutting passes the same bytes, and decodes to the same events",
  fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 30 }),
  (sizes) => {
    const bytes = encoder.encode(FRAMES.join(""));
    const pieces: Uint8Array[] = [];
    for (let at = 0, turn = 0; at < bytes.length; turn++) {
      const size = sizes[turn % sizes.length] ?? 1;
      pieces.push(bytes.slice(at, at + size));
      at += size;
    }
    assert.equal(tapped(pieces, true).passed, WITHOUT_USAGE);
    const decode = (parts: Uint8Array[]) => {
      const chat = createChatDecoder();
      const events = [...parts.flatMap((part) => chat.push(part)), ...chat.end()];
      return JSON.stringify(events);
    };
    assert.equal(decode(pieces), decode([bytes]));
  },
);

Deno.test("nothing is content before the first content, and a cut frame does not pass", () => {
  const [role = "", first = ""] = FRAMES;
  const tap = newTap();
  tap.push(encoder.encode(`: comment\n\n${role}`));
  assert.equal(tap.facts.content, false);
  assert.equal(decoder.decode(tap.push(encoder.encode(first.slice(0, -5)))), "");
  assert.equal(tap.facts.content, false);
  assert.ok(tap.unfinished > 0);
});

Deno.test("an error frame, a broken frame and an endless frame are seen", () => {
  const tap = newTap();
  tap.push(encoder.encode('data: {broken\n\ndata: {"error":{"message":"no"}}\n\n'));
  assert.equal(tap.facts.malformedFrames, 1);
  assert.equal(tap.facts.error?.message, "no");
  const endless = newTap();
  const piece = new Uint8Array(1024 * 1024).fill(0x61);
  assert.throws(() => {
    for (let mega = 0; mega < 10; mega++) endless.push(piece);
  }, { code: "upstream_malformed" });
});

Deno.test("only a frame that is [DONE] is the end, not a text that speaks of it", () => {
  for (const text of ["[DONE]", "data: [DONE]", "data: [DONE]\n\n"]) {
    const tap = newTap();
    for (const frame of chatFrames({ text: "one", deltas: [text], done: false, endAfter: 2 })) {
      tap.push(encoder.encode(frame));
    }
    tap.push(encoder.encode(": [DONE]\n\nevent: [DONE]\n\ndata: x\ndata: [DONE]\n\n"));
    assert.equal(tap.facts.done, false, text);
    tap.push(encoder.encode("data:[DONE]\r\n\r\n"));
    assert.equal(tap.facts.done, true);
  }
});

Deno.test("with several choices each has to end", () => {
  const frames = chatFrames({ text: "one", n: 3, done: false });
  const ends = frames.map((_, count) => {
    const tap = newTap({ choices: 3 });
    for (const frame of frames.slice(0, count + 1)) tap.push(encoder.encode(frame));
    return tap.facts.finished;
  });
  assert.deepEqual(ends, frames.map((_, count) => count === frames.length - 1));
});

Deno.test("an empty finish reason ends nothing", () => {
  const tap = newTap();
  tap.push(encoder.encode('data: {"choices":[{"delta":{"content":"x"},"finish_reason":""}]}\n\n'));
  assert.deepEqual([tap.facts.content, tap.facts.finished], [true, false]);
});

Deno.test("a large frame in small reads costs work in proportion to its bytes", () => {
  const frame = encoder.encode(`data: {"a":"${"x".repeat(8_000_000)}"}\n\n`);
  const { set } = Uint8Array.prototype;
  let copied = 0;
  Uint8Array.prototype.set = function (from, at) {
    copied += from.length;
    return set.call(this, from, at);
  };
  try {
    const tap = newTap();
    const before = process.cpuUsage();
    let passed = 0;
    for (let at = 0; at < frame.length; at += 4096) {
      passed += tap.push(frame.subarray(at, at + 4096)).length;
    }
    assert.equal(passed, frame.length);
    assert.ok(copied < 4 * frame.length, `${copied} bytes copied`);
    // The search cannot be counted; it took many seconds when each read searched all that had come.
    const { user } = process.cpuUsage(before);
    assert.ok(user < 3_000_000, `${user} microseconds`);
  } finally {
    Uint8Array.prototype.set = set;
  }
});

Deno.test("an answer without a finish reason is a cut one", () => {
  const chat = createChatDecoder();
  chat.push(encoder.encode(FRAMES.slice(0, 4).join("")));
  assert.throws(() => chat.end(), { code: "upstream_cut" });
});

Deno.test("calls without an index, and a new id on a used index, are told apart", () => {
  const frame = (call: object) =>
    encoder.encode(`data: ${JSON.stringify({ choices: [{ delta: { tool_calls: [call] } }] })}\n\n`);
  const chat = createChatDecoder();
  const events = [
    { index: 0, id: "a", function: { name: "f", arguments: "{}" } },
    { index: 0, id: "b", function: { name: "g", arguments: '{"x"' } },
    { index: 0, function: { arguments: ":1}" } },
    { id: "c", function: { name: "h", arguments: "{}" } },
  ].flatMap((call) => chat.push(frame(call)));
  assert.deepEqual(
    events.map((event) =>
      event.type === "tool-call-start"
        ? event.toolName
        : event.type === "tool-call-delta"
        ? `${event.index}:${event.delta}`
        : event.type
    ),
    ["f", "0:{}", "g", '1:{"x"', "1::1}", "h", "2:{}"],
  );
});
