import type { Clock, Timer } from "../core/clock.ts";
import { toHubError } from "../core/error.ts";
import { joinBytes } from "../core/join_bytes.ts";
import type { Log } from "../core/log.ts";
import type { Database } from "../store/database.ts";
import {
  type AnswerClaim,
  type AnswerPart,
  refuseAnswer,
  releaseAnswer,
  saveAnswer,
  type StoredHead,
} from "../store/idempotency.ts";
import { MAX_KEPT_BYTES } from "./shared_answer.ts";

/** What keeping an answer needs. */
export interface AnswerKeeperOptions {
  db: Database;
  claim: AnswerClaim;
  leaseMs: number;
  clock: Clock;
  log: Log;
}

const FLUSH_MS = 200;
const RETRY_MS = 1000;
/** How long an answer that is whole is tried to be written. */
const PATIENCE_MS = 60_000;

/** Writes an answer to Postgres while it comes, in batches, and renews its claim. Nobody waits for it. */
export class AnswerKeeper {
  /** Resolves when nothing more will be written. */
  readonly done: Promise<void>;
  /** Told after each write whether somebody waits for the answer on another replica. */
  onSaved: ((followed: boolean) => void) | null = null;
  readonly #options: AnswerKeeperOptions;
  readonly #finished = Promise.withResolvers<void>();
  #head: StoredHead | null = null;
  #pending: Uint8Array[] = [];
  #size = 0;
  #pieces = 0;
  #part: AnswerPart | null = null;
  #end: "open" | "whole" | "too_large" = "open";
  #refusing: Promise<void> = Promise.resolve();
  #timer: Timer | null = null;
  #saving = false;
  #closed = false;
  #giveUpMs = Infinity;

  constructor(options: AnswerKeeperOptions) {
    this.#options = options;
    this.done = this.#finished.promise;
    this.#arm(options.leaseMs / 3);
  }

  begin(head: StoredHead): void {
    this.#head = head;
  }

  push(bytes: Uint8Array): void {
    this.#size += bytes.length;
    if (this.#size > MAX_KEPT_BYTES) {
      this.#pending = [];
      if (!this.#isTooLarge) this.#refusing = this.#refuse();
      return;
    }
    this.#pending.push(bytes);
    this.#arm(FLUSH_MS);
  }

  /** The answer is whole: it is written at once. */
  finish(): void {
    if (this.#isTooLarge) {
      this.#refusing.then(() => this.#close());
      return;
    }
    this.#end = "whole";
    this.#giveUpMs = Math.min(this.#giveUpMs, this.#options.clock.monotonic() + PATIENCE_MS);
    this.#arm(0);
  }

  /** Frees the key. With `unlessFollowed` not while somebody waits for the answer elsewhere: then true. */
  async release({ unlessFollowed }: { unlessFollowed: boolean }): Promise<boolean> {
    if (this.#closed) return false;
    const { db, claim } = this.#options;
    try {
      const followed = await releaseAnswer(db, { ...claim, unlessFollowed });
      if (!followed) this.#close();
      return followed;
    } catch (error) {
      this.#warn("A key was not released; it is free when its lease runs out", error);
      this.#close();
      return false;
    }
  }

  /** The hub ends: an answer that is whole is tried to be written once more. */
  hurry(): void {
    this.#giveUpMs = 0;
    if (this.#end === "whole") this.#arm(0);
  }

  /** A getter, since it changes while a statement is under way. */
  get #isTooLarge(): boolean {
    return this.#end === "too_large";
  }

  #arm(delayMs: number): void {
    if (this.#closed || this.#saving || this.#isTooLarge) return;
    const { clock } = this.#options;
    if (this.#timer !== null) {
      if (delayMs === FLUSH_MS && this.#pending.length > 1) return;
      clock.clearTimer(this.#timer);
    }
    this.#timer = clock.setTimer(() => {
      this.#timer = null;
      void this.#save();
    }, delayMs);
  }

  /** A part is the same at each try, until it is written. */
  #nextPart(): AnswerPart {
    const bytes = joinBytes(this.#pending.splice(0));
    return {
      state: this.#end === "whole" ? "done" : "running",
      head: this.#pieces === 0 ? this.#head : null,
      piece: bytes.length === 0 ? null : { index: this.#pieces, bytes },
    };
  }

  async #save(): Promise<void> {
    const { db, claim, leaseMs, clock } = this.#options;
    const part = this.#part ??= this.#nextPart();
    let nextMs = leaseMs / 3;
    this.#saving = true;
    try {
      const saved = await saveAnswer(db, claim, { ...part, leaseMs });
      if (this.#closed) return;
      // What is too large is not written any more, but its key can still be released.
      if (this.#isTooLarge) return;
      if (saved === null) {
        this.#warn("An answer is not kept: its key was claimed by another replica");
        return this.#close();
      }
      this.#part = null;
      if (part.piece !== null) this.#pieces++;
      if (part.state === "done") return this.#close();
      if (this.#end === "whole") nextMs = 0;
      else if (this.#pending.length > 0) nextMs = FLUSH_MS;
      this.onSaved?.(saved.followed);
    } catch (error) {
      if (this.#closed || this.#isTooLarge) return;
      if (clock.monotonic() >= this.#giveUpMs) {
        this.#warn("An answer was not kept: a request with its key is made again", error);
        return this.#close();
      }
      nextMs = RETRY_MS;
    } finally {
      this.#saving = false;
    }
    this.#arm(nextMs);
  }

  async #refuse(): Promise<void> {
    this.#end = "too_large";
    this.#options.clock.clearTimer(this.#timer);
    this.#timer = null;
    try {
      await refuseAnswer(this.#options.db, this.#options.claim);
    } catch (error) {
      this.#warn("A key was not marked as one whose answer is too large", error);
    }
  }

  #close(): void {
    this.#closed = true;
    if (this.#timer !== null) this.#options.clock.clearTimer(this.#timer);
    this.#timer = null;
    this.#finished.resolve();
  }

  #warn(message: string, error?: unknown): void {
    this.#options.log.warn(message, error === undefined ? {} : { error: toHubError(error) });
  }
}
