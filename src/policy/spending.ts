import type { Clock, Timer } from "../core/clock.ts";
import { mostItMayCost } from "../core/cost.ts";
import { toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import type { Hold, MeteredAttempt, MeteredCall } from "../core/metered_call.ts";
import type { Usage } from "../core/usage.ts";
import type { Database } from "../store/database.ts";
import { renewReservations } from "../store/settle_budgets.ts";
import { budgetRefusal, budgetWarning, unlimitedRefusal, unpricedRefusal } from "./budget_words.ts";
import {
  type BudgetWindow,
  hasBudgets,
  hasHardBudget,
  hasLimits,
  isMetered,
  type KeyPolicy,
  windowsOf,
  withoutMoney,
} from "./key_policy.ts";
import { Ledger } from "./ledger.ts";
import { assertMayCall } from "./may_call.ts";
import { type Caller, MeteredKeyCall } from "./metered_key_call.ts";
import { sliceOf } from "../store/rates.ts";
import { type CountedCall, RateShare, UNCOUNTED } from "./rate_share.ts";
import { rateHeaders, rateRefusal } from "./rate_words.ts";

/** What is counted about budgets. */
export type BudgetEvent = "refused" | "soft" | "unreserved" | "expired";

/** What leave to spend is given from. */
export interface SpendingOptions {
  db: Database;
  clock: Clock;
  log: Log;
  policyOf(keyId: string): KeyPolicy;
  /** What becomes of calls that cannot be counted, for keys that do not say. */
  withoutDatabase: "refuse" | "serve";
  observe(event: BudgetEvent): void;
  /** How long a reservation holds without a sign of life. */
  leaseMs?: number;
}

const LEASE_MS = 60_000;
/** After a failure of the database nobody waits for it for so long. */
const AWAY_MS = 1000;

/**
 * Asks for leave before a call is made, when its key has budgets or rates: money and minutes are counted in Postgres
 * alone, so that all replicas count together.
 */
export class Spending {
  readonly #options: SpendingOptions & { leaseMs: number };
  readonly #ledger: Ledger;
  /** Tenants of the calls that hold a reservation, by usage id. */
  readonly #live = new Map<string, string>();
  readonly #writes = new Set<Promise<void>>();
  #timer: Timer = null;
  #closed = false;
  #awayUntilMs = -Infinity;

  constructor(options: SpendingOptions) {
    this.#options = { leaseMs: LEASE_MS, ...options };
    this.#ledger = new Ledger(options.db);
  }

  /** Null when nothing of the call is counted; throws when its key must not make it. No wait. */
  enter(caller: Caller): MeteredCall | null {
    const whole = this.#options.policyOf(caller.keyId);
    assertMayCall(whole, caller);
    const policy = caller.bound === "free" ? withoutMoney(whole) : whole;
    const isLimited = hasLimits(policy, caller.agent);
    return isLimited || isMetered(policy)
      ? new MeteredKeyCall(this, caller, policy, isLimited)
      : null;
  }

  /** Counts a call in its key's last minute; gives the header fields that say so, and its share of the tokens. */
  async count(
    { caller, policy }: { caller: Caller; policy: KeyPolicy },
    { size, signal }: MeteredAttempt,
  ): Promise<CountedCall> {
    const { requestsPerMinute = null, tokensPerMinute = null } = policy;
    if (requestsPerMinute === null && tokensPerMinute === null) return UNCOUNTED;
    const ledger = this.#ledger;
    const nowMs = this.#options.clock.now();
    const key = { tenantId: caller.tenantId, keyId: caller.keyId };
    const tokens = tokensPerMinute === null ? 0 : size.promptTokens + size.outputTokens;
    const limits = { maxRequests: requestsPerMinute, maxTokens: tokensPerMinute };
    const wish = { ...key, ...limits, slice: sliceOf(nowMs), tokens };
    const state = await this.#orAway(policy, () => ledger.takeRate(wish, signal));
    if (state === null) return UNCOUNTED;
    const facts = { ...limits, ...state, nowMs };
    if (!state.taken) throw rateRefusal(caller.keyId, { ...facts, wanted: tokens });
    const headers = rateHeaders(facts);
    if (tokensPerMinute === null) return { headers, share: null };
    const { slice } = state;
    const change = (by: number) => this.#later(ledger.correctRate({ ...key, slice, tokens: by }));
    return { headers, share: new RateShare(tokens, change) };
  }

  /** Reserves what a try may cost. Rejects `insufficient_quota` or `budget_reserved` when a budget has no room for it. */
  async reserve(
    { caller, policy, counted }: { caller: Caller; policy: KeyPolicy; counted: CountedCall },
    { size, price, target, usageId, signal }: MeteredAttempt,
  ): Promise<Hold> {
    const { clock, leaseMs } = this.#options;
    const { headers } = counted;
    if (!hasBudgets(policy)) {
      counted.share?.begin();
      const end = (usage: Usage | null) => counted.share?.end(usage);
      return { windows: null, reservedMicros: null, isHard: false, headers, end };
    }
    const { bound } = caller;
    const isHard = hasHardBudget(policy, caller.agent);
    if (isHard) {
      if (price === undefined) throw unpricedRefusal(caller.keyId, target);
      if (bound === "limit" && !size.isLimited) throw unlimitedRefusal(caller.keyId, target);
    }
    const isBounded = price !== undefined && bound !== "none";
    const promptTokens = Math.min(MOST_PROMPT_TOKENS, Math.ceil(size.requestBytes / 2));
    const amountMicros = isBounded
      ? mostItMayCost({ promptTokens, outputTokens: size.outputTokens }, price)
      : 0;
    const { tenantId, keyId, requestId, agent } = caller;
    const windows = windowsOf(policy, { nowMs: clock.now(), agent });
    const wish = { tenantId, keyId, usageId, requestId, amountMicros, leaseMs, windows };
    const verdict = await this.#orAway(policy, () => this.#ledger.reserve(wish, signal));
    if (verdict === null) this.#options.observe("unreserved");
    else if (!verdict.fits) {
      this.#options.observe("refused");
      throw budgetRefusal(
        keyId,
        { windows, amountMicros, nowMs: clock.now(), ...counted },
        verdict.windows,
      );
    } else {
      this.#live.set(usageId, tenantId);
      this.#arm();
    }
    counted.share?.begin();
    const warning = verdict === null ? null : this.#warn(caller, windows, verdict.windows);
    return {
      windows: windows.map(({ id }) => id),
      reservedMicros: isBounded ? amountMicros : null,
      isHard,
      headers: warning === null ? headers : { ...headers, "x-loophub-budget-warning": warning },
      end: (usage, reached) => {
        counted.share?.end(usage);
        if (!this.#live.delete(usageId) || reached) return;
        this.#later(this.#ledger.release({ tenantId, usageId }));
      },
    };
  }

  /** Waits for what is being written. Reservations that are left are freed when their leases are over. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#options.clock.clearTimer(this.#timer);
    await Promise.all(this.#writes);
  }

  #warn(
    { keyId, requestId }: Caller,
    windows: readonly BudgetWindow[],
    states: Parameters<typeof budgetWarning>[1],
  ): string | null {
    const warning = budgetWarning(windows, states);
    if (warning !== null) {
      this.#options.observe("soft");
      this.#options.log.info("A soft budget is spent", { keyId, requestId, warning });
    }
    return warning;
  }

  /** Null when the database is away and the key is served all the same; rejects when it is not. */
  async #orAway<T>(policy: KeyPolicy, ask: () => Promise<T>): Promise<T | null> {
    const { clock, withoutDatabase, log } = this.#options;
    const serves = (policy.withoutDatabase ?? withoutDatabase) === "serve";
    if (serves && clock.monotonic() < this.#awayUntilMs) return null;
    try {
      return await ask();
    } catch (error) {
      const failure = toHubError(error);
      if (!serves || failure.code !== "database_unavailable") throw failure;
      this.#awayUntilMs = clock.monotonic() + AWAY_MS;
      log.warn("Calls are made uncounted: the database is away", { error: failure });
      return null;
    }
  }

  /** Something to be written behind the answer. When it fails, the lease of the reservation sees to it. */
  #later(write: Promise<void>): void {
    const done = write.catch((error) =>
      this.#options.log.warn("A budget or rate was not corrected", { error: toHubError(error) })
    ).finally(() => this.#writes.delete(done));
    this.#writes.add(done);
  }

  #arm(): void {
    if (this.#timer !== null || this.#closed) return;
    const { clock, leaseMs, db, log } = this.#options;
    this.#timer = clock.setTimer(async () => {
      try {
        const keys = [...this.#live].map(([usageId, tenantId]) => ({ tenantId, usageId }));
        if (keys.length > 0) await renewReservations(db, keys, leaseMs);
      } catch (error) {
        log.warn("Reservations were not renewed", { error: toHubError(error) });
      }
      this.#timer = null;
      if (this.#live.size > 0) this.#arm();
    }, leaseMs / 3);
  }
}

/** A token has two bytes at least, of text; no model reads more tokens than this. */
const MOST_PROMPT_TOKENS = 2_000_000;
