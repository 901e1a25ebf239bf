import type { AbortLike } from "./abort.ts";
import { HubError } from "./error.ts";

/** What is written together, and how much of it. */
export interface GroupCommitOptions<T, V> {
  /** Writes items as if one came after the other, all or none, and gives a verdict for each in their order. */
  write(items: readonly T[]): Promise<readonly V[]>;
  /** Whether a failed write says that nothing was written since an item is wrong; any other fails the whole batch. */
  isRefusal(error: unknown): boolean;
  /** Items written at a time. */
  maxBatch: number;
  /** Items that may wait; more are refused. */
  maxWaiting: number;
}

/**
 * Writes what comes while a write is under way together in the next one: a batch is what has gathered, without any
 * timer, so that nobody waits who is alone.
 */
export class GroupCommit<T, V> {
  readonly #options: GroupCommitOptions<T, V>;
  #waiting: Entry<T, V>[] = [];
  #isWriting = false;

  constructor(options: GroupCommitOptions<T, V>) {
    this.#options = options;
  }

  /**
   * The verdict on an item. Rejects as its write does, with `overloaded` when too many wait, and with the signal's
   * reason when that aborts before the item was sent: then it is not written.
   */
  add(item: T, signal?: AbortLike): Promise<V> {
    if (signal?.aborted === true) return Promise.reject(signal.reason);
    const { maxWaiting } = this.#options;
    if (this.#waiting.length >= maxWaiting) {
      const message = `${maxWaiting} calls wait to be counted in Postgres, which is the most`;
      return Promise.reject(new HubError("overloaded", message, { retryAfterMs: 1000 }));
    }
    const entry = new Entry<T, V>(this, item, signal);
    this.#waiting.push(entry);
    signal?.addEventListener("abort", entry, { once: true });
    if (!this.#isWriting) void this.#writeAll();
    return entry.verdict;
  }

  /** Takes out one that waits; an entry's own. */
  remove(entry: Entry<T, V>): void {
    const at = this.#waiting.indexOf(entry);
    if (at >= 0) this.#waiting.splice(at, 1);
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = batch.splice(this.#options.maxBatch);
      for (const entry of batch) entry.sent();
      await this.#write(batch);
    }
    this.#isWriting = false;
  }

  /** What is wrong with one item fails that one alone: it is found by halving. */
  async #write(batch: readonly Entry<T, V>[]): Promise<void> {
    try {
      const verdicts = await this.#options.write(batch.map(({ item }) => item));
      for (const [index, entry] of batch.entries()) entry.resolve(verdicts[index] as V);
    } catch (error) {
      if (batch.length === 1 || !this.#options.isRefusal(error)) {
        for (const entry of batch) entry.reject(error);
        return;
      }
      const half = batch.length >> 1;
      for (const part of [batch.slice(0, half), batch.slice(half)]) {
        const stayed = part.filter((entry) => !entry.isLeft());
        if (stayed.length > 0) await this.#write(stayed);
      }
    }
  }
}

/** An item on its way. */
class Entry<T, V> {
  readonly item: T;
  readonly signal: AbortLike | undefined;
  readonly verdict: Promise<V>;
  readonly resolve: (verdict: V) => void;
  readonly reject: (error: unknown) => void;
  readonly #group: GroupCommit<T, V>;

  constructor(group: GroupCommit<T, V>, item: T, signal: AbortLike | undefined) {
    this.#group = group;
    this.item = item;
    this.signal = signal;
    const { promise, resolve, reject } = Promise.withResolvers<V>();
    this.verdict = promise;
    this.resolve = resolve;
    this.reject = reject;
  }

  /** From now on it is too late to leave. */
  sent(): void {
    this.signal?.removeEventListener("abort", this);
  }

  /** Whether its signal aborted; then it is rejected. */
  isLeft(): boolean {
    if (this.signal?.aborted !== true) return false;
    this.reject(this.signal.reason);
    return true;
  }

  /** Its signal aborted while it waited. */
  handleEvent(): void {
    this.#group.remove(this);
    this.reject(this.signal?.reason);
  }
}
