import type { HubEvent, SequencedEvent } from "../../../src/core/event.ts";
import { createFold } from "../../../src/core/fold.ts";
import type { Json } from "../../../src/core/json.ts";
import { type AiSdkLevel, encodeAiSdkChunk } from "../../../src/wire/ai_sdk_chunk.ts";
import { toAiSdkMessage } from "../../../src/wire/ai_sdk_message.ts";

type Part = Record<string, Json>;

/** Only these fields of a part are compared; versions add fields of their own. */
const FIELDS = [
  ...["type", "text", "state", "toolCallId", "toolName", "input", "output", "errorText"],
  ...["preliminary", "sourceId", "url", "title", "mediaType", "id", "data"],
];

/** As it looks after a trip through JSON, without the keys that may not travel. */
function clean(value: unknown): Json {
  const text = JSON.stringify(value);
  return text === undefined
    ? null
    : JSON.parse(encodeAiSdkChunk({ type: "data-x", data: JSON.parse(text) })).data;
}

function comparable(parts: readonly unknown[]): Part[] {
  const cleaned = parts.map((part) => clean(part) as Part);
  return cleaned.map((part) => {
    const kept: Part = {};
    for (const field of FIELDS) if (part[field] !== undefined) kept[field] = part[field];
    // Some versions keep the ids of text and reasoning; only those of data mean something to an application.
    if (kept.type === "text" || kept.type === "reasoning") delete kept.id;
    return kept;
  });
}

/** The parts that the hub's fold has for this log, as a client of the level should end up with them. */
export function expectedParts(log: readonly SequencedEvent[], level: AiSdkLevel): Part[] {
  const fold = createFold();
  for (const { event } of log) fold.apply(event);
  const parts = shownParts(toAiSdkMessage(fold.message()).parts);
  if (level < 6) return parts;
  const approvals = fold.facts().approvals;
  return parts.map((part) => {
    const tool = fold.toolPart(String(part.toolCallId ?? ""));
    if (tool?.denied === true) {
      const { errorText: _, ...denied } = part;
      return { ...denied, state: "output-denied" };
    }
    const isAsked = approvals.some((one) =>
      one.toolCallId === tool?.toolCallId && one.response === undefined
    );
    return isAsked && tool?.state === "call" ? { ...part, state: "approval-requested" } : part;
  });
}

/**
 * What a client shows: below level 7 it leaves out what `data-step-reset` made void, back to the step's beginning, as
 * `docs/events.md` asks of applications; approvals are no content.
 */
export function shownParts(parts: readonly unknown[]): Part[] {
  const shown: Part[] = [];
  for (const part of comparable(parts)) {
    if (part.type === "data-step-reset") {
      shown.length = shown.findLastIndex((one) => one.type === "step-start") + 1;
    } else if (part.type !== "data-approval") shown.push(part);
  }
  return shown;
}

/** Below level 7 a data part with an id stays where a void attempt put it, so such logs are not compared. */
export function isComparable(log: readonly SequencedEvent[], level: AiSdkLevel): boolean {
  if (level >= 7) return true;
  const isNamed = (event: HubEvent) => event.type === "data" && event.id !== undefined;
  const isReset = log.some(({ event }) => event.type === "step-reset");
  return !isReset || !log.some(({ event }) => isNamed(event));
}
