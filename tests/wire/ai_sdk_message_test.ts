import assert from "node:assert/strict";
import { toAiSdkMessage } from "../../src/wire/ai_sdk_message.ts";

Deno.test("a stored message in the AI SDK's words", () => {
  const call = { type: "tool", toolName: "x", step: 0 } as const;
  const dynamic = { type: "dynamic-tool", toolName: "x" };
  const message = toAiSdkMessage({
    id: "msg_1",
    role: "assistant",
    metadata: { model: "m" },
    parts: [
      { type: "step-start", step: 0 },
      {
        type: "reasoning",
        id: "r0",
        text: "Hm",
        state: "done",
        origin: { provider: "p", model: "m", field: "f", payload: "secret" },
      },
      { type: "text", id: "t0", text: "Hi", state: "streaming" },
      { ...call, toolCallId: "c0", state: "streaming", inputText: '{"a' },
      { ...call, toolCallId: "c1", state: "call", input: {} },
      { ...call, toolCallId: "c2", state: "call", input: {}, output: 1 },
      { ...call, toolCallId: "c3", state: "result", input: {}, output: null },
      { ...call, toolCallId: "c4", state: "error", input: {}, errorText: "no", denied: true },
      { ...call, toolCallId: "c5", state: "error", inputText: "{", errorText: "cut" },
      { type: "source-url", sourceId: "s0", url: "https://example.org", title: "T" },
      { type: "file", mediaType: "image/png", url: "data:,", filename: "a.png" },
      { type: "data", name: "todo", id: "d0", data: 1 },
      { type: "data", name: "todo", data: 2 },
    ],
  });
  assert.deepEqual(message, {
    id: "msg_1",
    role: "assistant",
    metadata: { model: "m" },
    parts: [
      { type: "step-start" },
      { type: "reasoning", text: "Hm", state: "done" },
      { type: "text", text: "Hi", state: "streaming" },
      { ...dynamic, toolCallId: "c0", state: "input-streaming" },
      { ...dynamic, toolCallId: "c1", state: "input-available", input: {} },
      {
        ...dynamic,
        toolCallId: "c2",
        state: "output-available",
        input: {},
        output: 1,
        preliminary: true,
      },
      { ...dynamic, toolCallId: "c3", state: "output-available", input: {}, output: null },
      { ...dynamic, toolCallId: "c4", state: "output-error", input: {}, errorText: "no" },
      { ...dynamic, toolCallId: "c5", state: "output-error", input: "{", errorText: "cut" },
      { type: "source-url", sourceId: "s0", url: "https://example.org", title: "T" },
      { type: "file", mediaType: "image/png", url: "data:,", filename: "a.png" },
      { type: "data-todo", id: "d0", data: 1 },
      { type: "data-todo", data: 2 },
    ],
  });
});

Deno.test("a user's message has no metadata of its own accord", () => {
  const part = { type: "text", id: "t0", text: "Hi", state: "done" } as const;
  assert.deepEqual(toAiSdkMessage({ id: "msg_1", role: "user", parts: [part] }), {
    id: "msg_1",
    role: "user",
    parts: [{ type: "text", text: "Hi", state: "done" }],
  });
});
