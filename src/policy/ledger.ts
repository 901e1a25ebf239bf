import type { AbortLike } from "../core/abort.ts";
import { GroupCommit } from "../core/group_commit.ts";
import {
  openWindows,
  type ReservationWish,
  reserve,
  reserveAll,
  type Verdict,
} from "../store/budgets.ts";
import { type Database, isRefusal } from "../store/database.ts";
import {
  correctRates,
  fitRates,
  type RateCorrection,
  type RateVerdict,
  type RateWish,
  takeRate,
  takeRates,
} from "../store/rates.ts";
import { releaseReservations, type ReservationKey } from "../store/settle_budgets.ts";

/** Of a batch: what is decided one wish after the other grows with the square of it. */
const MAX_BATCH = 128;
/** Calls that wait for one statement; requests under way are bounded long before. */
const MAX_WAITING = 10_000;

/**
 * The books of budgets and rates. Calls of a tenant that come while a statement is under way are taken together in the
 * next one, so that the rows of a key are written once for all of them.
 */
export class Ledger {
  readonly #db: Database;
  readonly #tenants = new Map<string, Batches>();
  /** Windows that are being made, for all who want them. */
  readonly #opening = new Map<string, Promise<void>>();

  constructor(db: Database) {
    this.#db = db;
  }

  /** As `reserve` of the store. Nothing is taken when the signal aborts before the call's batch was sent. */
  reserve(wish: ReservationWish, signal?: AbortLike): Promise<Verdict> {
    const { reservations } = this.#of(wish.tenantId);
    return reserve(this.#db, wish, {
      decide: (wish) => reservations.add(wish, signal),
      open: (wish) => this.#open(wish),
    });
  }

  /** As `takeRate` of the store. Nothing is taken when the signal aborts before the call's batch was sent. */
  takeRate(wish: RateWish, signal?: AbortLike): Promise<RateVerdict> {
    const { rates, fullRates } = this.#of(wish.tenantId);
    return takeRate(this.#db, wish, {
      take: (wish) => rates.add(wish, signal),
      fit: (wish) => fullRates.add(wish, signal),
    });
  }

  /** Corrects the tokens of a minute by what a call turned out to use. */
  correctRate(change: RateCorrection): Promise<void> {
    return this.#of(change.tenantId).corrections.add(change);
  }

  /** Frees the reservation of a call that never reached a provider. */
  release(key: ReservationKey): Promise<void> {
    return this.#of(key.tenantId).releases.add(key);
  }

  #of(tenantId: string): Batches {
    let batches = this.#tenants.get(tenantId);
    if (batches === undefined) this.#tenants.set(tenantId, batches = batchesOf(this.#db, tenantId));
    return batches;
  }

  #open(wish: ReservationWish): Promise<void> {
    const id = [wish.tenantId, wish.keyId, ...wish.windows.map(({ id }) => id)].join("\n");
    let opening = this.#opening.get(id);
    if (opening === undefined) {
      opening = openWindows(this.#db, wish).finally(() => this.#opening.delete(id));
      this.#opening.set(id, opening);
    }
    return opening;
  }
}

/** What is written of one tenant, by statement. */
type Batches = ReturnType<typeof batchesOf>;

function batchesOf(db: Database, tenantId: string) {
  const group = <T, V>(write: (items: readonly T[]) => Promise<readonly V[]>) =>
    new GroupCommit({ write, isRefusal, maxBatch: MAX_BATCH, maxWaiting: MAX_WAITING });
  const unanswered = <T>(write: (items: readonly T[]) => Promise<void>) =>
    group<T, void>(async (items) => {
      await write(items);
      return [];
    });
  return {
    rates: group((wishes: readonly RateWish[]) => takeRates(db, tenantId, wishes)),
    fullRates: group((wishes: readonly RateWish[]) => fitRates(db, tenantId, wishes)),
    reservations: group((wishes: readonly ReservationWish[]) => reserveAll(db, tenantId, wishes)),
    corrections: unanswered((changes: readonly RateCorrection[]) =>
      correctRates(db, tenantId, changes)
    ),
    releases: unanswered((keys: readonly ReservationKey[]) => releaseReservations(db, keys)),
  };
}
