import type { Clock } from "../../src/core/clock.ts";
import { ConcurrencyGate, type GateOptions } from "../../src/core/concurrency_gate.ts";
import { Deadlines } from "../../src/core/deadlines.ts";
import { Admission } from "../../src/policy/admission.ts";

/** What a gate counts, and why it refused, in order. */
export function createTally() {
  const refusals: string[] = [];
  return {
    inside: 0,
    waiting: 0,
    left: 0,
    refusals,
    refused: (why: string) => void refusals.push(why),
  };
}

/** A gate with a queue of two for each place and five seconds of patience, unless told. */
export function createTestGate(clock: Clock, options: Partial<GateOptions> & { max: number }) {
  return new ConcurrencyGate({
    subject: "The gate",
    code: "overloaded",
    maxQueued: options.max * 2,
    queueTimeoutMs: 5000,
    clock,
    deadlines: new Deadlines(clock),
    tally: createTally(),
    ...options,
  });
}

/** Room for any number of requests. */
export const OPEN_ADMISSION = new Admission({ keys: null, hub: null });
