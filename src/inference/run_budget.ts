import { HubError } from "../core/error.ts";
import type { AgentRun } from "./agent_run.ts";
import type { RunLedger } from "./run_ledger.ts";
import type { BudgetReason } from "./step_reason.ts";

/** What a call answers that was not made any more. */
export const BUDGET_SPENT = "(tool failed: the budget of the run is used up)";
/** Stops the work of a run whose time is over. */
export const TIME_IS_OVER = new HubError("aborted", "The time of the run is over");
/** Behind this share of its time or output a run concludes. */
const CONCLUDING_SHARE = 0.9;

/** Whether a step may be taken: it may, it is the last one, or there is none any more. */
export interface BudgetVerdict {
  may: "go-on" | "conclude" | "end";
  reason: BudgetReason;
}

/** What a run has left of its budget. All is counted from its log and its rows, whoever has written them. */
export class BudgetWatch {
  readonly #run: AgentRun;
  readonly #ledger: RunLedger;
  readonly #beganMs: number;

  constructor(run: AgentRun, ledger: RunLedger) {
    this.#run = run;
    this.#ledger = ledger;
    this.#beganMs = run.clock.monotonic() - (run.ageMs ?? 0);
  }

  get #ageMs(): number {
    return this.#run.clock.monotonic() - this.#beganMs;
  }

  /** What may become of a step with this number; asked before it is begun. */
  verdict(step: number): BudgetVerdict {
    const verdicts = [...this.#verdicts(step)];
    return verdicts.find(({ may }) => may === "end") ??
      verdicts.find(({ may }) => may === "conclude") ??
      { may: "go-on", reason: "max-steps" };
  }

  *#verdicts(step: number): Generator<BudgetVerdict, void, void> {
    const { budget } = this.#run;
    if (budget === undefined) return;
    const { steps, wallTimeMs, tokens, costMicros, outputBytes } = budget;
    const counted = (reason: BudgetReason, facts: { used: number; next: number; most: number }) => {
      const { used, next, most } = facts;
      const isOver = used >= most || used + next > most;
      const isLast = used + 2 * next > most;
      return { may: isOver ? "end" : isLast ? "conclude" : "go-on", reason } as const;
    };
    const running = (reason: BudgetReason, { used, most }: { used: number; most: number }) => {
      const isLast = used >= most * CONCLUDING_SHARE;
      return { may: used >= most ? "end" : isLast ? "conclude" : "go-on", reason } as const;
    };
    if (steps !== undefined) yield counted("max-steps", { used: step, next: 1, most: steps });
    if (wallTimeMs !== undefined) {
      yield running("max-time", { used: this.#ageMs, most: wallTimeMs });
    }
    if (outputBytes !== undefined) {
      yield running("max-output", { used: this.#ledger.outputBytes, most: outputBytes });
    }
    const facts = this.#ledger.fold.facts();
    const used = facts.usage.totalTokens;
    // A conversation grows: the next call is taken for one like the last.
    const next = facts.steps.at(-1)?.usage?.totalTokens ?? 0;
    if (tokens !== undefined) yield counted("max-tokens", { used, next, most: tokens });
    if (costMicros !== undefined) {
      const spent = this.#ledger.costMicros;
      if (spent === null) yield { may: "end", reason: "max-cost" };
      else {
        const share = used === 0 ? 0 : next / used;
        yield counted("max-cost", { used: spent, next: spent * share, most: costMicros });
      }
    }
  }
}

/** The run with a signal that its time ends too; `release` forgets the time. */
export function withDeadline(run: AgentRun): { run: AgentRun; release(): void } {
  const { budget, ageMs = 0, clock, signal } = run;
  const { wallTimeMs } = budget ?? {};
  if (wallTimeMs === undefined) return { run, release() {} };
  const controller = new AbortController();
  const stop = () => controller.abort(signal.reason);
  if (signal.aborted) stop();
  else signal.addEventListener("abort", stop, { once: true });
  const timer = clock.setTimer(
    () => controller.abort(TIME_IS_OVER),
    Math.max(0, wallTimeMs - ageMs),
  );
  return {
    run: { ...run, signal: controller.signal },
    release() {
      clock.clearTimer(timer);
      signal.removeEventListener("abort", stop);
    },
  };
}
