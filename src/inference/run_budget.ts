import { addCosts } from "../core/cost.ts";
import { HubError } from "../core/error.ts";
import type { HubEvent } from "../core/event.ts";
import type { BudgetRoom, RunBudget } from "../core/run_budget.ts";
import { type UsedBeside, usedBeside } from "../core/used_beside.ts";
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
export class BudgetWatch implements BudgetRoom {
  readonly #run: AgentRun;
  readonly #ledger: RunLedger;
  readonly #beganMs: number;
  readonly #late: HubEvent[] = [];

  constructor(run: AgentRun, ledger: RunLedger) {
    this.#run = run;
    this.#ledger = ledger;
    this.#beganMs = run.clock.monotonic() - (run.ageMs ?? 0);
  }

  get #ageMs(): number {
    return this.#run.clock.monotonic() - this.#beganMs;
  }

  /** Until its time is over, in milliseconds. */
  get timeLeftMs(): number {
    return Math.max(0, (this.#run.budget?.wallTimeMs ?? Infinity) - this.#ageMs);
  }

  /** Counts what was used for a call that is over, and keeps it for the log. */
  bookLate(event: HubEvent): void {
    this.#late.push(event);
  }

  /** What came late, each once: from now on the ledger counts it. */
  takeLate(): HubEvent[] {
    return this.#late.splice(0);
  }

  /** As in `BudgetRoom`; `news` are events that the ledger has not seen. */
  fits(tokens: number, news: readonly HubEvent[] = []): boolean {
    const { tokens: mostTokens, costMicros: mostMicros } = this.#run.budget ?? {};
    const { used, spent, price } = this.#spending(news);
    if (mostTokens !== undefined && used + tokens > mostTokens) return false;
    if (mostMicros === undefined) return true;
    return spent !== null && spent < mostMicros && spent + tokens * price <= mostMicros;
  }

  /**
   * What another run may use up that this one asks, so that its own model can still conclude; null without bounds. `news`
   * are events that the ledger has not seen. Time is no part of it: when that is over both are stopped.
   */
  left(news: readonly HubEvent[]): RunBudget | null {
    const { steps, tokens, costMicros, outputBytes } = this.#run.budget ?? {};
    const facts = this.#ledger.fold.facts();
    const { used, subSteps, spent, price } = this.#spending(news);
    const next = this.#nextTokens;
    const left: RunBudget = {};
    if (steps !== undefined) {
      left.steps = steps - facts.steps.length - subSteps - 1;
    }
    if (tokens !== undefined) {
      left.tokens = tokens - used - next;
    }
    if (costMicros !== undefined) {
      left.costMicros = spent === null ? 0 : Math.floor(costMicros - spent - next * price);
    }
    if (outputBytes !== undefined) {
      left.outputBytes = Math.floor(outputBytes * CONCLUDING_SHARE) - this.#ledger.outputBytes;
    }
    return Object.keys(left).length === 0 ? null : left;
  }

  /** A conversation grows: the next call is taken for one like the last that was finished, also where a step is begun again. */
  get #nextTokens(): number {
    const { steps } = this.#ledger.fold.facts();
    return steps.findLast(({ state }) => state === "done")?.usage?.totalTokens ?? 0;
  }

  /** Tokens, steps of runs below and cost so far, with what events say that the ledger has not seen; and what a token has cost. */
  #spending(news: readonly HubEvent[] = []) {
    const counted = this.#ledger.fold.facts().usage.totalTokens;
    const { costMicros, subSteps } = this.#ledger;
    const pending = [...this.#late, ...news].flatMap((event) => usedBeside(event) ?? []);
    const sum = (of: (used: UsedBeside) => number) =>
      pending.reduce((all, used) => all + of(used), 0);
    return {
      used: counted + sum(({ usage }) => usage.totalTokens),
      subSteps: subSteps + sum(({ steps }) => steps),
      spent: pending.reduce((all, used) => addCosts(all, used.costMicros), costMicros),
      price: counted === 0 || costMicros === null ? 0 : costMicros / counted,
    };
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
    if (steps !== undefined) {
      yield counted("max-steps", { used: step + this.#ledger.subSteps, next: 1, most: steps });
    }
    if (wallTimeMs !== undefined) {
      yield running("max-time", { used: this.#ageMs, most: wallTimeMs });
    }
    if (outputBytes !== undefined) {
      yield running("max-output", { used: this.#ledger.outputBytes, most: outputBytes });
    }
    const { used, spent, price } = this.#spending();
    const next = this.#nextTokens;
    if (tokens !== undefined) yield counted("max-tokens", { used, next, most: tokens });
    if (costMicros !== undefined) {
      if (spent === null) yield { may: "end", reason: "max-cost" };
      else yield counted("max-cost", { used: spent, next: next * price, most: costMicros });
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
  const leftMs = wallTimeMs - ageMs;
  // At once: a call that a person has let while it waited would begin before any timer.
  if (leftMs <= 0) controller.abort(TIME_IS_OVER);
  const timer = clock.setTimer(() => controller.abort(TIME_IS_OVER), Math.max(0, leftMs));
  return {
    run: { ...run, signal: controller.signal },
    release() {
      clock.clearTimer(timer);
      signal.removeEventListener("abort", stop);
    },
  };
}
