import type { Json } from "./json.ts";
import { readLostCalls } from "./model_use.ts";
import { readSampling } from "./sampling_event.ts";
import { readSubRun } from "./sub_run_event.ts";
import { addUsage, type Usage } from "./usage.ts";

/** What a run has used up beside its own steps. */
export interface UsedBeside {
  usage: Usage;
  /** Null when a part of it is unknown. */
  costMicros: number | null;
  /** A part of it is an estimate. */
  estimated?: boolean;
  /** Steps of runs below it. */
  steps: number;
}

/** Any event of a log, or a part of a message. */
interface Said {
  type: string;
  name?: string;
  data?: Json;
}

/** What an event says that was used beside the steps: by another run, a server, or calls that were lost; null for any other. */
export function usedBeside(event: Said): UsedBeside | null {
  const called = readSampling(event) ?? readLostCalls(event);
  return called === null ? readSubRun(event) : { ...called, steps: 0 };
}

/** The usage of a run with what an event of its log adds: the end of a step, or what was used beside. */
export function usageAfter(usage: Usage, event: Said & { usage?: Usage }): Usage {
  const added = event.type === "step-finish" ? event.usage : usedBeside(event)?.usage;
  return added === undefined ? usage : addUsage(usage, added);
}
