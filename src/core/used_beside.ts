import type { Json } from "./json.ts";
import { readSampling } from "./sampling_event.ts";
import { readSubRun } from "./sub_run_event.ts";
import { addUsage, type Usage } from "./usage.ts";

/** What a run has used up beside its own steps. */
export interface UsedBeside {
  usage: Usage;
  /** Null when a part of it is unknown. */
  costMicros: number | null;
  /** Steps of runs below it. */
  steps: number;
}

/** Any event of a log, or a part of a message. */
interface Said {
  type: string;
  name?: string;
  data?: Json;
}

/** What an event says that another run has used, or a model that a server had asked; null for any other. */
export function usedBeside(event: Said): UsedBeside | null {
  const sampled = readSampling(event);
  return sampled === null ? readSubRun(event) : { ...sampled, steps: 0 };
}

/** The usage of a run with what an event of its log adds: the end of a step, or what was used beside. */
export function usageAfter(usage: Usage, event: Said & { usage?: Usage }): Usage {
  const added = event.type === "step-finish" ? event.usage : usedBeside(event)?.usage;
  return added === undefined ? usage : addUsage(usage, added);
}
