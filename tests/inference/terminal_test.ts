import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent } from "../../src/core/event.ts";
import { createFold } from "../../src/core/fold.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import { type Ending, terminalEvents } from "../../src/inference/terminal.ts";

const USAGE = { ...NO_USAGE, promptTokens: 3, totalTokens: 3 };
const METADATA = { model: "m", provider: "p" };
const START: HubEvent = {
  type: "start",
  messageId: "msg_1",
  runId: "run_1",
  sessionId: "ses_1",
  model: "m",
};

function endOf(events: HubEvent[], ending: Ending): HubEvent[] {
  const fold = createFold();
  for (const event of events) fold.apply(event);
  const rest = terminalEvents(fold, ending, {
    stepUsage: USAGE,
    costMicros: 5,
    metadata: METADATA,
  });
  const log = [...events, ...rest].map((event, index) => ({ seq: index + 1, event }));
  assert.deepEqual(checkLog(log), []);
  return rest;
}

Deno.test("everything that is open is closed in the order of the design", () => {
  const opened: HubEvent[] = [
    START,
    { type: "step-start", step: 0 },
    { type: "text-start", id: "p0" },
    { type: "reasoning-start", id: "p1" },
    { type: "tool-input-start", toolCallId: "call_1", toolName: "t" },
    { type: "tool-input-delta", toolCallId: "call_1", inputTextDelta: "{" },
    { type: "tool-input-available", toolCallId: "call_2", toolName: "t", input: {} },
  ];
  assert.deepEqual(endOf(opened, { kind: "abort", reason: "Enough" }), [
    { type: "reasoning-end", id: "p1" },
    { type: "text-end", id: "p0" },
    {
      type: "tool-input-error",
      toolCallId: "call_1",
      toolName: "t",
      input: "{",
      errorText: "aborted",
    },
    { type: "tool-output-error", toolCallId: "call_2", errorText: "aborted" },
    { type: "step-finish", step: 0, finishReason: "aborted", usage: USAGE },
    { type: "abort", reason: "Enough" },
    { type: "finish", finishReason: "aborted", usage: USAGE, costMicros: 5, metadata: METADATA },
  ]);
});

Deno.test("between steps only calls without an output are closed, and usage is that of the steps", () => {
  const error = { errorText: "Lost", code: "internal_error", retryable: true };
  const between: HubEvent[] = [
    START,
    { type: "step-start", step: 0 },
    { type: "tool-input-available", toolCallId: "call_1", toolName: "t", input: {} },
    { type: "tool-input-available", toolCallId: "call_2", toolName: "t", input: {} },
    { type: "step-finish", step: 0, finishReason: "tool-calls", usage: USAGE },
    { type: "tool-output-available", toolCallId: "call_2", output: "done" },
  ];
  const finish = { type: "finish", usage: USAGE, costMicros: 5, metadata: METADATA };
  assert.deepEqual(endOf(between, { kind: "error", ...error }), [
    { type: "tool-output-error", toolCallId: "call_1", errorText: "interrupted" },
    { type: "error", ...error },
    { ...finish, finishReason: "error" },
  ]);
  assert.deepEqual(endOf(between, { kind: "finish", finishReason: "waiting" }), [
    { ...finish, finishReason: "waiting" },
  ]);
});
