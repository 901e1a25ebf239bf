import assert from "node:assert/strict";
import fc from "fast-check";
import { isJsonObject, type JsonObject } from "../../src/core/json.ts";
import type { ModelEvent } from "../../src/core/model.ts";
import { MessageWriter } from "../../src/wire/messages/message_writer.ts";
import { newResponse } from "../../src/wire/openai_responses/response_object.ts";
import { ResponseWriter } from "../../src/wire/openai_responses/response_writer.ts";
import { property } from "../support/property.ts";

const start = (index: number): ModelEvent => ({
  type: "tool-call-start",
  index,
  providerCallId: `c${index}`,
  toolName: `t${index}`,
});
const argue = (index: number, delta: string): ModelEvent => ({
  type: "tool-call-delta",
  index,
  delta,
});
const say = (delta: string): ModelEvent => ({ type: "text-delta", delta });
const think = (delta: string): ModelEvent => ({
  type: "reasoning-delta",
  delta,
  field: "reasoning_content",
});
const FINISH: ModelEvent = { type: "finish", finishReason: "tool-calls" };

const responseWriter = () =>
  new ResponseWriter({
    response: newResponse({}, { id: "resp_1", createdAt: 1, model: "m", tools: [] }),
    tools: new Map(),
    showEncrypted: true,
    provider: "up",
    model: "m",
    now: () => 2,
  });
const messageWriter = () =>
  new MessageWriter({
    id: "msg_1",
    model: "m",
    thinks: true,
    from: { provider: "up", model: "m" },
  });

/** Throws unless each item is done before the next one is added, and gives what the client has put together. */
function readItems(events: readonly JsonObject[]): JsonObject[] {
  const items: JsonObject[] = [];
  let open: unknown = null;
  let text = "";
  for (const event of events) {
    const { type, output_index: index, item, delta } = event;
    if (type === "response.output_item.added") {
      assert.equal(open, null, "an item is added while another one is open");
      assert.equal(index, items.length);
      open = index;
      text = "";
    } else if (type === "response.output_item.done") {
      assert.equal(index, open);
      assert.ok(isJsonObject(item));
      if (item["type"] === "function_call") assert.equal(text, item["arguments"]);
      items.push(item);
      open = null;
    } else if (index !== undefined) {
      assert.equal(index, open, String(type));
      if (String(type).endsWith(".delta")) text += String(delta);
    }
  }
  assert.equal(open, null);
  return items;
}

/** The same for content blocks. */
function readBlocks(events: readonly JsonObject[]): JsonObject[] {
  const blocks: JsonObject[] = [];
  let open: JsonObject | null = null;
  let json = "";
  for (const { type, index, content_block: block, delta } of events) {
    if (type === "content_block_start") {
      assert.equal(open, null, "a block begins while another one is open");
      assert.equal(index, blocks.length);
      assert.ok(isJsonObject(block));
      open = block;
      json = "";
    } else if (type === "content_block_delta") {
      assert.ok(open !== null && index === blocks.length && isJsonObject(delta));
      json += String(delta["partial_json"] ?? "");
    } else if (type === "content_block_stop") {
      assert.ok(open !== null && index === blocks.length);
      blocks.push(Object.assign({ json }, open));
      open = null;
    }
  }
  assert.equal(open, null);
  return blocks;
}

Deno.test("ResponseWriter: a call is done before the next one is added, not at the end", () => {
  const writer = responseWriter();
  const seen = (events: ModelEvent[]) => writer.push(events).map(({ type }) => type);
  seen([start(0)]);
  seen([argue(0, '{"a":1}')]);
  assert.deepEqual(seen([start(1)]), [
    "response.function_call_arguments.done",
    "response.output_item.done",
    "response.output_item.added",
  ]);
  assert.deepEqual(seen([argue(1, "{}")]), ["response.function_call_arguments.delta"]);
  assert.deepEqual(seen([say("Text")]).slice(0, 3), [
    "response.function_call_arguments.done",
    "response.output_item.done",
    "response.output_item.added",
  ]);
  assert.deepEqual(seen([FINISH]), [
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
  ]);
});

Deno.test("ResponseWriter and MessageWriter: a later call goes on as soon as the one before it is whole", () => {
  const mixed = [start(0), start(1), argue(1, '{"b":'), argue(0, '{"a":1}')];
  const next = [argue(1, "2")];
  const response = responseWriter();
  response.push(mixed);
  assert.deepEqual(response.push(next).map(({ type }) => type), [
    "response.function_call_arguments.done",
    "response.output_item.done",
    "response.output_item.added",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.delta",
  ]);
  const message = messageWriter();
  message.push(mixed);
  assert.deepEqual(message.push(next).map(({ type }) => type), [
    "content_block_stop",
    "content_block_start",
    "content_block_delta",
    "content_block_delta",
  ]);
});

const call = fc.record({
  text: fc.constantFrom('{"a":1}', '{"path":"x","n":[1,2,{"b":"}"}]}', "{}", "", "{broken"),
  cuts: fc.array(fc.nat({ max: 40 }), { maxLength: 4 }),
});
const mixed = fc.record({
  calls: fc.array(call, { minLength: 1, maxLength: 5 }),
  order: fc.array(fc.nat({ max: 1000 }), { minLength: 40, maxLength: 40 }),
  others: fc.array(
    fc.record({ at: fc.nat({ max: 30 }), event: fc.constantFrom(say("Hello"), think("Hm")) }),
    { maxLength: 3 },
  ),
});

property(
  "ResponseWriter and MessageWriter: items and blocks never interleave, however an upstream mixes its deltas",
  mixed,
  ({ calls, order, others }) => {
    const left = calls.map(({ text, cuts }, index) => [
      start(index),
      ...piecesOf(text, cuts).map((piece) => argue(index, piece)),
    ]);
    const events: ModelEvent[] = [];
    // Starts come in order, as decoders number calls by them; deltas come in any.
    for (let turn = 0; left.some((queue) => queue.length > 0); turn++) {
      const unbegun = left.findIndex((queue) => queue[0]?.type === "tool-call-start");
      const able = left.filter((queue, index) =>
        queue.length > 0 && (unbegun < 0 || index <= unbegun)
      );
      const event = able[(order[turn % 40] ?? 0) % able.length]?.shift();
      if (event !== undefined) events.push(event);
    }
    for (const { at, event } of others) events.splice(Math.min(at, events.length), 0, event);
    const whole = calls.map(({ text }) => text);

    const response = responseWriter();
    const items = readItems([...events, FINISH].flatMap((event) => response.push([event])));
    const called = items.filter(({ type }) => type === "function_call");
    assert.deepEqual(called.map((item) => item["arguments"]), whole);
    assert.deepEqual(called.map((item) => item["call_id"]), calls.map((_, index) => `c${index}`));

    const message = messageWriter();
    const blocks = readBlocks([...events, FINISH].flatMap((event) => message.push([event])));
    const used = blocks.filter(({ type }) => type === "tool_use");
    assert.deepEqual(used.map(({ json }) => json), whole);
  },
);

function piecesOf(text: string, cuts: readonly number[]): string[] {
  const places = [...new Set(cuts.map((cut) => Math.min(cut, text.length)))].sort((a, b) => a - b);
  const ends = [...places, text.length];
  return ends.map((end, at) => text.slice(ends[at - 1] ?? 0, end)).filter((piece) => piece !== "");
}
