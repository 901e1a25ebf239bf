import { type HubError, toHubError } from "../core/error.ts";
import { account, type Accounted } from "./account.ts";
import type { Attempt } from "./attempt.ts";
import { traceOf } from "./attempt_trail.ts";
import type { Arm } from "./hedge.ts";
import type { TargetGates } from "./target_gates.ts";
import type { AttemptTrace } from "./usage_fact.ts";

/** An answer that has begun, and cannot be exchanged any more. */
export interface Answer {
  readonly attempt: Attempt;
  readonly attempts: readonly AttemptTrace[];
  /** See `Attempt.read`; the end, whichever it is, is accounted. */
  read(): Promise<Uint8Array | null>;
  /** The reader has gone: stops the upstream and accounts what was streamed. */
  cancel(reason: HubError): void;
}

/** What an answer is made in. */
export interface Surroundings extends Omit<Accounted, "options" | "trace"> {
  options: Accounted["options"] & { gates: TargetGates };
  trace: AttemptTrace[];
  /** The try was one of two. */
  arm?: Arm | undefined;
}

/** The answer of a try that was committed: at its end its place is free, and it is accounted. */
export function createAnswer(attempt: Attempt, surroundings: Surroundings): Answer {
  const { trace, arm, options: { gates } } = surroundings;
  let ended = false;
  const end = (outcome: string) => {
    if (ended) return;
    ended = true;
    arm?.release();
    gates.leave(attempt.target);
    trace.push(traceOf(attempt, outcome));
    account(attempt, surroundings);
  };
  return {
    attempt,
    attempts: trace,
    async read() {
      try {
        const bytes = await attempt.read();
        if (bytes === null) end("ok");
        else attempt.span?.show(bytes);
        return bytes;
      } catch (error) {
        end(toHubError(error).code);
        throw error;
      }
    },
    cancel(reason) {
      attempt.cancel(reason);
      end(reason.code);
    },
  };
}
