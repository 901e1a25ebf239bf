import { HubError } from "../core/error.ts";
import type { RunBudget } from "../core/run_budget.ts";
import { parseSpan } from "./key_options.ts";

const BOUNDS: Readonly<Record<string, (text: string) => [bound: keyof RunBudget, most: number]>> = {
  steps: (text) => ["steps", whole(text)],
  time: (text) => ["wallTimeMs", parseSpan(text)],
  tokens: (text) => ["tokens", whole(text)],
  cost: (text) => ["costMicros", micros(text)],
  bytes: (text) => ["outputBytes", whole(text)],
};
const WANTED = "steps=20, time=15m, tokens=100000, cost=0.50 (US dollars) or bytes=1000000";

/** What `--budget steps=20 --budget cost=0.50` says of a run. Throws `invalid_request`. */
export function parseRunBudget(texts: readonly string[]): RunBudget | undefined {
  const budget: RunBudget = {};
  for (const text of texts) {
    const [name = "", value = ""] = text.split("=", 2);
    const read = Object.hasOwn(BOUNDS, name) ? BOUNDS[name] : undefined;
    if (read === undefined) throw wrong(text);
    const [bound, amount] = read(value);
    if (amount < 1) throw wrong(text);
    budget[bound] = amount;
  }
  return texts.length === 0 ? undefined : budget;
}

/** 0 for what is none. */
function whole(text: string): number {
  return /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

/** Millionths of US dollars; 0 for what is none. */
function micros(text: string): number {
  return /^\d{1,9}(\.\d{1,6})?$/.test(text) ? Math.round(Number(text) * 1e6) : 0;
}

function wrong(text: string): HubError {
  return new HubError(
    "invalid_request",
    `--budget got ${JSON.stringify(text.slice(0, 80))}, wanted ${WANTED}`,
  );
}
