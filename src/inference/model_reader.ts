import { nextTurn } from "../core/next_turn.ts";
import type { CallModel, ModelCallContext, ModelEvent, ModelRequest } from "../core/model.ts";

/** Reads one model call, one network read ahead, and lets go at once when the run is stopped. */
export class ModelReader {
  readonly #runSignal: AbortSignal;
  readonly #controller = new AbortController();
  readonly #stop = () => {
    const { reason } = this.#runSignal;
    this.#controller.abort(reason);
    this.#rejectRead?.(reason);
  };
  readonly #iterator: AsyncIterator<ModelEvent[]> | null;
  #next: Promise<IteratorResult<ModelEvent[]>>;
  #finished = false;
  /** Rejects the read that waits; one listener a call serves all its reads. */
  #rejectRead: ((reason: unknown) => void) | null = null;

  /** Starts the call. A failure to start shows at the first `read`. */
  constructor(
    callModel: CallModel,
    request: ModelRequest,
    context: ModelCallContext,
  ) {
    this.#runSignal = context.signal;
    if (this.#runSignal.aborted) this.#stop();
    else this.#runSignal.addEventListener("abort", this.#stop, { once: true });
    let iterator: AsyncIterator<ModelEvent[]> | null = null;
    try {
      const answer = callModel(request, { ...context, signal: this.#controller.signal });
      iterator = answer[Symbol.asyncIterator]();
      this.#next = iterator.next();
    } catch (error) {
      this.#next = Promise.reject(error);
    }
    this.#iterator = iterator;
    this.#next.catch(ignore);
  }

  /** The events of the next read; null after the last. Rejects when the call fails, or with the run's abort reason. */
  async read(): Promise<ModelEvent[] | null> {
    const result = await this.#orAbort(this.#next);
    if (result.done === true || this.#iterator === null) {
      this.#finished = true;
      return null;
    }
    this.#next = this.#iterator.next();
    this.#next.catch(ignore);
    return result.value;
  }

  /** Reads what comes after the answer's end, so that the call ends by itself. Never rejects: the answer is whole. */
  async drain(): Promise<void> {
    try {
      while (await this.read() !== null);
    } catch {
      this.#finished = !this.#runSignal.aborted;
    }
  }

  /** Ends the call if it still runs, and gives it a turn of the event loop to tell what it has used. */
  async close(): Promise<void> {
    this.#runSignal.removeEventListener("abort", this.#stop);
    if (this.#finished) return;
    this.#finished = true;
    this.#controller.abort(
      this.#runSignal.reason ?? new Error("The answer is not wanted any more"),
    );
    this.#iterator?.return?.().catch(ignore);
    await nextTurn();
  }

  #orAbort<T>(promise: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#runSignal.aborted) return reject(this.#runSignal.reason);
      this.#rejectRead = reject;
      promise.then(resolve, reject);
    });
  }
}

function ignore(): void {}
