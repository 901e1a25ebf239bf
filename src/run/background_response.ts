import { Aborter, type AbortLike } from "../core/abort.ts";
import { type Clock, sleep } from "../core/clock.ts";
import { HubError, toHubError } from "../core/error.ts";
import { isJsonObject, type JsonObject } from "../core/json.ts";
import type { Log } from "../core/log.ts";
import type { Belonging } from "../core/ownership.ts";
import { toResponseError } from "../wire/openai_responses/failure.ts";
import { saveProgress } from "../store/background_responses.ts";
import type { Database } from "../store/database.ts";
import type { ResponseKey, ResponseState } from "../store/responses.ts";

/** An answer that is made of events. */
export interface EventAnswer {
  /** The next events; null when the answer is whole. Rejects when it broke off. */
  read(): Promise<JsonObject[] | null>;
  /** The response as it is now. */
  readonly response: JsonObject;
  /** Stops the provider. */
  cancel(reason: HubError): void;
}

/** What a background response is made with. */
export interface BackgroundOptions {
  key: ResponseKey & Belonging & { keyId: string };
  /** As the client was told. */
  queued: JsonObject;
  begin(signal: AbortLike): Promise<EventAnswer>;
  db: Database;
  clock: Clock;
  log: Log;
  leaseMs: number;
}

const FLUSH_MS = 200;
const RETRY_MS = 1000;
/** How long the end of a response is tried to be written. */
const PATIENCE_MS = 60_000;
/** The source's own beginning, which the client has seen already. */
const BEGINNING = "response.created";
const STATES: ReadonlySet<unknown> = new Set(["completed", "incomplete", "failed", "cancelled"]);

/** A response that is made whether somebody reads it or not. Its events are numbered from 0, and stored as they come. */
export class BackgroundResponse {
  readonly key: BackgroundOptions["key"];
  /** Resolves when nothing more will be written. */
  readonly done: Promise<void>;
  readonly #options: BackgroundOptions;
  readonly #aborter = new Aborter();
  readonly #events: JsonObject[] = [];
  readonly #readers = new Set<() => void>();
  #response: JsonObject;
  #answer: EventAnswer | null = null;
  #stored = 0;
  #ended = false;
  #wakeKeeper: () => void = () => {};

  constructor(options: BackgroundOptions) {
    this.#options = options;
    this.key = options.key;
    this.#response = options.queued;
    this.#push({ type: "response.created", response: options.queued });
    this.#push({ type: "response.queued", response: options.queued });
    this.done = Promise.all([this.#make(), this.#keep()]).then(() => {});
  }

  get response(): JsonObject {
    return this.#response;
  }

  /** Nothing more will come of it; once `done`, all replicas know how it ended. */
  get isEnded(): boolean {
    return this.#ended;
  }

  /**
   * The next events behind the one of this number; null when there are none any more. Rejects when the reader left. The
   * last one is told when it is stored: whoever knows the end may go on from it, on any replica.
   */
  async after(number: number, signal: AbortLike): Promise<JsonObject[] | null> {
    const from = number + 1;
    for (;;) {
      const upTo = this.#events.length - (this.#ended ? 1 : 0);
      if (from < upTo) return this.#events.slice(from, upTo);
      if (this.#ended) {
        await this.done;
        return from === upTo ? this.#events.slice(from) : null;
      }
      if (signal.aborted) throw new HubError("client_closed", "The client left");
      await new Promise<void>((resolve) => {
        const wake = () => {
          signal.removeEventListener("abort", wake);
          this.#readers.delete(wake);
          resolve();
        };
        this.#readers.add(wake);
        signal.addEventListener("abort", wake, { once: true });
      });
    }
  }

  /** Stops it: `aborted` for whoever asked, anything else is a failure. */
  stop(reason: HubError): void {
    if (this.#ended) return;
    this.#aborter.abort(reason);
    this.#answer?.cancel(reason);
    this.#fail(reason);
  }

  async #make(): Promise<void> {
    try {
      const answer = this.#answer = await this.#options.begin(this.#aborter);
      if (this.#aborter.aborted) return answer.cancel(toHubError(this.#aborter.reason));
      for (let events = await answer.read(); events !== null; events = await answer.read()) {
        if (this.#ended) return;
        for (const event of events) this.#take(event);
      }
      if (!this.#ended) throw new HubError("upstream_cut", "The answer ended without saying so");
    } catch (error) {
      this.#answer?.cancel(toHubError(error));
      this.#fail(toHubError(error));
    }
  }

  #take(event: JsonObject): void {
    const { type, response } = event;
    if (type === BEGINNING || this.#ended) return;
    if (isJsonObject(response)) {
      this.#response = response;
      this.#ended = STATES.has(response["status"]);
    }
    this.#push(event);
  }

  #fail(failure: HubError): void {
    if (this.#ended) return;
    this.#ended = true;
    const isCancelled = failure.code === "aborted";
    this.#response = {
      ...this.#answer?.response ?? this.#response,
      status: isCancelled ? "cancelled" : "failed",
      error: isCancelled ? null : toResponseError(failure),
    };
    if (!isCancelled) {
      const { log, key } = this.#options;
      log.info("A background response failed", { id: key.responseId, error: failure });
    }
    const type = isCancelled ? "response.incomplete" : "response.failed";
    this.#push({ type, response: this.#response });
  }

  #push(event: JsonObject): void {
    this.#events.push({ ...event, sequence_number: this.#events.length });
    for (const wake of [...this.#readers]) wake();
    if (this.#ended) this.#wakeKeeper();
  }

  async #keep(): Promise<void> {
    const { db, clock, log, key, leaseMs } = this.#options;
    let part: Parameters<typeof saveProgress>[2] | null = null;
    let untilMs = Infinity;
    let savedMs = clock.monotonic();
    for (;;) {
      const isLast = this.#ended;
      if (isLast && untilMs === Infinity) untilMs = clock.monotonic() + PATIENCE_MS;
      const isDue = isLast || this.#events.length > this.#stored ||
        clock.monotonic() - savedMs > leaseMs / 3;
      let waitMs = FLUSH_MS;
      if (isDue) {
        part ??= {
          state: this.#response["status"] as ResponseState,
          response: this.#response,
          events: this.#events.slice(this.#stored),
          seqFrom: this.#stored,
          leaseMs,
        };
        try {
          const isMine = await saveProgress(db, key, part);
          this.#stored += part.events.length;
          const wasLast = STATES.has(part.state);
          part = null;
          savedMs = clock.monotonic();
          if (wasLast) return;
          if (!isMine) this.stop(new HubError("aborted", "The response was cancelled"));
          if (this.#ended) continue;
        } catch (error) {
          if (clock.monotonic() >= untilMs) {
            log.warn("The end of a background response is not kept", {
              id: key.responseId,
              error: toHubError(error),
            });
            return;
          }
          waitMs = RETRY_MS;
        }
      }
      const early = new AbortController();
      const wake = () => early.abort();
      this.#wakeKeeper = wake;
      await sleep(clock, waitMs, early.signal).catch(() => {});
    }
  }
}
