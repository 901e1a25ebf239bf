import { toHubError } from "../../core/error.ts";
import type { ByteSource } from "../byte_source.ts";
import { clientLeft } from "../hub_request.ts";
import { isSource, type Outcome, type Reply } from "../reply.ts";
import {
  CHUNK_ROOM,
  type HeadOptions,
  putChunk,
  putHead,
  type ReplyFraming,
  type ScratchPool,
} from "./reply_bytes.ts";
import type { SocketRequest } from "./socket_request.ts";

/** What an exchange needs of its connection. */
export interface ExchangeOwner {
  readonly scratches: ScratchPool;
  writeHead(reply: Reply, options: HeadOptions): string;
  /** Writes everything; false when the client is gone or took nothing for too long. */
  write(bytes: Uint8Array): Promise<boolean>;
  /** True when the connection can carry another request after this one. */
  mayKeep(request: SocketRequest): boolean;
  /** Nothing more will be sent for this exchange; called once. */
  ended(): void;
  /** Breaks off the exchange and closes the connection. */
  destroy(reason: unknown): void;
}

/** A whole body up to this size goes out in one write with its head. */
const MAX_JOINED = 64 * 1024;
const LAST_CHUNK = new Uint8Array([48, 13, 10, 13, 10]);
const NO_BYTES = new Uint8Array(0);
const encoder = new TextEncoder();

/** One request and the writing of its answer to the socket. */
export class Exchange {
  readonly request: SocketRequest;
  readonly #owner: ExchangeOwner;
  #reply: Reply | null = null;
  #source: ByteSource | null = null;
  #bytesOut = 0;
  #ended = false;
  #outcome: Outcome = "done";
  #reason: unknown = undefined;

  constructor(request: SocketRequest, owner: ExchangeOwner) {
    this.request = request;
    this.#owner = owner;
    request.exchange = this;
  }

  /**
   * Writes the reply: a whole body in one go with its length, a source piece by piece as the client reads. True when all
   * of it went out and the connection can go on.
   */
  async send(reply: Reply): Promise<boolean> {
    const { body } = reply;
    if (this.#ended) {
      if (isSource(body)) body.cancel(this.#reason);
      this.#tell(reply);
      return false;
    }
    this.#reply = reply;
    if (isSource(body)) return await this.#sendSource(reply, body);
    const bytes = body === null ? NO_BYTES : typeof body === "string" ? encoder.encode(body) : body;
    const framing: ReplyFraming = allowsBody(reply.status)
      ? { kind: "length", length: bytes.length }
      : { kind: "none" };
    const keep = this.#owner.mayKeep(this.request);
    const { minor } = this.request.head;
    const head = this.#owner.writeHead(reply, { minor, framing, keep });
    const hasBody = bytes.length > 0 && framing.kind === "length" && this.request.method !== "HEAD";
    if (hasBody) this.#bytesOut = bytes.length;
    if (!await this.#sendWhole(head, hasBody ? bytes : NO_BYTES)) return this.#lost();
    this.#stop("done", undefined);
    return keep;
  }

  /** The client has closed its side or takes nothing: whatever was not sent by now never will be. */
  leave(): void {
    this.#abandon("left", clientLeft());
  }

  /** The server gives up on it. */
  cut(reason: unknown): void {
    this.#abandon("cut", reason);
  }

  /** As `HubRequest.giveUp` says. */
  giveUp(reason: unknown): void {
    if (this.#reply === null) this.request.leave(reason);
    else if (this.#source !== null) this.#owner.destroy(reason);
  }

  async #sendWhole(head: string, body: Uint8Array): Promise<boolean> {
    const { scratches } = this.#owner;
    const joined = head.length + body.length <= MAX_JOINED ? body.length : 0;
    const length = head.length + joined;
    const scratch = scratches.take(length);
    putHead(head, scratch);
    if (joined > 0) scratch.set(body, head.length);
    if (!await this.#owner.write(scratch.subarray(0, length))) return false;
    scratches.give(scratch);
    return joined === body.length || await this.#owner.write(body);
  }

  async #sendSource(reply: Reply, source: ByteSource): Promise<boolean> {
    const { minor } = this.request.head;
    // What follows is no body but another protocol, to the end of the connection (RFC 9110, 15.2.2).
    const isUpgrade = reply.status === 101;
    const hasBody = allowsBody(reply.status);
    const isBodiless = !isUpgrade && (this.request.method === "HEAD" || !hasBody);
    const chunked = minor === 1 && !isUpgrade;
    const keep = chunked && this.#owner.mayKeep(this.request);
    const kind = !hasBody ? "none" : chunked ? "chunked" : "close";
    const head = this.#owner.writeHead(reply, { minor, framing: { kind }, keep });
    if (isBodiless) source.cancel(undefined);
    else this.#source = source;
    if (isBodiless || reply.flush) {
      if (!await this.#sendWhole(head, NO_BYTES)) return this.#lost();
    }
    if (!isBodiless) {
      try {
        if (!await this.#pump(source, { head: reply.flush ? "" : head, chunked })) {
          return this.#lost();
        }
      } catch (error) {
        // A body that fails is never ended cleanly: the connection closes without the last chunk.
        this.#source = null;
        this.#stop("cut", toHubError(error));
        return false;
      }
    }
    this.#stop("done", undefined);
    return keep;
  }

  /** Writes what the source gives, the head with the first of it. False when the client left. */
  async #pump(
    source: ByteSource,
    { head, chunked }: { head: string; chunked: boolean },
  ): Promise<boolean> {
    const { scratches } = this.#owner;
    let unsent = head;
    let scratch = scratches.take(0);
    for (;;) {
      // It may have ended during the last write, or does during this pull.
      if (this.#ended) return false;
      const bytes = await source.pull();
      if (this.#ended) return false;
      if (bytes === null) break;
      if (bytes.length === 0) continue;
      this.#bytesOut += bytes.length;
      const needed = unsent.length + bytes.length + CHUNK_ROOM;
      if (scratch.length < needed) scratch = scratches.take(needed);
      const at = unsent.length;
      if (at > 0) putHead(unsent, scratch);
      unsent = "";
      let end = at + bytes.length;
      if (chunked) end = putChunk(bytes, scratch, at);
      else scratch.set(bytes, at);
      if (!await this.#owner.write(scratch.subarray(0, end))) return false;
    }
    this.#source = null;
    if (unsent !== "" && !await this.#sendWhole(unsent, NO_BYTES)) return false;
    scratches.give(scratch);
    return !chunked || await this.#owner.write(LAST_CHUNK);
  }

  #lost(): false {
    this.leave();
    return false;
  }

  #abandon(outcome: Outcome, reason: unknown): void {
    if (this.#ended) return;
    try {
      this.request.leave(reason);
    } finally {
      this.#stop(outcome, reason);
    }
  }

  #stop(outcome: Outcome, reason: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#outcome = outcome;
    this.#reason = reason;
    const source = this.#source;
    this.#source = null;
    this.#owner.ended();
    try {
      source?.cancel(reason);
    } finally {
      if (this.#reply !== null) this.#tell(this.#reply);
    }
  }

  #tell(reply: Reply): void {
    const outcome = this.#outcome;
    const bytesOut = this.#bytesOut;
    reply.listener?.ended(
      outcome === "cut" ? { outcome, bytesOut, error: this.#reason } : { outcome, bytesOut },
    );
  }
}

/** RFC 9110, 6.4.1: these have no content. */
function allowsBody(status: number): boolean {
  return status >= 200 && status !== 204 && status !== 304;
}
