import { HubError } from "../core/error.ts";
import type { WindowState } from "../store/budgets.ts";
import type { BudgetWindow } from "./key_policy.ts";

/** The client's code for what no hard budget and no limit of tokens can hold. */
export const UNBOUNDED_COST = "unbounded_cost";

/** Millionths of a dollar as dollars. */
function usd(micros: number): string {
  return `$${(micros / 1e6).toFixed(6)}`;
}

function wordsFor({ period, path }: BudgetWindow): string {
  const agent = path[0] === "agentBudgets" ? ` of the agent ${path[1]}` : "";
  return `${period} budget${agent}`;
}

/** How soon a call may be made again that only reservations left no room for, in milliseconds. */
const RESERVED_RETRY_MS = 1000;

/**
 * The refusal of a call for which a budget has no room: `insufficient_quota` until its period is over, or
 * `budget_reserved` when there is room but for the calls under way.
 */
export function budgetRefusal(
  keyId: string,
  facts: {
    windows: readonly BudgetWindow[];
    amountMicros: number;
    nowMs: number;
    headers: Readonly<Record<string, string>>;
  },
  states: readonly WindowState[],
): HubError {
  const { windows, amountMicros, nowMs, headers } = facts;
  const limited = states.flatMap((state) => {
    const window = windows.find(({ id }) => id === state.id);
    const { hardMicros } = state;
    return window === undefined || hardMicros === null ? [] : [{ ...state, window, hardMicros }];
  });
  // A budget that is spent decides, whatever else is only reserved.
  const spent = limited.find(({ spentMicros, hardMicros }) =>
    spentMicros + amountMicros > hardMicros
  );
  const full = spent ??
    limited.find(({ spentMicros, reservedMicros, hardMicros }) =>
      spentMicros + reservedMicros + amountMicros > hardMicros
    );
  if (full === undefined) {
    return new HubError("insufficient_quota", `A budget of the API key ${keyId} is spent`);
  }
  const { window, spentMicros, reservedMicros, hardMicros } = full;
  const retryAfterMs = spent === undefined ? RESERVED_RETRY_MS : untilNext(window.period, nowMs);
  return new HubError(
    spent === undefined ? "budget_reserved" : "insufficient_quota",
    `The ${wordsFor(window)} of the API key ${keyId} has no room for this call, which may cost ${
      usd(amountMicros)
    }: of ${usd(hardMicros)}, ${usd(spentMicros)} are spent and ${usd(reservedMicros)} reserved`,
    {
      headers,
      clientCode: "insufficient_quota",
      ...(retryAfterMs === null ? {} : { retryAfterMs }),
    },
  );
}

/** The refusal of a call whose cost nobody knows. */
export function unpricedRefusal(keyId: string, target: string): HubError {
  return new HubError(
    "permission_denied",
    `The API key ${keyId} has a budget, and ${target} has no price: its calls cannot be counted`,
    { param: "model", clientCode: "unknown_price" },
  );
}

/** The refusal of a call whose answer nothing limits. */
export function unlimitedRefusal(keyId: string, target: string): HubError {
  return new HubError(
    "permission_denied",
    `The API key ${keyId} has a budget, and nothing limits the cost of an answer of ${target}: its maxOutputTokens is not configured`,
    { param: "model", clientCode: UNBOUNDED_COST },
  );
}

/** What answers say when soft budgets are spent; null when none is. */
export function budgetWarning(
  windows: readonly BudgetWindow[],
  states: readonly WindowState[],
): string | null {
  const spent = windows.flatMap((window) => {
    const state = states.find(({ id }) => id === window.id);
    if (state === undefined || state.softMicros === null) return [];
    if (state.spentMicros < state.softMicros) return [];
    return [`${wordsFor(window)}: ${usd(state.spentMicros)} of ${usd(state.softMicros)} spent`];
  });
  return spent.length === 0 ? null : spent.join("; ");
}

/** Time until the period after this one; null when there is none. */
function untilNext(period: BudgetWindow["period"], nowMs: number): number | null {
  const now = new Date(nowMs);
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  if (period === "daily") return Date.UTC(year, month, now.getUTCDate() + 1) - nowMs;
  return period === "monthly" ? Date.UTC(year, month + 1, 1) - nowMs : null;
}
