import { isJsonObject, type Json, type JsonObject } from "./json.ts";
import { readUsage, type Usage } from "./usage.ts";

/** What a run has used up that a call of another one has begun, its own such runs included. */
export interface SubRun {
  runId: string;
  sessionId: string;
  agent: string;
  usage: Usage;
  /** Null when a part of it is unknown. */
  costMicros: number | null;
  /** Steps that were taken. */
  steps: number;
}

/** Group of the tools by which agents ask agents. */
export const SUB_AGENTS = "agents";

const SUB_RUN = "sub-run";

/** The event that adds it to the run that made the call. */
export function subRunEvent(toolCallId: string, { usage, ...facts }: SubRun) {
  const data: JsonObject = { toolCallId, ...facts, usage: { ...usage } };
  return { type: "data" as const, name: SUB_RUN, id: toolCallId, data };
}

/** True for the `data` of such an event. */
export function isSubRun({ name }: { name?: string }): boolean {
  return name === SUB_RUN;
}

/** What such an event or part says; null for any other. */
export function readSubRun(
  event: { type: string; name?: string; data?: Json },
): SubRun | null {
  const { data } = event;
  if (event.type !== "data" || !isSubRun(event) || !isJsonObject(data)) return null;
  const { usage, costMicros } = data;
  return {
    runId: String(data["runId"]),
    sessionId: String(data["sessionId"]),
    agent: String(data["agent"]),
    usage: readUsage(usage),
    costMicros: typeof costMicros === "number" ? costMicros : null,
    steps: Number(data["steps"]),
  };
}
