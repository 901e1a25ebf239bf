import type { HubEvent } from "./event.ts";
import type { ApprovalFacts, RunFacts, StepFacts } from "./run_facts.ts";
import { isSteering } from "./steering.ts";
import type { ToolPart, UIMessage, UIPart } from "./ui_message.ts";
import { NO_USAGE } from "./usage.ts";

/** Parts between two step boundaries. `step` is null for what stands before the first step. */
interface Segment {
  step: number | null;
  parts: UIPart[];
}

/**
 * Makes a shorter log with the same meaning from a stored message (R2 of the stream's rules): per part a start, one
 * delta and an end; tool input before output; open parts stay open. Folding it gives the message and the facts again.
 * Steps of which the facts know nothing get the run's usage as a whole, on the last one.
 */
export function partsToEvents(message: UIMessage, facts: RunFacts): HubEvent[] {
  const { runId, sessionId, model } = facts;
  const events: HubEvent[] = [
    { type: "start", messageId: message.id, runId, sessionId, model },
  ];
  const segments = splitSteps(message.parts);
  segments.forEach((segment, at) => {
    const isLast = at === segments.length - 1;
    events.push(...segmentToEvents(segment, facts, isLast));
  });
  events.push(...endToEvents(facts));
  return events;
}

function splitSteps(parts: readonly UIPart[]): Segment[] {
  const segments: Segment[] = [{ step: null, parts: [] }];
  for (const part of parts) {
    if (part.type === "step-start") segments.push({ step: part.step, parts: [] });
    else segments.at(-1)?.parts.push(part);
  }
  return segments;
}

function segmentToEvents(segment: Segment, facts: RunFacts, isLast: boolean): HubEvent[] {
  const { step, parts } = segment;
  const events: HubEvent[] = [];
  if (step !== null) events.push({ type: "step-start", step });
  const isSaid = (part: UIPart) => part.type === "data" && isSteering(part);
  for (const part of parts) if (!isSaid(part)) events.push(...partToEvents(part));
  const finished = step === null ? null : stepFinish(step, facts, isLast);
  if (finished !== null) events.push(finished);
  const calls = parts.filter((part) => part.type === "tool");
  for (const approval of facts.approvals) {
    const isOfStep = calls.some((call) => call.toolCallId === approval.toolCallId);
    if (isOfStep) events.push(...approvalToEvents(approval));
  }
  for (const call of calls) events.push(...outputToEvents(call));
  // Between steps, as it was said.
  for (const part of parts) if (isSaid(part)) events.push(...partToEvents(part));
  return events;
}

function stepFinish(step: number, facts: RunFacts, isLast: boolean): HubEvent | null {
  const known: StepFacts | undefined = facts.steps.find((one) => one.step === step);
  const isDone = known?.state === "done" || !isLast || facts.finishReason !== null;
  if (!isDone) return null;
  const isUnknown = facts.steps.every((one) => one.usage === undefined);
  return {
    type: "step-finish",
    step,
    finishReason: known?.finishReason ?? (isLast ? facts.finishReason ?? "stop" : "tool-calls"),
    usage: { ...(known?.usage ?? (isUnknown && isLast ? facts.usage : NO_USAGE)) },
  };
}

function partToEvents(part: UIPart): HubEvent[] {
  switch (part.type) {
    case "step-start":
      return [];
    case "text": {
      const { id, text, state } = part;
      const events: HubEvent[] = [{ type: "text-start", id }];
      if (text !== "") events.push({ type: "text-delta", id, delta: text });
      if (state === "done") events.push({ type: "text-end", id });
      return events;
    }
    case "reasoning": {
      const { id, text, state, origin } = part;
      const events: HubEvent[] = [{ type: "reasoning-start", id }];
      if (text !== "") events.push({ type: "reasoning-delta", id, delta: text });
      if (state === "done") {
        events.push({ type: "reasoning-end", id, ...(origin === undefined ? {} : { origin }) });
      }
      return events;
    }
    case "tool":
      return inputToEvents(part);
    case "source-url":
    case "file":
    case "data":
      return [{ ...part }];
  }
}

function inputToEvents(part: ToolPart): HubEvent[] {
  const { toolCallId, toolName, input, inputText, errorText } = part;
  const events: HubEvent[] = [{ type: "tool-input-start", toolCallId, toolName }];
  if (input !== undefined) {
    events.push({ type: "tool-input-available", toolCallId, toolName, input });
  } else if (part.state === "error") {
    events.push({
      type: "tool-input-error",
      toolCallId,
      toolName,
      input: inputText ?? "",
      errorText: errorText ?? "",
    });
  } else if (inputText !== undefined && inputText !== "") {
    events.push({ type: "tool-input-delta", toolCallId, inputTextDelta: inputText });
  }
  return events;
}

function outputToEvents(part: ToolPart): HubEvent[] {
  const { toolCallId, state, input, output, errorText } = part;
  if (input === undefined) return [];
  if (state === "error") {
    const type = part.denied === true ? "tool-output-denied" : "tool-output-error";
    return [{ type, toolCallId, errorText: errorText ?? "" }];
  }
  if (output === undefined) return [];
  const preliminary = state === "call" ? { preliminary: true } : {};
  return [{ type: "tool-output-available", toolCallId, output, ...preliminary }];
}

function approvalToEvents(approval: ApprovalFacts): HubEvent[] {
  const { response, ...request } = approval;
  const events: HubEvent[] = [{ type: "tool-approval-request", ...request }];
  if (response !== undefined) {
    events.push({ type: "tool-approval-response", approvalId: approval.approvalId, ...response });
  }
  return events;
}

function endToEvents(facts: RunFacts): HubEvent[] {
  const events: HubEvent[] = [];
  if (facts.error !== null) events.push({ type: "error", ...facts.error });
  if (facts.abortReason !== null) events.push({ type: "abort", reason: facts.abortReason });
  if (facts.finishReason !== null) {
    events.push({
      type: "finish",
      finishReason: facts.finishReason,
      usage: { ...facts.usage },
      costMicros: facts.costMicros,
      ...(facts.estimated ? { estimated: true as const } : {}),
      metadata: facts.answeredBy ?? { model: facts.model, provider: "" },
    });
  }
  return events;
}
