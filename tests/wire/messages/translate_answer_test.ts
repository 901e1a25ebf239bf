import assert from "node:assert/strict";
import fc from "fast-check";
import type { JsonObject } from "../../../src/core/json.ts";
import { translateStream } from "../../../src/wire/messages/translate_answer.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

async function translate(pieces: Uint8Array[], thinks = true): Promise<JsonObject[]> {
  const left = [...pieces];
  const read = translateStream(() => Promise.resolve(left.shift() ?? null), {
    id: "msg_1",
    model: "m",
    thinks,
    from: { provider: "p", model: "m" },
  });
  let text = "";
  for (let bytes = await read(); bytes !== null; bytes = await read()) {
    text += decoder.decode(bytes);
  }
  return [...text.matchAll(/^data: (.*)$/gm)].map((match) => JSON.parse(match[1] ?? ""));
}

const chunk = (delta: JsonObject, finish: string | null = null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\r\n\r\n`;
const call = (index: number, more: JsonObject) => chunk({ tool_calls: [{ index, ...more }] });
const start = (index: number, name: string) =>
  call(index, { id: "same", type: "function", function: { name, arguments: "" } });
const more = (index: number, text: string) => call(index, { function: { arguments: text } });

/** The blocks that the events add up to; each must begin, go on and end before the next. */
function blocksOf(events: readonly JsonObject[]): string[] {
  const blocks: string[] = [];
  let open = -1;
  for (const event of events) {
    if (event["type"] === "content_block_start") {
      assert.equal(open, -1);
      open = Number(event["index"]);
      assert.equal(open, blocks.length);
      const { type, name = "" } = event["content_block"] as JsonObject;
      blocks.push(`${type} ${name} `);
    } else if (event["type"] === "content_block_delta") {
      assert.equal(event["index"], open);
      const { text, thinking, partial_json } = event["delta"] as JsonObject;
      blocks[open] += String(text ?? thinking ?? partial_json ?? "");
    } else if (event["type"] === "content_block_stop") {
      assert.equal(event["index"], open);
      open = -1;
    }
  }
  assert.equal(open, -1);
  return blocks;
}

Deno.test("calls whose arguments are mixed come one after another", async () => {
  const stream = [
    chunk({ role: "assistant", content: "" }),
    start(0, "a"),
    start(1, "b"),
    more(0, '{"x":'),
    more(1, '{"y":2'),
    more(0, "1}"),
    chunk({ content: "late" }),
    more(1, "}"),
    chunk({}, "stop"),
  ].join("");
  const events = await translate([encoder.encode(stream)]);
  assert.deepEqual(blocksOf(events), ['tool_use a {"x":1}', 'tool_use b {"y":2}', "text  late"]);
  const ids = events.flatMap(({ content_block: block }) =>
    (block as JsonObject | undefined)?.["id"] ?? []
  );
  assert.equal(new Set(ids).size, 2);
  assert.equal((events.at(-2)?.["delta"] as JsonObject)["stop_reason"], "tool_use");
});

Deno.test("thinking that nobody asked for stays behind the calls that need it", async () => {
  const frames = (
    last: string[],
  ) => [encoder.encode([chunk({ reasoning_content: "Hm" }), ...last].join(""))];
  const called = await translate(
    frames([start(0, "a"), more(0, "{}"), chunk({}, "tool_calls")]),
    false,
  );
  assert.deepEqual(blocksOf(called), ["tool_use a {}", "redacted_thinking  "]);
  const said = await translate(frames([chunk({ content: "Hi" }, "stop")]), false);
  assert.deepEqual(blocksOf(said), ["text  Hi"]);
});

Deno.test("however the bytes are cut, the answer is the same", async () => {
  const bytes = encoder.encode([
    chunk({ role: "assistant", reasoning_content: "Grüezi 🙂" }),
    ": comment\n\n",
    chunk({ content: "a\ud83d" }),
    chunk({ content: "b" }),
    start(0, "a"),
    more(0, '{"é":"☃"}'),
    chunk({}, "tool_calls"),
    "data: [DONE]\n\n",
  ].join(""));
  const whole = blocksOf(await translate([bytes]));
  await fc.assert(fc.asyncProperty(
    fc.array(fc.integer({ min: 0, max: bytes.length }), { maxLength: 12 }),
    async (cuts) => {
      const at = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
      const pieces = at.slice(1).map((to, index) => bytes.subarray(at[index], to));
      assert.deepEqual(blocksOf(await translate(pieces)), whole);
    },
  ));
});

Deno.test("a stream that does not say why it ended has no end", async () => {
  await assert.rejects(translate([encoder.encode(chunk({ content: "half" }))]), {
    code: "upstream_cut",
  });
});
