import type { AbortLike } from "../core/abort.ts";
import { type Clock, doneWithin, sleep, type Timer } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import type { JsonObject } from "../core/json.ts";
import { describeKeyEnd, type HoldKey, type KeyEnd } from "../core/key_end.ts";
import type { Log } from "../core/log.ts";
import { type Belonging, reaches } from "../core/ownership.ts";
import { cancelStored, findEnded, readResponseEvents } from "../store/background_responses.ts";
import type { Database } from "../store/database.ts";
import {
  type AskedResponse,
  readResponse,
  type ResponseKey,
  saveResponse,
  type StoredResponse,
} from "../store/responses.ts";
import { BackgroundResponse, type EventAnswer } from "./background_response.ts";

export type { EventAnswer };

/** What background responses need. */
export interface BackgroundResponsesOptions {
  db: Database;
  clock: Clock;
  log: Log;
  /** A replica that is silent for this long counts as gone. */
  leaseMs: number;
  /** Stops responses whose key ends; without it they go on. */
  holdKey?: HoldKey | undefined;
}

/** A response, with its maker's key and whose it is. */
export type OwnedResponse = ResponseKey & Belonging & { keyId: string };

/** A response to be made in the background. */
export interface BackgroundJob {
  key: OwnedResponse;
  queued: JsonObject;
  input: JsonObject[];
  previousId: string | null;
  begin(signal: AbortLike): Promise<EventAnswer>;
}

/** Background responses of one API key that a replica makes at a time, and of all keys. */
const MAX_PER_KEY = 64;
const MAX_ALL = 512;
/** Events that are the last one of a response. */
const ENDS = /^response\.(?:completed|incomplete|failed)$/;
/** How soon a response that was cancelled on another replica is stopped. */
const WATCH_MS = 100;
/** How often one replica looks for events of a response that is made on another. */
const POLL_MS = 250;

/** Responses that are made whether their clients stay or not, here and on the other replicas. */
export class BackgroundResponses {
  readonly #options: BackgroundResponsesOptions;
  readonly #live = new Map<string, BackgroundResponse>();
  #timer: Timer | null = null;
  #watching = false;
  #closed = false;

  constructor(options: BackgroundResponsesOptions) {
    this.#options = options;
  }

  /** Begins a response; it can be found from then on. */
  async start({ queued, input, previousId, ...job }: BackgroundJob): Promise<void> {
    const { key } = job;
    this.#assertRoom(key);
    const { leaseMs, db } = this.#options;
    await saveResponse(db, {
      ...key,
      target: null,
      lane: null,
      previousId,
      state: "queued",
      background: true,
      input,
      response: queued,
      items: [],
      leaseMs,
    });
    if (this.#closed) throw new HubError("shutting_down", "The hub is stopping");
    const live = new BackgroundResponse({ ...this.#options, ...job, queued });
    this.#live.set(key.responseId, live);
    const release = this.#options.holdKey?.(key.keyId, (end) => this.#end(live, end));
    void live.done.then(() => {
      release?.();
      this.#live.delete(key.responseId);
    });
    this.#watch();
  }

  /** The response as it is now, wherever it is made; null when the caller reaches none of this id. */
  async find(key: AskedResponse): Promise<StoredResponse | null> {
    const { db } = this.#options;
    const stored = await readResponse(db, key);
    const live = this.#mine(key);
    if (stored === null || live === null) return stored;
    if (live.isEnded) {
      await live.done;
      return await readResponse(db, key);
    }
    const { response } = live;
    return { ...stored, response, state: response["status"] as StoredResponse["state"] };
  }

  /** Ends a response that is in the making, and that the caller was shown to reach. */
  async cancel(key: AskedResponse): Promise<void> {
    this.#mine(key)?.stop(new HubError("aborted", "The response was cancelled"));
    await cancelStored(this.#options.db, key);
  }

  /** The events behind the one of this number, to the end. Ends early when the signal aborts. */
  async *follow(
    key: AskedResponse,
    after: number,
    signal: AbortLike,
  ): AsyncGenerator<JsonObject[], void, void> {
    const { db, clock } = this.#options;
    let at = after;
    while (!signal.aborted) {
      const live = this.#mine(key);
      // Whether it has ended is asked before its events, so that none is missed.
      const stored = live === null ? await readResponse(db, key) : null;
      const events = live === null
        ? await readResponseEvents(db, key, at)
        : await live.after(at, signal);
      if (events === null) return;
      if (events.length > 0) {
        at += events.length;
        yield events;
      } else if (stored === null) return;
      else if (stored.state === "queued" || stored.state === "in_progress") {
        await sleep(clock, POLL_MS, signal).catch(() => {});
      } else {
        const [last] = await readResponseEvents(db, key, at - 1);
        const isTold = last === undefined ? at >= 0 : ENDS.test(String(last["type"]));
        if (isTold) return;
        // Whoever made it is gone, and could not write its end.
        const type = stored.state === "failed" ? "response.failed" : "response.incomplete";
        yield [{ type, sequence_number: at + 1, response: stored.response ?? {} }];
        return;
      }
    }
  }

  /** Lets what goes on come to its end for a while, then stops it. */
  async close(graceMs: number): Promise<void> {
    this.#closed = true;
    const { clock } = this.#options;
    const all = () => Promise.all([...this.#live.values()].map(({ done }) => done));
    await doneWithin(clock, graceMs, all());
    clock.clearTimer(this.#timer);
    for (const live of this.#live.values()) {
      live.stop(new HubError("shutting_down", "The hub was stopped before the response was whole"));
    }
    await all();
  }

  #end(live: BackgroundResponse, end: KeyEnd): void {
    const { db, log } = this.#options;
    const { responseId } = live.key;
    log.warn("A background response is stopped with its API key", { id: responseId, end });
    live.stop(new HubError("aborted", `The response was stopped: ${describeKeyEnd(end)}`));
    cancelStored(db, live.key).catch((error: unknown) =>
      log.warn("A background response could not be stored as cancelled", { id: responseId, error })
    );
  }

  #mine({ responseId, ...access }: AskedResponse): BackgroundResponse | null {
    const live = this.#live.get(responseId);
    if (live?.key.tenantId !== access.tenantId) return null;
    return reaches(access, live.key) ? live : null;
  }

  #assertRoom({ keyId }: OwnedResponse): void {
    const ofKey = [...this.#live.values()].filter(({ key }) => key.keyId === keyId).length;
    if (ofKey < MAX_PER_KEY && this.#live.size < MAX_ALL) return;
    const [whose, max] = ofKey < MAX_PER_KEY ? ["The hub", MAX_ALL] : ["The API key", MAX_PER_KEY];
    throw new HubError(
      "rate_limit_exceeded",
      `${whose} has ${max} background responses under way, and no room for another`,
      { retryAfterMs: 5000 },
    );
  }

  /** Looks again and again for responses that were ended elsewhere. */
  #watch(): void {
    if (this.#watching || this.#live.size === 0) return;
    this.#watching = true;
    const { db, clock } = this.#options;
    this.#timer = clock.setTimer(async () => {
      const keys = [...this.#live.values()].map(({ key }) => key);
      try {
        for (const id of await findEnded(db, keys)) {
          this.#live.get(id)?.stop(new HubError("aborted", "The response was cancelled"));
        }
      } catch {
        // The next look may find Postgres again.
      }
      this.#watching = false;
      this.#watch();
    }, WATCH_MS);
  }
}
