import type { AbortLike } from "../../core/abort.ts";
import type { BodySource } from "../../core/body_source.ts";
import { HubError, toHubError } from "../../core/error.ts";
import { WorkStretch } from "../../core/next_turn.ts";
import type { UpstreamResponse } from "../transport.ts";
import { ChunkedBody } from "../../wire/http1/chunked_body.ts";
import { type Framing, malformedBody, planBody } from "./body_plan.ts";
import type { Connection } from "./connection.ts";
import { abortedError } from "./dial.ts";
import { writeSource } from "./write_source.ts";
import type { RequestBytes } from "./request_bytes.ts";
import {
  findHeadEnd,
  MAX_HEAD_BYTES,
  NO_HEAD,
  parseHead,
  type ResponseHead,
} from "./response_head.ts";

/** What an exchange needs to know. */
export interface ExchangeOptions {
  connection: Connection;
  method: string;
  /** `host:port`, for messages. */
  label: string;
  signal: AbortLike;
  /** Takes the connection back after a whole answer; `head` may say how long it can lie idle. */
  keep(connection: Connection, head: ResponseHead): void;
}

const NOTHING = new Uint8Array(0);
/** Bytes of an answer that are read between two turns of the event loop. */
const STRETCH_BYTES = 128 * 1024;
const NO_BODY: Framing = { kind: "none" };

/** One request and its answer on one connection. Listens to the signal until the answer is whole. */
export class Exchange implements UpstreamResponse {
  readonly #method: string;
  readonly #label: string;
  readonly #signal: AbortLike;
  readonly #keep: ExchangeOptions["keep"];
  readonly #stretch = new WorkStretch(STRETCH_BYTES);
  /** Null once it is given back or closed. */
  #connection: Connection | null;
  #head: ResponseHead = NO_HEAD;
  #framing: Framing = NO_BODY;
  #chunks: ChunkedBody | null = null;
  /** Body bytes still to come, when a length is known. */
  #left = 0;
  #ready: Uint8Array = NOTHING;
  #keepable = false;
  #written = false;
  #answered = false;
  #whole = false;
  #cancelled = false;
  #failure: HubError | null = null;

  constructor(options: ExchangeOptions) {
    this.#connection = options.connection;
    this.#method = options.method;
    this.#label = options.label;
    this.#signal = options.signal;
    this.#keep = options.keep;
    options.signal.addEventListener("abort", this);
    if (options.signal.aborted) this.cancel();
  }

  get status(): number {
    return this.#head.status;
  }

  /** A byte of an answer has come. */
  get answered(): boolean {
    return this.#answered;
  }

  get cancelled(): boolean {
    return this.#cancelled;
  }

  /** Coding of the content (`gzip` …), or null. Set by `start`. */
  coding: string | null = null;

  header(name: string): string | null {
    return this.#head.fields.get(name);
  }

  get headers(): [string, string][] {
    return this.#head.fields.pairs();
  }

  headersStartingWith(prefixes: readonly string[]): [string, string][] {
    return this.#head.fields.startingWith(prefixes);
  }

  /** Called by the signal. */
  handleEvent(): void {
    this.cancel();
  }

  /** Sends the request and reads up to the end of the answer's head; interim answers (1xx) are passed over. */
  async start(request: RequestBytes, source?: BodySource): Promise<void> {
    const connection = this.#connection;
    if (connection === null) throw abortedError(this.#signal);
    // Not awaited: a server may answer, and close, before it has read a large body.
    this.#write(connection, request, source);
    let bytes: Uint8Array = NOTHING;
    let seen = 0;
    let interim = 0;
    try {
      for (;;) {
        const count = await connection.read();
        if (count === null) throw this.#cut("ended before the head of an answer was whole");
        this.#answered = true;
        bytes = join(bytes, connection.taken(count));
        for (;;) {
          const end = findHeadEnd(bytes, seen);
          if (end < 0) break;
          const head = parseHead(bytes.subarray(0, end));
          bytes = bytes.subarray(end);
          if (head.status >= 200) return this.#begin(head, bytes);
          interim += end;
          seen = 0;
          if (head.status === 101 || interim > MAX_HEAD_BYTES) {
            throw new HubError(
              "upstream_malformed",
              `${this.#label} answered with ${head.status}, which nobody asked for`,
            );
          }
        }
        seen = bytes.length;
      }
    } catch (error) {
      throw this.#broken(error);
    }
  }

  async read(): Promise<Uint8Array | null> {
    for (;;) {
      if (this.#cancelled) throw abortedError(this.#signal);
      const ready = this.#ready;
      if (ready.length > 0) {
        this.#ready = NOTHING;
        // Bytes that are there already come without a turn of the event loop.
        await this.#stretch.spend(ready.length);
        if (this.#cancelled) throw abortedError(this.#signal);
        return ready;
      }
      if (this.#whole) return null;
      const connection = this.#connection;
      if (this.#failure !== null || connection === null) throw this.#broken(this.#failure);
      let count: number | null;
      try {
        count = await connection.read(this.#left);
      } catch (error) {
        throw this.#broken(error);
      }
      if (this.#cancelled) throw abortedError(this.#signal);
      if (count === null) {
        if (this.#framing.kind !== "close") {
          throw this.#broken(this.#cut("ended before the body of the answer was whole"));
        }
        this.#finish(0);
        return null;
      }
      this.#take(connection.taken(count));
    }
  }

  cancel(): void {
    if (this.#cancelled) return;
    this.#cancelled = true;
    this.#ready = NOTHING;
    this.#close();
  }

  async #write(
    connection: Connection,
    request: RequestBytes,
    source: BodySource | undefined,
  ): Promise<void> {
    try {
      await connection.write(request.bytes);
      if (request.tail !== null) await connection.write(request.tail);
      request.release();
      if (source !== undefined) {
        await writeSource(connection, source, (error) => {
          // Half a request: nobody may take it for a whole one, nor what follows for its rest.
          if (!this.#answered) this.#failure ??= toHubError(error);
          this.#close();
        });
      }
      this.#written = true;
    } catch {
      // The read of the answer ends too, and tells what came: an early answer, or the end.
    }
  }

  #begin(head: ResponseHead, rest: Uint8Array): void {
    const plan = planBody(head, this.#method);
    this.#head = head;
    this.#framing = plan.framing;
    this.#keepable = plan.keep;
    this.coding = plan.coding;
    if (plan.framing.kind === "none") return this.#finish(rest.length);
    if (plan.framing.kind === "length") this.#left = plan.framing.length;
    if (plan.framing.kind === "chunked") this.#chunks = new ChunkedBody();
    if (rest.length > 0) this.#take(rest);
  }

  /** Takes the framing off a piece and puts the rest into `#ready`. */
  #take(piece: Uint8Array): void {
    const chunks = this.#chunks;
    if (chunks !== null) {
      this.#ready = chunks.push(piece);
      if (chunks.failure !== null) this.#failure = malformedBody(chunks.failure);
      if (chunks.done) this.#finish(chunks.surplus);
    } else if (this.#framing.kind === "length") {
      const surplus = piece.length - this.#left;
      this.#ready = surplus > 0 ? piece.subarray(0, this.#left) : piece;
      this.#left -= this.#ready.length;
      if (this.#left === 0) this.#finish(surplus);
    } else this.#ready = piece;
  }

  /** The answer is whole. Bytes behind its end mean that nobody knows where the next answer begins. */
  #finish(surplus: number): void {
    this.#whole = true;
    const connection = this.#connection;
    if (connection === null || !this.#keepable || surplus > 0 || !this.#written) {
      return this.#close();
    }
    this.#connection = null;
    this.#signal.removeEventListener("abort", this);
    this.#keep(connection, this.#head);
  }

  #close(): void {
    this.#signal.removeEventListener("abort", this);
    this.#connection?.close();
    this.#connection = null;
  }

  #cut(how: string): HubError {
    return new HubError("upstream_cut", `The connection to the upstream ${how}`, {
      details: { address: this.#label },
    });
  }

  /** Closes the connection and turns whatever happened into the error for the caller. */
  #broken(error: unknown): HubError {
    this.#close();
    if (this.#cancelled) return abortedError(this.#signal);
    if (this.#failure !== null) return this.#failure;
    const failure = error instanceof HubError
      ? error
      : new HubError("upstream_cut", "The connection to the upstream broke", {
        details: { address: this.#label },
        cause: error,
      });
    this.#failure = failure;
    return failure;
  }
}

/** Two pieces as one. Pieces of one buffer lie side by side, so that mostly nothing is copied. */
function join(before: Uint8Array, after: Uint8Array): Uint8Array {
  if (before.length === 0) return after;
  const length = before.length + after.length;
  if (before.buffer === after.buffer && before.byteOffset + before.length === after.byteOffset) {
    return new Uint8Array(before.buffer, before.byteOffset, length);
  }
  const joined = new Uint8Array(length);
  joined.set(before);
  joined.set(after, before.length);
  return joined;
}
