import assert from "node:assert/strict";
import { Value } from "@sinclair/typebox/value";
import fc from "fast-check";
import { FINISH_REASONS, type HubEvent } from "../../src/core/event.ts";
import { createSseParser } from "../../src/core/sse.ts";
import { NO_USAGE, type Usage } from "../../src/core/usage.ts";
import { type AiSdkChunk, type AiSdkLevel, parseStreamLevel } from "../../src/wire/ai_sdk_chunk.ts";
import {
  AI_SDK_HEADERS,
  createAiSdkRenderer,
  toAiSdkFinishReason,
} from "../../src/wire/ai_sdk_stream.ts";
import { ALLOWED_CHUNKS } from "../support/ai_sdk_chunks.ts";
import { validLog } from "../support/logs.ts";
import { property } from "../support/property.ts";

const usage: Usage = { ...NO_USAGE, promptTokens: 7, completionTokens: 3, totalTokens: 10 };
const metadata = { model: "tools-1", provider: "demo" };

function render(events: readonly HubEvent[], level: AiSdkLevel = 5): AiSdkChunk[] {
  const renderer = createAiSdkRenderer({ level });
  return events.flatMap((event) => renderer.toChunks(event));
}

const START: HubEvent = {
  type: "start",
  messageId: "msg_1",
  runId: "run_1",
  sessionId: "ses_1",
  model: "demo/tools",
};
const ASKED: HubEvent[] = [
  START,
  { type: "step-start", step: 0 },
  { type: "tool-input-start", toolCallId: "call_1", toolName: "x" },
  { type: "tool-input-delta", toolCallId: "call_1", inputTextDelta: "{" },
  { type: "tool-input-available", toolCallId: "call_1", toolName: "x", input: {} },
  { type: "step-finish", step: 0, finishReason: "tool-calls", usage },
];

Deno.test("a turn with a tool: every chunk, field by field", () => {
  const chunks = render([
    ...ASKED,
    { type: "tool-output-available", toolCallId: "call_1", output: 1, preliminary: true },
    { type: "tool-output-available", toolCallId: "call_1", output: 2 },
    { type: "step-start", step: 1 },
    { type: "reasoning-start", id: "r0" },
    { type: "reasoning-delta", id: "r0", delta: "Hm" },
    {
      type: "reasoning-end",
      id: "r0",
      origin: { provider: "p", model: "m", field: "f", payload: "secret" },
    },
    { type: "text-start", id: "t0" },
    { type: "text-delta", id: "t0", delta: "Hi" },
    { type: "text-end", id: "t0" },
    { type: "source-url", sourceId: "s0", url: "https://example.org", title: "T" },
    { type: "file", mediaType: "image/png", url: "data:,", filename: "a.png" },
    { type: "data", name: "todo", id: "d0", data: [1] },
    { type: "data", name: "progress", data: null, transient: true },
    { type: "step-finish", step: 1, finishReason: "stop", usage },
    { type: "finish", finishReason: "max-steps", usage, costMicros: 5, metadata },
  ]);
  const dynamic = true;
  const toolCallId = "call_1";
  assert.deepEqual(chunks, [
    {
      type: "start",
      messageId: "msg_1",
      messageMetadata: { runId: "run_1", sessionId: "ses_1", model: "demo/tools" },
    },
    { type: "start-step" },
    { type: "tool-input-start", toolCallId, toolName: "x", dynamic },
    { type: "tool-input-delta", toolCallId, inputTextDelta: "{" },
    { type: "tool-input-available", toolCallId, toolName: "x", input: {}, dynamic },
    { type: "tool-output-available", toolCallId, output: 1, dynamic, preliminary: true },
    { type: "tool-output-available", toolCallId, output: 2, dynamic },
    { type: "finish-step" },
    { type: "start-step" },
    { type: "reasoning-start", id: "r0" },
    { type: "reasoning-delta", id: "r0", delta: "Hm" },
    { type: "reasoning-end", id: "r0" },
    { type: "text-start", id: "t0" },
    { type: "text-delta", id: "t0", delta: "Hi" },
    { type: "text-end", id: "t0" },
    { type: "source-url", sourceId: "s0", url: "https://example.org", title: "T" },
    { type: "file", url: "data:,", mediaType: "image/png" },
    { type: "data-todo", id: "d0", data: [1] },
    { type: "data-progress", data: null, transient: true },
    { type: "finish-step" },
    { type: "message-metadata", messageMetadata: { usage } },
    {
      type: "finish",
      finishReason: "other",
      messageMetadata: { ...metadata, finishReason: "max-steps", usage, costMicros: 5 },
    },
  ]);
});

const REQUEST: HubEvent = {
  type: "tool-approval-request",
  approvalId: "apr_1",
  toolCallId: "call_1",
  toolName: "x",
  input: {},
  risk: "high",
  expiresAt: "2027-01-15T08:00:00Z",
};
const DENIED: HubEvent = { type: "tool-output-denied", toolCallId: "call_1", errorText: "No" };
const answer = (approved: boolean, reason?: string): HubEvent => ({
  type: "tool-approval-response",
  approvalId: "apr_1",
  approved,
  ...(reason === undefined ? {} : { reason }),
});

Deno.test("approvals are data parts at level 5, and a denial is a failed output", () => {
  const { approvalId: id, type: _, ...asked } = REQUEST;
  for (
    const [response, state] of [
      [answer(true), "approved"],
      [answer(false, "not today"), "denied"],
      [answer(false, "expired"), "expired"],
    ] as const
  ) {
    const chunks: AiSdkChunk[] = render([...ASKED, REQUEST, response, DENIED]).slice(5);
    const reason = response.type === "tool-approval-response" && response.reason !== undefined
      ? { reason: response.reason }
      : {};
    assert.deepEqual(chunks, [
      { type: "data-approval", id, data: { state: "requested", ...asked } },
      { type: "data-approval", id, data: { ...asked, state, ...reason } },
      { type: "tool-output-error", toolCallId: "call_1", errorText: "No", dynamic: true },
      { type: "finish-step" },
    ]);
  }
});

Deno.test("approvals are chunks of their own from level 6, beside what else is known of them", () => {
  const { approvalId: id, type: _, ...asked } = REQUEST;
  for (const level of [6, 7] as const) {
    assert.deepEqual(render([...ASKED, REQUEST, answer(false), DENIED], level).slice(5), [
      { type: "data-approval", id, data: { state: "requested", ...asked } },
      { type: "tool-approval-request", approvalId: "apr_1", toolCallId: "call_1" },
      { type: "data-approval", id, data: { ...asked, state: "denied" } },
      { type: "tool-output-denied", toolCallId: "call_1" },
      { type: "finish-step" },
    ]);
  }
});

const BROKEN: HubEvent[] = [
  START,
  { type: "step-start", step: 0 },
  { type: "text-start", id: "t0" },
  { type: "text-delta", id: "t0", delta: "Hal" },
  { type: "reasoning-start", id: "r0" },
  { type: "tool-input-start", toolCallId: "call_1", toolName: "x" },
  { type: "tool-input-delta", toolCallId: "call_1", inputTextDelta: '{"a' },
  { type: "tool-input-available", toolCallId: "call_2", toolName: "y", input: {} },
  { type: "step-reset", step: 0 },
];

Deno.test("a reset closes what is open and says that it is void", () => {
  const errorText = "The model's answer broke off here and was made again";
  assert.deepEqual(render(BROKEN).slice(8), [
    { type: "text-end", id: "t0" },
    { type: "reasoning-end", id: "r0" },
    {
      type: "tool-input-error",
      toolCallId: "call_1",
      toolName: "x",
      input: '{"a',
      errorText,
      dynamic: true,
    },
    { type: "tool-output-error", toolCallId: "call_2", errorText, dynamic: true },
    { type: "data-step-reset", data: { step: 0 } },
  ]);
  assert.deepEqual(render(BROKEN, 7).slice(8), [{ type: "reset-step" }]);
});

Deno.test("usage goes before an error or an abort, and finish is sent all the same", () => {
  for (
    const [ending, finishReason] of [
      [{ type: "error", errorText: "Gone", code: "upstream_cut", retryable: true }, "error"],
      [{ type: "abort", reason: "user" }, "aborted"],
    ] as const
  ) {
    const chunks = render([
      ...ASKED,
      ending,
      { type: "finish", finishReason, usage, costMicros: null, metadata },
    ]).slice(5);
    assert.deepEqual(chunks, [
      { type: "finish-step" },
      { type: "message-metadata", messageMetadata: { usage } },
      ending.type === "error" ? { type: "error", errorText: "Gone" } : { type: "abort" },
      {
        type: "finish",
        finishReason: finishReason === "error" ? "error" : "other",
        messageMetadata: { ...metadata, finishReason, usage, costMicros: null },
      },
    ]);
  }
});

Deno.test("keys at which the client's JSON parser throws are left out", () => {
  const output = JSON.parse(
    '{"__proto__":1,"constructor":{"prototype":1},"a":[{"constructor":null},{"constructor":"x"}]}',
  );
  const renderer = createAiSdkRenderer();
  const bytes = renderer.render({ type: "tool-output-available", toolCallId: "c", output });
  assert.equal(
    new TextDecoder().decode(bytes),
    'data: {"type":"tool-output-available","toolCallId":"c",' +
      '"output":{"a":[{},{"constructor":"x"}]},"dynamic":true}\n\n',
  );
});

Deno.test("levels, reasons and headers", () => {
  assert.deepEqual(
    [null, undefined, "", "5", "6", "7", "8"].map(parseStreamLevel),
    [5, 5, 5, 5, 6, 7, 5],
  );
  const own = ["stop", "length", "content-filter", "tool-calls", "error"];
  for (const reason of FINISH_REASONS) {
    const shown = reason === "waiting" ? "tool-calls" : own.includes(reason) ? reason : "other";
    assert.equal(toAiSdkFinishReason(reason), shown);
  }
  assert.deepEqual(AI_SDK_HEADERS, {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
  });
});

const leveled = fc.tuple(validLog, fc.constantFrom<AiSdkLevel>(5, 6, 7));

property("only allowed chunks, also after a trip through their frames", leveled, ([log, level]) => {
  const renderer = createAiSdkRenderer({ level });
  const chunks = render(log.map(({ event }) => event), level);
  const sent: unknown[] = [];
  const parser = createSseParser({
    onEvent(frame) {
      assert.deepEqual([frame.event, frame.id], ["message", ""]);
      sent.push(JSON.parse(frame.data));
    },
  });
  for (const { event } of log) parser.push(renderer.render(event));
  assert.equal(parser.end(), false);
  for (const chunk of sent) {
    assert.ok(Value.Check(ALLOWED_CHUNKS[level], chunk), JSON.stringify(chunk));
  }
  assert.equal(sent.length, chunks.length);
});

property("steps nest, outputs stay inside them, ends come in order", leveled, ([log, level]) => {
  let isInStep = false;
  const open = new Set<string>();
  const types = render(log.map(({ event }) => event), level).map((chunk) => {
    if (chunk.type === "start-step" || chunk.type === "finish-step") {
      assert.equal(isInStep, chunk.type === "finish-step");
      isInStep = chunk.type === "start-step";
      assert.equal(open.size, 0);
    } else if (/^(text|reasoning|tool)-/.test(chunk.type)) assert.ok(isInStep, chunk.type);
    if (chunk.type === "reset-step") open.clear();
    if (/^(text|reasoning)-/.test(chunk.type) && "id" in chunk && chunk.id !== undefined) {
      if (chunk.type.endsWith("-start")) open.add(chunk.id);
      else assert.ok(open.has(chunk.id));
      if (chunk.type.endsWith("-end")) open.delete(chunk.id);
    }
    return chunk.type;
  });
  assert.equal(types[0], "start");
  assert.equal(types.at(-1), "finish");
  assert.equal(isInStep, false);
  const last = types.slice(types.lastIndexOf("message-metadata"));
  assert.ok(last.length === 2 || (last.length === 3 && /^(error|abort)$/.test(last[1] ?? "")));
});
