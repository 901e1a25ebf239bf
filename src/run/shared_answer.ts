import { HubError } from "../core/error.ts";

/** What an answer has before its bytes. */
export interface AnswerHead {
  contentType: string;
  headers: Readonly<Record<string, string>>;
}

/** One request's view of an answer. */
export interface AnswerReader {
  /** Rejects when there is no answer, with the reason. */
  readonly begun: Promise<AnswerHead>;
  /** True when the answer was asked for by another request. */
  readonly replayed: boolean;
  /** The next bytes; null when the answer is whole. Rejects when it broke off. One read at a time. */
  read(): Promise<Uint8Array | null>;
  /** Reads no more; idempotent. */
  close(): void;
}

/** Largest answer that is kept, in bytes. */
export const MAX_KEPT_BYTES = 4 * 1024 * 1024;

/** The error of whoever asks for an answer that was too large to be kept. */
export function tooLarge(): HubError {
  return new HubError(
    "conflict",
    `The answer under this Idempotency-Key has over ${MAX_KEPT_BYTES} bytes and was not kept: ask with a new key`,
    { clientCode: "idempotency_answer_too_large" },
  );
}

/**
 * An answer that is made once and read by several requests, each at its own pace. Its maker goes as fast as the fastest
 * reader. All of it is held for those who come later, up to a bound: past it only the oldest reader goes on.
 */
export class SharedAnswer {
  readonly #begun = Promise.withResolvers<AnswerHead>();
  readonly #readers = new Set<Reader>();
  readonly #onGone: () => void;
  #pieces: Uint8Array[] = [];
  /** Pieces in front of `#pieces` that nobody needs any more. */
  #dropped = 0;
  #size = 0;
  #end: "whole" | HubError | null = null;
  #flow: "asked" | "unasked" | "stopped" = "asked";
  #overflown = false;
  #came = 0;
  #onIdle: (() => void) | null = null;
  #wakeMaker: (() => void) | null = null;

  /** `onGone` is called when nobody new may come: it failed, or all have left it. */
  constructor(onGone: () => void) {
    this.#onGone = onGone;
    this.#begun.promise.catch(() => {});
  }

  get begun(): Promise<AnswerHead> {
    return this.#begun.promise;
  }

  get isIdle(): boolean {
    return this.#readers.size === 0;
  }

  /** True when it became too large to be held whole. */
  get isOverflown(): boolean {
    return this.#overflown;
  }

  /** Every answer is a replay to all its readers, unless it is asked for here: then to all but the first. */
  replays = true;

  attach(): AnswerReader {
    const reader = new Reader(this, this.#came++);
    if (this.#overflown) reader.fail(tooLarge());
    else this.#readers.add(reader);
    return reader;
  }

  /** Calls back when the last reader leaves an answer that goes on; at once when it has. */
  onIdle(callback: () => void): void {
    this.#onIdle = callback;
    if (this.isIdle) callback();
  }

  /** The head is there. */
  begin(head: AnswerHead): void {
    this.#begun.resolve(head);
  }

  /** For its maker: resolves when more is wanted; false when it is to stop. */
  async demand(): Promise<boolean> {
    while (this.#flow === "asked" && !this.#isHungry()) {
      await new Promise<void>((resolve) => this.#wakeMaker = resolve);
    }
    return this.#flow !== "stopped";
  }

  /** It is made to its end although nobody reads it here. */
  drain(): void {
    if (this.#flow === "asked") this.#flow = "unasked";
    this.wakeMaker();
  }

  /** Its maker gets no further demand. */
  stop(): void {
    this.#flow = "stopped";
    this.wakeMaker();
  }

  /** The next bytes. */
  push(bytes: Uint8Array): void {
    // The bound is on what was there already: a whole answer may be larger than any.
    if (this.#size >= MAX_KEPT_BYTES) this.#overflow();
    this.#size += bytes.length;
    this.#pieces.push(bytes);
    this.#wakeReaders();
  }

  /** It is whole. */
  end(): void {
    this.#end = "whole";
    this.#wakeReaders();
  }

  /** Whoever asks from now on asks anew. */
  forget(): void {
    this.#onGone();
  }

  /** It broke off, or never began. */
  fail(error: HubError): void {
    this.#end ??= error;
    this.forget();
    this.#begun.reject(error);
    this.#wakeReaders();
  }

  /** For a reader: the piece of this number, how it ended, or null when nothing is there yet. */
  look(index: number): Uint8Array | "whole" | HubError | null {
    const piece = this.#pieces[index - this.#dropped] ?? this.#end;
    if (this.#overflown && this.#dropped < index) {
      this.#pieces.splice(0, index - this.#dropped);
      this.#dropped = index;
    }
    return piece;
  }

  /** For a reader that leaves. */
  detach(reader: Reader): void {
    if (!this.#readers.delete(reader) || !this.isIdle || this.#end !== null) return;
    this.forget();
    this.#onIdle?.();
  }

  /** For a reader that waits. */
  wakeMaker(): void {
    const wake = this.#wakeMaker;
    this.#wakeMaker = null;
    wake?.();
  }

  #isHungry(): boolean {
    for (const reader of this.#readers) if (reader.waits) return true;
    return false;
  }

  #overflow(): void {
    if (this.#overflown) return;
    this.#overflown = true;
    const [, ...others] = this.#readers;
    for (const reader of others) {
      this.#readers.delete(reader);
      reader.fail(tooLarge());
    }
  }

  #wakeReaders(): void {
    for (const reader of this.#readers) reader.wake();
  }
}

class Reader implements AnswerReader {
  readonly #shared: SharedAnswer;
  readonly #number: number;
  #next = 0;
  #failure: HubError | null = null;
  #wake: (() => void) | null = null;

  constructor(shared: SharedAnswer, number: number) {
    this.#shared = shared;
    this.#number = number;
  }

  get begun(): Promise<AnswerHead> {
    return this.#shared.begun;
  }

  get replayed(): boolean {
    return this.#shared.replays || this.#number > 0;
  }

  /** True while it has read everything and waits for more. */
  get waits(): boolean {
    return this.#wake !== null;
  }

  async read(): Promise<Uint8Array | null> {
    for (;;) {
      if (this.#failure !== null) throw this.#failure;
      const found = this.#shared.look(this.#next);
      if (found === "whole") return null;
      if (found instanceof HubError) throw found;
      if (found !== null) {
        this.#next++;
        return found;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        this.#shared.wakeMaker();
      });
    }
  }

  close(): void {
    this.#failure ??= new HubError("client_closed", "The client left");
    this.#shared.detach(this);
    this.wake();
  }

  wake(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }

  fail(error: HubError): void {
    this.#failure = error;
    this.wake();
  }
}
