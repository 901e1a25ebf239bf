import assert from "node:assert/strict";
import { MESSAGES_WIRE } from "../../../src/wire/messages/messages_wire.ts";
import { CHAT } from "../../../src/wire/openai_chat/chat_wire.ts";
import { createResponsesWire } from "../../../src/wire/openai_responses/responses_wire.ts";
import { SseTap } from "../../../src/wire/sse_tap.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const frame = (data: object) => `data: ${JSON.stringify(data)}\n\n`;

/** The dialects whose streams pass as they came, each with a frame of content. */
const DIALECTS = {
  chat: [CHAT, { choices: [{ index: 0, delta: { content: "Hi" } }] }],
  responses: [createResponsesWire(), { type: "response.output_text.delta", delta: "Hi" }],
  messages: [MESSAGES_WIRE, {
    type: "content_block_delta",
    index: 0,
    delta: { type: "text_delta", text: "Hi" },
  }],
} as const;

/** Errors as servers and gateways write them into a stream of any dialect. */
const ERRORS = [
  { error: { message: "key sk-1 is bad", type: "server_error" } },
  { error: "key sk-1 is bad" },
  { object: "error", message: "key sk-1 is bad", code: 500 },
  { detail: "key sk-1 is bad" },
  { detail: [{ loc: ["body", "n"], msg: "key sk-1 is bad" }] },
];

for (const [name, [wire, content]] of Object.entries(DIALECTS)) {
  Deno.test(`${name}: an error of any form ends a stream that has begun, and does not pass itself`, () => {
    for (const error of ERRORS) {
      const redact = (text: string) => text.replaceAll("sk-1", "[key]");
      const tap = new SseTap(wire.createFrames({ hideUsage: false, choices: 1, redact }));
      assert.equal(decoder.decode(tap.push(encoder.encode(frame(content)))), frame(content));
      assert.ok(tap.facts.content);
      const passed = decoder.decode(tap.push(encoder.encode(frame(error))));
      assert.equal(passed, "", JSON.stringify(error));
      assert.match(tap.facts.error?.message ?? "", /key \[key\] is bad/, JSON.stringify(error));
    }
  });
}

Deno.test("chat: what only speaks of errors and details passes", () => {
  const chunk = {
    object: "chat.completion.chunk",
    detail: "high",
    error: null,
    choices: [{ index: 0, delta: { content: '{"error":"no","detail":"no"}' } }],
  };
  const tap = new SseTap(
    CHAT.createFrames({ hideUsage: false, choices: 1, redact: (text) => text }),
  );
  assert.equal(decoder.decode(tap.push(encoder.encode(frame(chunk)))), frame(chunk));
  assert.equal(tap.facts.error, null);
});
