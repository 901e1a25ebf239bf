import type { Clock, Timer } from "../core/clock.ts";
import type { KeyEnd } from "../core/key_end.ts";

/** What of a stored key decides whether it holds. Milliseconds since the epoch. */
export interface KeyTerms {
  keyId: string;
  expiresAt: number | null;
  revokedAt: number | null;
}

/** The longest timer: later ends are looked at again then, and platforms have no timers of months. */
const MAX_TIMER_MS = 3_600_000;

/**
 * Which keys of this replica's snapshot have ended, and the work that ends with each: runs, background responses, open
 * requests. A key that was deleted counts as revoked; one that was never known has not ended.
 */
export class KeyEnds {
  readonly #clock: Clock;
  readonly #onEnded: (keyIds: string[]) => void;
  readonly #held = new Map<string, Set<(end: KeyEnd) => void>>();
  #terms: ReadonlyMap<string, KeyTerms> = new Map();
  #ended = new Map<string, KeyEnd>();
  #timer: Timer | null = null;
  #isStarted = false;

  /** `onEnded` is told of the keys that end from now on, before the work that is held for them. */
  constructor({ clock, onEnded }: { clock: Clock; onEnded: (keyIds: string[]) => void }) {
    this.#clock = clock;
    this.#onEnded = onEnded;
  }

  /** Why the key has ended; null when it holds, or is not known. */
  endOf(keyId: string): KeyEnd | null {
    return this.#ended.get(keyId) ?? endOf(this.#terms.get(keyId), this.#clock.now());
  }

  /** Calls back once when the key ends, at once when it has; until what is returned is called. */
  hold(keyId: string, onEnd: (end: KeyEnd) => void): () => void {
    const end = this.endOf(keyId);
    if (end !== null) {
      onEnd(end);
      return () => {};
    }
    const held = this.#held.get(keyId) ?? new Set();
    this.#held.set(keyId, held.add(onEnd));
    return () => {
      held.delete(onEnd);
      if (held.size === 0 && this.#held.get(keyId) === held) this.#held.delete(keyId);
    };
  }

  /** Takes over a new snapshot of all keys. */
  update(keys: readonly KeyTerms[]): void {
    const before = this.#terms;
    this.#terms = new Map(keys.map((key) => [key.keyId, key]));
    const deleted = [...before.keys()].filter((keyId) => !this.#terms.has(keyId));
    this.#look(deleted);
  }

  /** Looks whether keys have expired: timers do not see that the wall clock was set, or the machine slept. */
  look(): void {
    this.#look();
  }

  /** Notices from now on also the moment in which a key expires. */
  start(): void {
    this.#isStarted = true;
    this.#arm();
  }

  close(): void {
    this.#isStarted = false;
    this.#clock.clearTimer(this.#timer);
  }

  #look(deleted: readonly string[] = []): void {
    const nowMs = this.#clock.now();
    const former = this.#ended;
    this.#ended = new Map(deleted.map((keyId) => [keyId, "revoked"]));
    for (const [keyId, end] of former) if (!this.#terms.has(keyId)) this.#ended.set(keyId, end);
    for (const [keyId, key] of this.#terms) {
      const end = endOf(key, nowMs);
      if (end !== null) this.#ended.set(keyId, end);
    }
    const news = [...this.#ended].filter(([keyId]) => !former.has(keyId));
    this.#arm();
    if (news.length === 0) return;
    this.#onEnded(news.map(([keyId]) => keyId));
    for (const [keyId, end] of news) {
      const held = this.#held.get(keyId);
      this.#held.delete(keyId);
      for (const onEnd of held ?? []) onEnd(end);
    }
  }

  #arm(): void {
    this.#clock.clearTimer(this.#timer);
    this.#timer = null;
    if (!this.#isStarted) return;
    let nextMs = Infinity;
    for (const { keyId, expiresAt } of this.#terms.values()) {
      if (expiresAt !== null && !this.#ended.has(keyId)) nextMs = Math.min(nextMs, expiresAt);
    }
    if (nextMs === Infinity) return;
    const delayMs = Math.min(Math.max(0, nextMs - this.#clock.now()), MAX_TIMER_MS);
    this.#timer = this.#clock.setTimer(() => this.#look(), delayMs);
  }
}

function endOf(key: KeyTerms | undefined, nowMs: number): KeyEnd | null {
  if (key === undefined) return null;
  if (key.revokedAt !== null) return "revoked";
  return key.expiresAt !== null && key.expiresAt <= nowMs ? "expired" : null;
}
