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

/** What ends with an answer: its place at the target, its account and its part of the trail. */
export interface AnswerParts extends Omit<Accounted, "options" | "trace"> {
  options: Accounted["options"] & { gates: TargetGates };
  trace: AttemptTrace[];
  /** The try was one of two. */
  arm?: Arm | undefined;
}

/**
 * The answer of a try that was committed: at its end its place is free, and it is accounted. Its last bytes are given once
 * its cost is settled where that counts in a hard budget: the client's next call is not refused for what this one had
 * reserved.
 */
export function createAnswer(attempt: Attempt, parts: AnswerParts): Answer {
  const { trace, arm, options: { gates } } = parts;
  let ended = false;
  const end = (outcome: string): Promise<void> | void => {
    if (ended) return;
    ended = true;
    arm?.release();
    gates.leave(attempt.target);
    trace.push(traceOf(attempt, outcome));
    return account(attempt, parts);
  };
  const cancelled = ({ code }: HubError) => void end(code);
  attempt.onCancel = cancelled;
  return {
    attempt,
    attempts: trace,
    async read() {
      try {
        const bytes = await attempt.read();
        if (bytes !== null && !ended) attempt.span?.show(bytes);
        if (bytes === null || isComplete(attempt)) {
          const settled = end("ok");
          if (settled !== undefined) await settled;
        }
        return bytes;
      } catch (error) {
        end(toHubError(error).code);
        throw error;
      }
    },
    cancel(reason) {
      attempt.cancel(reason);
      // One that had ended by itself is cancelled no more.
      end(reason.code);
    },
  };
}

/** Everything of the answer was read; the end of its bytes may still come. */
function isComplete({ stream, passes, answerFacts }: Attempt): boolean {
  return stream ? answerFacts.done : !passes;
}
