import { Aborter } from "../core/abort.ts";
import type { Clock } from "../core/clock.ts";
import { HubError, toHubError } from "../core/error.ts";
import { type IdSource, toUuid } from "../core/id.ts";
import type { Log } from "../core/log.ts";
import type { Database } from "../store/database.ts";
import { type AnswerKey, claimAnswer } from "../store/idempotency.ts";
import { AnswerKeeper } from "./answer_keeper.ts";
import { type BegunAnswer, driveAnswer, type DriveOptions } from "./drive_answer.ts";
import { followAnswer } from "./follow_answer.ts";
import { type AnswerReader, SharedAnswer } from "./shared_answer.ts";

export type { AnswerReader, BegunAnswer };

/** What asking once needs. */
export interface IdempotentAnswersOptions {
  db: Database;
  clock: Clock;
  ids: IdSource;
  log: Log;
  /** A replica that has not renewed its claim for this long counts as gone. */
  leaseMs: number;
}

/** A request that may have been made before. */
export interface KeyedRequest extends AnswerKey {
  /** SHA-256 of all that is asked for. */
  bodyHash: Uint8Array;
  /** Asks the provider; called only when nobody else has or does. */
  begin: DriveOptions["begin"];
}

/** Headers of an answer that was asked for by an earlier request. */
export const REPLAYED_HEADERS: Readonly<Record<string, string>> = Object.freeze({
  "idempotent-replayed": "true",
});

/**
 * Answers requests that carry a key: one call of the provider for each key and body, on all replicas together. Whoever
 * comes first claims the key in Postgres; the others read along, here from memory and elsewhere from what is stored.
 */
export class IdempotentAnswers {
  readonly #options: IdempotentAnswersOptions;
  /** Answers that somebody reads here or that are not stored yet. */
  readonly #open = new Map<string, SharedAnswer>();
  readonly #keepers = new Set<AnswerKeeper>();
  readonly #work = new Set<Promise<void>>();
  readonly #ending = new Aborter();

  constructor(options: IdempotentAnswersOptions) {
    this.#options = options;
  }

  /** The answer to a request; what prevents it comes from the reader. Close the reader when the client leaves. */
  open(request: KeyedRequest): AnswerReader {
    const place = `${request.tenantId} ${request.bodyHash.toHex()} ${request.key}`;
    const known = this.#open.get(place);
    if (known !== undefined) return known.attach();
    const shared: SharedAnswer = new SharedAnswer(() => forget());
    const forget = () => {
      if (this.#open.get(place) === shared) this.#open.delete(place);
    };
    this.#open.set(place, shared);
    const reader = shared.attach();
    const work = this.#fill(shared, request)
      .catch((error) => shared.fail(toHubError(error)))
      .finally(() => {
        forget();
        this.#work.delete(work);
      });
    this.#work.add(work);
    return reader;
  }

  /** Writes what waits. To be called when all clients have their answers or are gone. */
  async close(): Promise<void> {
    this.#ending.abort(new HubError("shutting_down", "The hub is stopping"));
    for (const keeper of this.#keepers) keeper.hurry();
    await Promise.all(this.#work);
  }

  async #fill(shared: SharedAnswer, request: KeyedRequest): Promise<void> {
    const { db, clock, ids, log, leaseMs } = this.#options;
    const { tenantId, key, bodyHash, begin } = request;
    while (!shared.isIdle) {
      if (this.#ending.aborted) throw toHubError(this.#ending.reason);
      const claim = { tenantId, key, claimId: toUuid(ids.next("req")) };
      const claimed = await claimAnswer(db, { ...claim, bodyHash, leaseMs });
      switch (claimed.kind) {
        case "mismatch":
          throw new HubError(
            "idempotency_mismatch",
            "This Idempotency-Key came before with another body: another request wants a new key",
            { param: "Idempotency-Key" },
          );
        case "claimed": {
          const keeper = new AnswerKeeper({ db, claim, leaseMs, clock, log });
          this.#keepers.add(keeper);
          shared.replays = false;
          await driveAnswer(shared, { begin, keeper, clock, ending: this.#ending });
          this.#keepers.delete(keeper);
          return;
        }
        case "held": {
          const held = { tenantId, key, claimId: claimed.claimId };
          const options = { db, claim: held, clock, replayHeaders: REPLAYED_HEADERS };
          if (await followAnswer(shared, options) === "over") return;
        }
      }
    }
  }
}
