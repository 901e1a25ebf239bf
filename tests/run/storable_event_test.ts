import assert from "node:assert/strict";
import fc from "fast-check";
import type { HubEvent } from "../../src/core/event.ts";
import { storableEvent, storableText } from "../../src/run/storable_event.ts";
import { property } from "../support/property.ts";

const BAD = "a\0b\ud800c\udc00";
const GOOD = "a\ufffdb\ufffdc\ufffd";

Deno.test("text that Postgres can hold stays the same text", () => {
  assert.equal(storableText("é🌍\u0001\ufffd"), "é🌍\u0001\ufffd");
  assert.equal(storableText(BAD), GOOD);
});

Deno.test("an event without such letters is given back itself, not a copy", () => {
  const events: HubEvent[] = [
    { type: "text-delta", id: "p0", delta: "é🌍" },
    { type: "reasoning-delta", id: "p0", delta: "x" },
    { type: "tool-input-available", toolCallId: "c", toolName: "f", input: { a: ["🌍", 1] } },
    { type: "step-start", step: 0 },
  ];
  for (const event of events) assert.equal(storableEvent(event), event);
});

Deno.test("deltas, and whatever is deep in a value or its names, lose them", () => {
  assert.deepEqual(storableEvent({ type: "text-delta", id: "p0", delta: BAD }), {
    type: "text-delta",
    id: "p0",
    delta: GOOD,
  });
  assert.deepEqual(
    storableEvent({
      type: "tool-input-available",
      toolCallId: "c",
      toolName: "f",
      input: { [BAD]: [{ deep: BAD }, 1, null, true] },
    }),
    {
      type: "tool-input-available",
      toolCallId: "c",
      toolName: "f",
      input: { [GOOD]: [{ deep: GOOD }, 1, null, true] },
    },
  );
});

property(
  "no event keeps a letter that Postgres refuses, and the rest of it stays",
  fc.jsonValue({ stringUnit: "binary" }),
  (value) => {
    // Lone surrogates come only from units of their own.
    const input = JSON.parse(JSON.stringify(value));
    const event = storableEvent({ type: "data", name: "x", data: [input, BAD] });
    const text = JSON.stringify(event);
    assert.doesNotMatch(text.replaceAll("\\\\", ""), /\\u0000|\\ud[89a-f]/);
    const plain = storableEvent({ type: "data", name: "x", data: input });
    if (!JSON.stringify(input).includes("\\u0000")) {
      assert.deepEqual(plain, { type: "data", name: "x", data: input });
    }
  },
);
