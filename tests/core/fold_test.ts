import assert from "node:assert/strict";
import fc from "fast-check";
import type { HubEvent } from "../../src/core/event.ts";
import { createFold, type Fold } from "../../src/core/fold.ts";
import type { UIPart } from "../../src/core/ui_message.ts";
import { NO_USAGE, type Usage } from "../../src/core/usage.ts";
import { validLog, validPrefix } from "../support/logs.ts";
import { property } from "../support/property.ts";

const start: HubEvent = {
  type: "start",
  messageId: "msg_1",
  runId: "run_1",
  sessionId: "ses_1",
  model: "demo/tools",
};
const usage: Usage = { ...NO_USAGE, promptTokens: 7, completionTokens: 3, totalTokens: 10 };
const metadata = { model: "tools-1", provider: "demo" };

function foldOf(events: readonly HubEvent[]): Fold {
  const fold = createFold();
  for (const event of events) fold.apply(event);
  return fold;
}

Deno.test("a turn with two tools becomes one message with its facts", () => {
  const origin = { provider: "demo", model: "tools-1", field: "reasoning" };
  const fold = foldOf([
    start,
    { type: "step-start", step: 0 },
    { type: "reasoning-start", id: "r0" },
    { type: "reasoning-delta", id: "r0", delta: "Look " },
    { type: "reasoning-delta", id: "r0", delta: "twice" },
    { type: "reasoning-end", id: "r0", origin },
    { type: "tool-input-start", toolCallId: "call_a", toolName: "files.read" },
    { type: "tool-input-delta", toolCallId: "call_a", inputTextDelta: '{"path":' },
    { type: "tool-input-start", toolCallId: "call_b", toolName: "files.read" },
    { type: "tool-input-available", toolCallId: "call_b", toolName: "files.read", input: {} },
    {
      type: "tool-input-error",
      toolCallId: "call_a",
      toolName: "files.read",
      input: '{"path":',
      errorText: "cut",
    },
    { type: "step-finish", step: 0, finishReason: "tool-calls", usage },
    { type: "tool-output-available", toolCallId: "call_b", output: "half", preliminary: true },
    { type: "data", name: "progress", data: 1, transient: true },
    { type: "tool-output-available", toolCallId: "call_b", output: "all" },
    { type: "step-start", step: 1 },
    { type: "text-start", id: "t0" },
    { type: "text-delta", id: "t0", delta: "Done" },
    { type: "text-end", id: "t0" },
    { type: "step-finish", step: 1, finishReason: "stop", usage },
    {
      type: "finish",
      finishReason: "stop",
      usage: { ...usage, promptTokens: 14, completionTokens: 6, totalTokens: 20 },
      costMicros: 42,
      metadata,
    },
  ]);
  const toolName = "files.read";
  assert.deepEqual(fold.message(), {
    id: "msg_1",
    role: "assistant",
    parts: [
      { type: "step-start", step: 0 },
      { type: "reasoning", id: "r0", text: "Look twice", state: "done", origin },
      {
        type: "tool",
        toolCallId: "call_a",
        toolName,
        state: "error",
        step: 0,
        inputText: '{"path":',
        errorText: "cut",
      },
      {
        type: "tool",
        toolCallId: "call_b",
        toolName,
        state: "result",
        step: 0,
        input: {},
        output: "all",
      },
      { type: "step-start", step: 1 },
      { type: "text", id: "t0", text: "Done", state: "done" },
    ],
    metadata: {
      ...metadata,
      finishReason: "stop",
      usage: { ...usage, promptTokens: 14, completionTokens: 6, totalTokens: 20 },
      costMicros: 42,
    },
  });
  assert.deepEqual(fold.facts(), {
    runId: "run_1",
    sessionId: "ses_1",
    model: "demo/tools",
    answeredBy: metadata,
    steps: [
      { step: 0, state: "done", finishReason: "tool-calls", usage },
      { step: 1, state: "done", finishReason: "stop", usage },
    ],
    usage: { ...usage, promptTokens: 14, completionTokens: 6, totalTokens: 20 },
    finishReason: "stop",
    costMicros: 42,
    error: null,
    estimated: false,
    abortReason: null,
    approvals: [],
  });
});

Deno.test("open names what a terminal sequence has to close", () => {
  const fold = foldOf([
    start,
    { type: "step-start", step: 0 },
    { type: "text-start", id: "t0" },
    { type: "reasoning-start", id: "r0" },
    { type: "tool-input-start", toolCallId: "call_a", toolName: "a" },
    { type: "tool-input-available", toolCallId: "call_b", toolName: "b", input: 1 },
  ]);
  const open = fold.open();
  assert.deepEqual([open.step, open.text, open.reasoning], [0, ["t0"], ["r0"]]);
  assert.deepEqual(open.streaming.map((part) => part.toolCallId), ["call_a"]);
  assert.deepEqual(open.calls.map((part) => part.toolCallId), ["call_b"]);
  assert.equal(fold.toolPart("call_b")?.state, "call");
  assert.equal(fold.toolPart("call_x"), undefined);
});

Deno.test("errors, stops and approvals are facts", () => {
  const request = {
    approvalId: "apr_1",
    toolCallId: "call_a",
    toolName: "a",
    input: 1,
    risk: "high",
    expiresAt: "2027-01-15T08:00:00Z",
  } as const;
  const fold = foldOf([
    start,
    { type: "step-start", step: 0 },
    { type: "tool-input-available", toolCallId: "call_a", toolName: "a", input: 1 },
    { type: "step-finish", step: 0, finishReason: "tool-calls", usage },
    { type: "tool-approval-request", ...request },
    { type: "tool-approval-response", approvalId: "apr_1", approved: false, reason: "no" },
    { type: "tool-output-denied", toolCallId: "call_a", errorText: "Refused" },
    { type: "error", errorText: "Gone", code: "upstream_cut", retryable: true },
    { type: "abort", reason: "user" },
    { type: "finish", finishReason: "error", usage, costMicros: null, metadata },
  ]);
  assert.deepEqual(fold.facts().approvals, [
    { ...request, response: { approved: false, reason: "no" } },
  ]);
  assert.deepEqual(fold.message().metadata, {
    ...metadata,
    finishReason: "error",
    usage,
    costMicros: null,
    error: { errorText: "Gone", code: "upstream_cut", retryable: true },
    abortReason: "user",
  });
  assert.equal(fold.toolPart("call_a")?.denied, true);
});

Deno.test("a reset voids the step's places, and the next attempt takes them again", () => {
  const fold = foldOf([
    start,
    { type: "step-start", step: 0 },
    { type: "text-start", id: "t0" },
    { type: "text-delta", id: "t0", delta: "first" },
    { type: "tool-input-start", toolCallId: "call_a", toolName: "a" },
  ]);
  assert.deepEqual(fold.takeChangedParts().map(({ index }) => index), [0, 1, 2]);
  fold.apply({ type: "text-start", id: "t1" });
  fold.apply({ type: "step-reset", step: 0 });
  assert.deepEqual(fold.open(), { step: 0, text: [], reasoning: [], streaming: [], calls: [] });
  // The part at 3 was never handed out, so there is no row to void.
  assert.deepEqual(fold.takeChangedParts(), [{ index: 1, part: null }, { index: 2, part: null }]);
  fold.apply({ type: "text-start", id: "t2" });
  const part: UIPart = { type: "text", id: "t2", text: "", state: "streaming" };
  assert.deepEqual(fold.takeChangedParts(), [{ index: 1, part }]);
  assert.deepEqual(fold.message().parts, [{ type: "step-start", step: 0 }, part]);
  assert.deepEqual(fold.takeChangedParts(), []);
});

Deno.test("data with the id of an earlier part takes its place", () => {
  const fold = foldOf([
    start,
    { type: "data", name: "todo", id: "a", data: 1 },
    { type: "data", name: "todo", data: 2 },
    { type: "data", name: "other", id: "a", data: 3 },
    { type: "data", name: "todo", id: "a", data: 4 },
  ]);
  assert.deepEqual(fold.message().parts, [
    { type: "data", name: "todo", id: "a", data: 4 },
    { type: "data", name: "todo", data: 2 },
    { type: "data", name: "other", id: "a", data: 3 },
  ]);
});

Deno.test("what a fold gave back does not change with later events", () => {
  const fold = foldOf([start, { type: "step-start", step: 0 }, { type: "text-start", id: "t0" }]);
  const [message, changed, facts] = [fold.message(), fold.takeChangedParts(), fold.facts()];
  const before = structuredClone({ message, changed, facts });
  fold.apply({ type: "text-delta", id: "t0", delta: "more" });
  fold.apply({ type: "text-end", id: "t0" });
  fold.apply({ type: "step-finish", step: 0, finishReason: "stop", usage });
  assert.deepEqual({ message, changed, facts }, before);
});

property(
  "rows that take every change are the message, whenever they are written",
  fc.tuple(validLog, fc.array(fc.boolean(), { minLength: 1, maxLength: 30 })),
  ([log, writes]) => {
    const fold = createFold();
    const rows = new Map<number, UIPart>();
    const write = () => {
      for (const { index, part } of fold.takeChangedParts()) {
        if (part === null) rows.delete(index);
        else rows.set(index, part);
      }
    };
    log.forEach(({ event }, at) => {
      fold.apply(event);
      if (writes[at % writes.length]) write();
    });
    write();
    const stored = [...rows].sort(([a], [b]) => a - b);
    assert.deepEqual(stored.map(([index]) => index), fold.message().parts.map((_, index) => index));
    assert.deepEqual(stored.map(([, part]) => part), fold.message().parts);
  },
);

property("void attempts leave nothing behind", validPrefix, (log) => {
  const kept: HubEvent[] = [];
  for (const { event } of log) {
    if (event.type === "step-reset") {
      const at = kept.findLastIndex((one) => one.type === "step-start");
      // Data with an id may have changed a part of an earlier step, which a reset does not undo.
      if (kept.slice(at).some((one) => one.type === "data" && one.id !== undefined)) return;
      kept.length = at + 1;
    } else kept.push(event);
  }
  assert.deepEqual(foldOf(log.map(({ event }) => event)).message(), foldOf(kept).message());
});

property("nothing is open in a finished run, except what waits", validLog, (log) => {
  const open = foldOf(log.map(({ event }) => event)).open();
  const last = log.at(-1)?.event;
  if (last?.type === "finish" && last.finishReason === "waiting") open.calls = [];
  assert.deepEqual(open, { step: null, text: [], reasoning: [], streaming: [], calls: [] });
});
