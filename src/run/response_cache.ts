import { type Clock, doneWithin } from "../core/clock.ts";
import { toHubError } from "../core/error.ts";
import type { IdSource } from "../core/id.ts";
import { joinBytes } from "../core/join_bytes.ts";
import type { Log } from "../core/log.ts";
import type { KeyPolicy } from "../policy/key_policy.ts";
import type { CallFacts } from "../router/usage_fact.ts";
import {
  type CachedHead,
  type CacheKey,
  findCached,
  keepCached,
  type NewCachedAnswer,
  pruneCached,
} from "../store/cached_answers.ts";
import type { Database } from "../store/database.ts";
import type { UsageRow } from "../store/usage_rows.ts";
import { isSoundStream } from "../wire/sound_stream.ts";
import { type FoundAnswer, type HowToOpen, JoinedAnswers, type Opened } from "./joined_answers.ts";

/** What becomes of requests that ask for the cache, and of their answers. */
export type CacheEvent =
  | "hit"
  | "miss"
  | "bypass"
  | "unavailable"
  | "stored"
  | "too_large"
  | "unsound"
  | "dropped";

/** How much is kept, and for how long. */
export interface CacheSettings {
  /** The longest time an answer is kept; 0 keeps none. */
  maxSeconds: number;
  maxEntryBytes: number;
  maxTotalBytes: number;
  lookupTimeoutMs: number;
  joinTimeoutMs: number;
}

/** What the cache needs. */
export interface ResponseCacheOptions extends CacheSettings {
  db: Database;
  clock: Clock;
  ids: IdSource;
  log: Log;
  policyOf(keyId: string): KeyPolicy;
  /** Throws when the key must not make the call. No wait. */
  permit(facts: CallFacts): void;
  /** Books an answer that no provider was asked for. */
  book(row: UsageRow): void;
  observe(event: CacheEvent): void;
}

/** A request that may be answered from the cache. */
export interface CacheQuestion extends CacheKey {
  keyId: string;
  /** The oldest answer that will do, and how long one is kept. */
  seconds: number;
}

/** An answer on its way to its client, that is to be kept when it is whole. */
export interface Recording {
  push(bytes: Uint8Array): void;
  /** It is whole. */
  finish(head: CachedHead, form: { streamed: boolean }): void;
  /** It is not; idempotent, and nothing after `finish`. */
  drop(): void;
}

/** What requests need of the cache. */
export type AnswerCache = Pick<
  ResponseCache,
  "secondsFor" | "permit" | "pass" | "find" | "open" | "book" | "record"
>;

type Entry = Omit<NewCachedAnswer, "agedMs"> & { streamed: boolean; endedMs: number };

/** After a look that failed or was late nobody waits for the database for so long, but one request each time. */
const AWAY_MS = 1000;
/** Looks at one time. */
const MAX_LOOKS = 256;
/** Bytes of answers that come or wait to be written, all together. */
const MAX_HELD_BYTES = 64 * 1024 * 1024;
/** Part of the whole cache that one replica writes until it looks whether there is too much. */
const PRUNE_SHARE = 8;

/**
 * Whole answers in Postgres, for requests that ask for it and are the same byte for byte: shared by all replicas and
 * all keys of a tenant. It never stands in the way: what it cannot tell in time is a miss, and writing waits for nobody.
 */
export class ResponseCache {
  readonly #options: ResponseCacheOptions;
  readonly #waiting: Entry[] = [];
  readonly #joined: JoinedAnswers;
  #writing: Promise<void> | null = null;
  #looks = 0;
  #held = 0;
  #unpruned = 0;
  #awayUntilMs: number | null = null;

  constructor(options: ResponseCacheOptions) {
    this.#options = options;
    this.#joined = new JoinedAnswers(options);
  }

  /**
   * How old an answer may be for a request that asks for this many seconds, null when it does not say: then its key
   * does. 0 when nothing is to be cached; a key that forbids it wins over its requests.
   */
  secondsFor(keyId: string, asked: number | null): number {
    const { policyOf, maxSeconds } = this.#options;
    const own = policyOf(keyId).cacheSeconds;
    if (own === 0) return 0;
    return Math.min(asked ?? own ?? 0, maxSeconds);
  }

  /** Throws when the key must not make the call, as a provider's answer would. */
  permit(facts: CallFacts): void {
    this.#options.permit(facts);
  }

  /** A request asked for what cannot be cached. */
  pass(): void {
    this.#options.observe("bypass");
  }

  /** The answer, and its age in seconds; null when there is none or the database does not say so in time. */
  async find(
    { tenantId, hash, seconds }: CacheQuestion,
  ): Promise<FoundAnswer | null> {
    const { db, clock, observe, lookupTimeoutMs } = this.#options;
    if (this.#looks >= MAX_LOOKS || this.#isAway()) {
      observe("unavailable");
      return null;
    }
    let found: FoundAnswer | null = null;
    this.#looks++;
    try {
      const look = findCached(db, { tenantId, hash, seconds }).then((answer) => {
        found = answer;
      }).finally(() => this.#looks--);
      if (!await doneWithin(clock, lookupTimeoutMs, look)) throw new Error("It took too long");
    } catch (error) {
      this.#awayUntilMs = clock.monotonic() + AWAY_MS;
      this.#options.log.debug("The cache does not answer", { error: toHubError(error) });
      observe("unavailable");
      return null;
    }
    this.#awayUntilMs = null;
    observe(found === null ? "miss" : "hit");
    return found;
  }

  /** A whole answer, of which several requests at a time have one. */
  open<A>(question: CacheQuestion, how: HowToOpen<A>): Promise<Opened<A>> {
    return this.#joined.open(question, how);
  }

  /** Books a request that was answered from the cache: it costs nothing and counts in no budget. */
  book(
    facts: CallFacts,
    row: Pick<UsageRow, "provider" | "model" | "streamed" | "outcome" | "bytesOut" | "startedAt">,
  ): void {
    const { clock, ids, book } = this.#options;
    book({
      ...facts,
      ...row,
      usageId: ids.next("usg"),
      status: null,
      errorCode: row.outcome === "ok" ? null : "client_closed",
      usage: null,
      estimated: false,
      costMicros: 0,
      firstTokenMs: null,
      durationMs: Math.max(0, Math.round(clock.now() - row.startedAt)),
      attempts: [],
      fromCache: true,
    });
  }

  /** Follows an answer to its end. */
  record({ tenantId, hash, keyId, seconds }: CacheQuestion): Recording {
    const { clock, maxEntryBytes, observe } = this.#options;
    let pieces: Uint8Array[] | null = [];
    let size = 0;
    const drop = () => {
      if (pieces !== null) this.#held -= size;
      pieces = null;
    };
    const fail = (event: CacheEvent) => {
      drop();
      observe(event);
    };
    return {
      push: (bytes) => {
        if (pieces === null) return;
        if (size + bytes.length > maxEntryBytes) return fail("too_large");
        if (this.#held + bytes.length > MAX_HELD_BYTES) return fail("dropped");
        pieces.push(bytes);
        size += bytes.length;
        this.#held += bytes.length;
      },
      finish: (head, { streamed }) => {
        if (pieces === null) return;
        const endedMs = clock.monotonic();
        const bytes = joinBytes(pieces);
        pieces = null;
        this.#waiting.push({
          tenantId,
          hash,
          keyId,
          head,
          bytes,
          seconds,
          endedMs,
          streamed,
        });
        this.#writing ??= this.#write().finally(() => this.#writing = null);
      },
      drop,
    };
  }

  /** Drops what has expired and what is too much. */
  async prune(): Promise<void> {
    const { db, maxTotalBytes } = this.#options;
    this.#unpruned = 0;
    await pruneCached(db, { maxBytes: maxTotalBytes });
  }

  /** Writes what waits; what Postgres does not take is dropped. */
  async close(): Promise<void> {
    await this.#writing;
  }

  #isAway(): boolean {
    if (this.#awayUntilMs === null) return false;
    const nowMs = this.#options.clock.monotonic();
    if (nowMs < this.#awayUntilMs) return true;
    this.#awayUntilMs = nowMs + AWAY_MS;
    return false;
  }

  async #write(): Promise<void> {
    const { db, clock, log, observe, maxTotalBytes } = this.#options;
    for (let entry = this.#waiting.shift(); entry !== undefined; entry = this.#waiting.shift()) {
      const { streamed, endedMs, ...answer } = entry;
      const { length } = answer.bytes;
      try {
        if (streamed && !isSoundStream(answer.bytes)) {
          observe("unsound");
          continue;
        }
        await keepCached(db, { ...answer, agedMs: Math.round(clock.monotonic() - endedMs) });
        observe("stored");
        this.#unpruned += length;
        if (this.#unpruned > maxTotalBytes / PRUNE_SHARE) await this.prune();
      } catch (error) {
        const lost = [entry, ...this.#waiting.splice(0)];
        for (const { bytes } of lost.slice(1)) this.#held -= bytes.length;
        for (const _ of lost) observe("dropped");
        const answers = lost.length;
        log.warn("Answers were not cached", { answers, error: toHubError(error) });
      } finally {
        this.#held -= length;
      }
    }
  }
}
