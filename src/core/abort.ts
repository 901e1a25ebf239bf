/** Called when a signal aborts; an object's method, so that a listener need not be a closure of its own. */
export type AbortListener = (() => void) | { handleEvent(): void };

/** What code that can be stopped needs of a signal; every `AbortSignal` is one. */
export interface AbortLike {
  readonly aborted: boolean;
  /** Why it aborted; undefined while it has not. */
  readonly reason: unknown;
  addEventListener(type: "abort", listener: AbortListener, options?: { once?: boolean }): void;
  removeEventListener(type: "abort", listener: AbortListener): void;
}

/**
 * Controller and signal in one, at a twentieth of the cost of an `AbortController` whose signal is listened to: on the
 * path of a request, where several parts must hear of a client that leaves. A listener is called once at most.
 */
export class Aborter implements AbortLike {
  #aborted = false;
  #reason: unknown = undefined;
  #first: AbortListener | null = null;
  #others: AbortListener[] | null = null;

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): unknown {
    return this.#reason;
  }

  addEventListener(_type: "abort", listener: AbortListener): void {
    if (this.#aborted || listener === this.#first || this.#others?.includes(listener)) return;
    if (this.#first === null) this.#first = listener;
    else (this.#others ??= []).push(listener);
  }

  removeEventListener(_type: "abort", listener: AbortListener): void {
    if (this.#first === listener) this.#first = null;
    else if (this.#others !== null) {
      const at = this.#others.indexOf(listener);
      if (at >= 0) this.#others.splice(at, 1);
    }
  }

  /** Aborts and calls the listeners, each of them whatever others throw; the first error is thrown on. Later calls do nothing. */
  abort(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason;
    let failure: { error: unknown } | null = null;
    for (let next = this.#next(); next !== null; next = this.#next()) {
      try {
        call(next);
      } catch (error) {
        failure ??= { error };
      }
    }
    if (failure !== null) throw failure.error;
  }

  #next(): AbortListener | null {
    const first = this.#first;
    if (first === null) return this.#others?.shift() ?? null;
    this.#first = null;
    return first;
  }
}

function call(listener: AbortListener): void {
  if (typeof listener === "function") listener();
  else listener.handleEvent();
}

/** A real `AbortSignal` that follows; for APIs of the platform and operations of users. */
export function toAbortSignal(signal: AbortLike): AbortSignal {
  if (signal instanceof AbortSignal) return signal;
  const controller = new AbortController();
  if (signal.aborted) controller.abort(signal.reason);
  else signal.addEventListener("abort", () => controller.abort(signal.reason), { once: true });
  return controller.signal;
}
