import assert from "node:assert/strict";
import fc from "fast-check";
import type { AssistantContent, ModelMessage, ModelToolResult } from "../../src/core/model.ts";
import { MISSING_RESULT, repairHistory } from "../../src/inference/repair_history.ts";
import { property } from "../support/property.ts";
import { checkRequest } from "./loop_rig.ts";

const call = (toolCallId: string, inputText = "{}"): AssistantContent => ({
  type: "tool-call",
  toolCallId,
  toolName: "t",
  inputText,
});
const result = (toolCallId: string, words = `result of ${toolCallId}`): ModelToolResult => ({
  toolCallId,
  toolName: "t",
  text: words,
  images: [],
  isError: false,
});
const user = (words: string): ModelMessage => ({
  role: "user",
  content: [{ type: "text", text: words }],
});

Deno.test("results move behind their calls in call order, missing ones are named, orphans go", () => {
  const repaired = repairHistory([
    { role: "tool", results: [result("orphan"), result("b")] },
    user("Go"),
    { role: "assistant", content: [call("a"), call("b"), call("c")] },
    user("Well?"),
    { role: "tool", results: [result("c"), result("a"), result("a", "again")] },
  ]);
  assert.deepEqual(repaired, [
    user("Go"),
    { role: "assistant", content: [call("a"), call("b"), call("c")] },
    { role: "tool", results: [result("a"), result("b"), result("c")] },
    user("Well?"),
  ]);
  const missing = repairHistory([{ role: "assistant", content: [call("a")] }]).at(-1);
  assert.deepEqual(missing, {
    role: "tool",
    results: [{ ...result("a", MISSING_RESULT), isError: true }],
  });
});

Deno.test("empty text and reasoning without consequence are left out", () => {
  const origin = { provider: "p", model: "m", field: "f" };
  const thought: AssistantContent = { type: "reasoning", text: "hm", origin };
  assert.deepEqual(
    repairHistory([
      { role: "assistant", content: [{ type: "text", text: " \n" }] },
      { role: "assistant", content: [thought] },
      { role: "assistant", content: [thought, { type: "text", text: "" }, call("a")] },
      { role: "tool", results: [result("a")] },
    ]),
    [
      { role: "assistant", content: [thought, call("a")] },
      { role: "tool", results: [result("a")] },
    ],
  );
});

Deno.test("lone surrogates are replaced everywhere, behind escapes too", () => {
  const repaired = repairHistory([
    { role: "system", text: "\ud83d" },
    user("a\udc00"),
    {
      role: "assistant",
      content: [
        { type: "text", text: "\ud800b" },
        call("a", '{"k\\ud800":"\\uD83D \\ud83d\\ude00"}'),
      ],
    },
    { role: "tool", results: [result("a", "\ud800")] },
  ]);
  assert.deepEqual(repaired, [
    { role: "system", text: "\ufffd" },
    user("a\ufffd"),
    {
      role: "assistant",
      content: [{ type: "text", text: "\ufffdb" }, call("a", '{"k\ufffd":"\ufffd 😀"}')],
    },
    { role: "tool", results: [result("a", "\ufffd")] },
  ]);
});

const id = fc.constantFrom("a", "b", "c", "d");
const words = fc.constantFrom("", " ", "x", "\ud800");
const message: fc.Arbitrary<ModelMessage> = fc.oneof(
  fc.record({
    role: fc.constant("assistant" as const),
    content: fc.array(
      fc.oneof(
        fc.tuple(id, fc.constantFrom("{}", '{"a":"\\ud800"}')).map(([one, args]) =>
          call(one, args)
        ),
        words.map((text): AssistantContent => ({ type: "text", text })),
      ),
      { maxLength: 4 },
    ),
  }),
  fc.record({
    role: fc.constant("tool" as const),
    results: fc.array(fc.tuple(id, words).map(([one, text]) => result(one, text)), {
      maxLength: 4,
    }),
  }),
  words.map(user),
);

property(
  "any history becomes one that providers accept, and repairing it again changes nothing",
  fc.array(message, { maxLength: 10 }),
  (messages) => {
    const once = repairHistory(messages);
    checkRequest({ messages: once, tools: [] });
    assert.deepEqual(repairHistory(once), once);
    const results = once.flatMap((one) => one.role === "tool" ? one.results : []);
    const calls = once.flatMap((one) =>
      one.role === "assistant" ? one.content.filter(({ type }) => type === "tool-call") : []
    );
    assert.equal(results.length, calls.length);
  },
  { runs: 500 },
);
