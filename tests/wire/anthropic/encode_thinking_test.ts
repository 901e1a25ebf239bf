import assert from "node:assert/strict";
import type { JsonObject } from "../../../src/core/json.ts";
import { encodeMessagesRequest } from "../../../src/wire/anthropic/encode_request.ts";

const DETAIL = { type: "reasoning.text", text: "a", signature: "s", format: "anthropic-claude-v1" };

function encode(model: string, chat: JsonObject = {}) {
  return encodeMessagesRequest(
    { model, messages: [{ role: "user", content: "Hi" }], ...chat },
    {},
  );
}

/** The type of thinking, its budget and the effort. */
function asked(model: string, effort: string | null, chat: JsonObject = {}): string {
  const { body } = encode(model, { ...chat, ...(effort !== null && { reasoning_effort: effort }) });
  const { thinking, output_config: config } = body as Record<string, JsonObject | undefined>;
  return [thinking?.["type"] ?? "-", thinking?.["budget_tokens"], config?.["effort"]]
    .filter((value) => value !== undefined).join(" ");
}

Deno.test("effort is a budget for models that have one", () => {
  for (const model of ["claude-haiku-4-5-20251001", "claude-3-7-sonnet-latest", "glm-5"]) {
    assert.equal(asked(model, null), "-");
    assert.equal(asked(model, "none"), "-");
    assert.equal(asked(model, "minimal"), "enabled 1024");
    assert.equal(asked(model, "high", { max_tokens: 64_000 }), "enabled 16384");
    assert.equal(asked(model, "high", { max_tokens: 5000 }), "enabled 4000");
    assert.equal(asked(model, "high", { max_tokens: 1100 }), "enabled 1024");
    assert.equal(asked(model, "high", { max_tokens: 1024 }), "-");
  }
  assert.equal(asked("claude-opus-4-5", "max", { max_tokens: 64_000 }), "enabled 24576 high");
});

Deno.test("effort is a level for models that think as much as it takes", () => {
  assert.equal(asked("claude-opus-4-6", null), "-");
  assert.equal(asked("claude-opus-4-6", "minimal"), "adaptive low");
  assert.equal(asked("claude-sonnet-4-6", "xhigh"), "adaptive high");
  assert.equal(asked("claude-sonnet-4-6", "max"), "adaptive max");
  assert.equal(asked("claude-opus-4-7", "xhigh"), "adaptive xhigh");
  assert.equal(asked("anthropic.claude-sonnet-5-v1", "medium"), "adaptive medium");
  assert.equal(asked("claude-sonnet-5-5", "medium"), "adaptive medium");
});

Deno.test("models that think unasked are asked for the text; what switches it off differs", () => {
  for (const model of ["claude-opus-5", "claude-haiku-5-5", "claude-fable-5-1", "claude-latest"]) {
    assert.equal(asked(model, null), "adaptive");
    const { thinking } = encode(model).body as Record<string, JsonObject>;
    assert.deepEqual(thinking, { type: "adaptive", display: "summarized" });
  }
  assert.equal(asked("claude-sonnet-4-6", "none"), "disabled");
  assert.equal(asked("claude-haiku-5-5", "none"), "disabled");
  assert.equal(asked("claude-sonnet-5-5", "none"), "between_tools");
  assert.equal(asked("claude-opus-5-5", "none"), "adaptive low");
  assert.equal(asked("claude-mythos-preview", "none"), "adaptive low");
});

Deno.test("a native thinking member wins, and an effort that is none is refused", () => {
  const thinking = { type: "enabled", budget_tokens: 2000 };
  assert.equal(asked("claude-sonnet-4-6", "high", { thinking }), "enabled 2000 high");
  assert.throws(() => asked("m", "much"), /reasoning_effort must be one of none, minimal/);
  assert.throws(() => encode("m", { thinking: true }), /thinking must be an object/);
});

Deno.test("no budget where calls without thinking wait for their results, as the API refuses that", () => {
  const messages = (details: JsonObject[]) => ({
    messages: [
      { role: "user", content: "Hi" },
      {
        role: "assistant",
        content: null,
        reasoning_details: details,
        tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "c", content: "x" },
    ],
  });
  assert.equal(asked("claude-haiku-4-5", "low", messages([])), "-");
  assert.equal(asked("claude-haiku-4-5", "low", messages([DETAIL])), "enabled 4096");
  assert.equal(asked("claude-sonnet-4-6", "low", messages([])), "adaptive low");
});

Deno.test("thinking that has lost its place is to be dropped by models that would refuse it", () => {
  const messages = [
    { role: "user", content: "Hi" },
    { role: "assistant", content: "Yes", reasoning_details: [DETAIL] },
    { role: "user", content: "And?" },
  ];
  const { body, headers } = encode("claude-sonnet-5-5", { messages });
  assert.deepEqual(body["thinking"], {
    type: "adaptive",
    display: "summarized",
    block_binding: { prefix_mismatch_behavior: "drop_block" },
  });
  assert.deepEqual(headers?.slice(1), [["anthropic-beta", "thinking-binding-controls-2026-08-01"]]);
  assert.equal(encode("claude-sonnet-5-5").headers?.length, 1);
  assert.equal(encode("claude-opus-5", { messages }).headers?.length, 1);
});
