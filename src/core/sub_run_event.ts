import { isJsonObject, type Json, type JsonObject } from "./json.ts";
import { addUsage, NO_USAGE, type Usage } from "./usage.ts";

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
  const said = isJsonObject(usage) ? usage : {};
  const fields = Object.keys(NO_USAGE).map((field) => [field, Number(said[field] ?? 0)]);
  return {
    runId: String(data["runId"]),
    sessionId: String(data["sessionId"]),
    agent: String(data["agent"]),
    usage: Object.fromEntries(fields) as Usage,
    costMicros: typeof costMicros === "number" ? costMicros : null,
    steps: Number(data["steps"]),
  };
}

/** The usage of a run with what an event of its log adds: the end of a step, or another run that it asked for. */
export function usageAfter(
  usage: Usage,
  event: { type: string; name?: string; data?: Json; usage?: Usage },
): Usage {
  const added = event.type === "step-finish" ? event.usage : readSubRun(event)?.usage;
  return added === undefined ? usage : addUsage(usage, added);
}
