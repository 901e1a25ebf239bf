import { type Clock, sleep, type Timer } from "../core/clock.ts";
import { HubError, toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import { type Access, reaches } from "../core/ownership.ts";
import type { Database } from "../store/database.ts";
import {
  type AskedResponse,
  deleteResponse,
  type NewResponse,
  readChain,
  readResponse,
  type ResponseKey,
  saveResponse,
  type StoredResponse,
} from "../store/responses.ts";

/** What keeping responses needs. */
export interface KeptResponsesOptions {
  db: Database;
  clock: Clock;
  log: Log;
}

/** How long a response that is not written yet is tried to be written. */
const PATIENCE_MS = 60_000;
const RETRY_MS = 1000;
/** Responses that may wait for Postgres at a time. */
const MAX_WAITING = 1000;
/** A response that another replica has just ended may still be on its way to Postgres. */
const LATE_MS = [100, 300];

interface Waiting {
  row: NewResponse;
  giveUpMs: number;
}

/**
 * Responses that can be found again. They are written behind the answer, and nobody waits for that: until then this
 * replica knows them by heart.
 */
export class KeptResponses {
  readonly #options: KeptResponsesOptions;
  readonly #waiting = new Map<string, Waiting>();
  readonly #writing = new Set<Promise<void>>();
  #timer: Timer | null = null;
  #closed = false;

  constructor(options: KeptResponsesOptions) {
    this.#options = options;
  }

  /** Keeps a response. */
  keep(row: NewResponse): void {
    const { clock, log } = this.#options;
    if (this.#waiting.size >= MAX_WAITING && !this.#waiting.has(placeOf(row))) {
      log.warn("A response is not kept: too many wait for Postgres", { id: row.responseId });
      return;
    }
    const waiting = { row, giveUpMs: clock.monotonic() + PATIENCE_MS };
    this.#waiting.set(placeOf(row), waiting);
    this.#write(waiting);
  }

  /** The response; null when the caller reaches none of this id. */
  async find(key: AskedResponse): Promise<StoredResponse | null> {
    const chain = await this.#late(async () => {
      const known = this.#waitingFor(key);
      if (known !== undefined) return [known.row];
      const found = await readResponse(this.#options.db, key);
      return found === null ? [] : [found];
    });
    return chain[0] ?? null;
  }

  /** The response with all those before it, oldest first; empty when the caller reaches none of this id. */
  chain(key: AskedResponse): Promise<StoredResponse[]> {
    return this.#late(async () => {
      const younger: StoredResponse[] = [];
      for (let responseId: string | null = key.responseId; responseId !== null;) {
        const known: Waiting | undefined = this.#waitingFor({ ...key, responseId });
        if (known === undefined) {
          const older = await readChain(this.#options.db, { ...key, responseId });
          return older.length === 0 ? [] : [...older, ...younger];
        }
        younger.unshift(known.row);
        responseId = known.row.previousId;
      }
      return younger;
    });
  }

  /** Forgets a response; false when the caller reaches none of this id. */
  async delete(key: AskedResponse): Promise<boolean> {
    const wasWaiting = this.#waitingFor(key) !== undefined && this.#waiting.delete(placeOf(key));
    await Promise.all(this.#writing);
    return await deleteResponse(this.#options.db, key) || wasWaiting;
  }

  /** Writes what waits, once. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#options.clock.clearTimer(this.#timer);
    await Promise.all(this.#writing);
    for (const waiting of this.#waiting.values()) this.#write(waiting);
    await Promise.all(this.#writing);
    const lost = this.#waiting.size;
    if (lost > 0) this.#options.log.warn("Responses are not kept: Postgres took none", { lost });
  }

  #waitingFor(key: Access & ResponseKey): Waiting | undefined {
    const waiting = this.#waiting.get(placeOf(key));
    if (waiting === undefined) return undefined;
    const { keyId, owner = null } = waiting.row;
    return reaches(key, { keyId, owner }) ? waiting : undefined;
  }

  #write(waiting: Waiting): void {
    const writing = this.#save(waiting).finally(() => this.#writing.delete(writing));
    this.#writing.add(writing);
  }

  async #save(waiting: Waiting): Promise<void> {
    const { db, clock, log } = this.#options;
    const { row } = waiting;
    const place = placeOf(row);
    try {
      await saveResponse(db, row);
    } catch (failure) {
      const error = toHubError(failure);
      const mayTryAgain = error.kind.retryable && clock.monotonic() < waiting.giveUpMs;
      if (mayTryAgain && this.#waiting.get(place) === waiting) return this.#arm();
      log.warn("A response is not kept", { id: row.responseId, error });
    }
    if (this.#waiting.get(place) === waiting) this.#waiting.delete(place);
  }

  /** Everything that waits is tried again in a while. */
  #arm(): void {
    if (this.#closed || this.#timer !== null) return;
    this.#timer = this.#options.clock.setTimer(() => {
      this.#timer = null;
      for (const waiting of this.#waiting.values()) this.#write(waiting);
    }, RETRY_MS);
  }

  async #late<T>(look: () => Promise<T[]>): Promise<T[]> {
    for (const delayMs of LATE_MS) {
      const found = await look();
      if (found.length > 0) return found;
      await sleep(this.#options.clock, delayMs);
    }
    return await look();
  }
}

function placeOf({ tenantId, responseId }: ResponseKey): string {
  return `${tenantId} ${responseId}`;
}

/** The error of whoever goes on from a response that is not there. */
export function previousNotFound(id: string, why = "not found"): HubError {
  return new HubError(
    "invalid_request",
    `Previous response with id '${id.slice(0, 100)}' ${why}.`,
    { param: "previous_response_id", clientCode: "previous_response_not_found" },
  );
}
