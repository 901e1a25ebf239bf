import type { Usage } from "./usage.ts";

/** What one run may use up; what is left out has no bound. */
export interface RunBudget {
  /** Model calls of its steps. */
  steps?: number;
  /** Since it was asked for, what it waited for people included. */
  wallTimeMs?: number;
  /** Tokens of all its model calls, in and out. */
  tokens?: number;
  /** Millionths of a US dollar. */
  costMicros?: number;
  /** UTF-8 bytes of what its models and tools have written. */
  outputBytes?: number;
}

/** What a run has left, for model calls in the middle of it that are none of its steps. */
export interface BudgetRoom {
  /** Whether one of about this many tokens is within its bounds. */
  fits(tokens: number): boolean;
}

/** The same for tools, whose model calls nobody else counts. */
export interface BudgetLeft extends BudgetRoom {
  /** Counts what one has used; a cost of null is unknown. */
  book(used: { model: string; usage: Usage; costMicros: number | null; estimated?: boolean }): void;
}

const BOUNDS = ["steps", "wallTimeMs", "tokens", "costMicros", "outputBytes"] as const;

/** Of each bound the smaller one; null when there is none at all. */
export function smallerBudget(
  ...budgets: readonly (RunBudget | null | undefined)[]
): RunBudget | null {
  const smallest: RunBudget = {};
  for (const budget of budgets) {
    for (const bound of BOUNDS) {
      const value = budget?.[bound];
      if (value !== undefined) smallest[bound] = Math.min(smallest[bound] ?? Infinity, value);
    }
  }
  return Object.keys(smallest).length === 0 ? null : smallest;
}
