import { Aborter, type AbortLike } from "../../core/abort.ts";
import type { BodySource } from "../../core/body_source.ts";
import { HubError } from "../../core/error.ts";
import { ChunkedBody } from "../../wire/http1/chunked_body.ts";
import { joinBytes } from "../../core/join_bytes.ts";
import { bodyTooLarge, clientLeft, type HubRequest } from "../hub_request.ts";
import { CHUNKED, notHttp, type RequestHead } from "./request_head.ts";
import type { SocketReader } from "./socket_reader.ts";

/** What a request needs of its connection. */
export interface RequestOwner {
  readonly reader: SocketReader;
  readonly remoteAddress: string;
  /** Tells the client to send its body. */
  sendContinue(): Promise<void>;
  /** The body is awaited from now on, or has come: its time runs, or is over. */
  awaitBody(isAwaited: boolean): void;
}

const NO_BYTES = new Uint8Array(0);
/** A body longer than this is read into memory that grows with what has come, not with what was announced. */
const FIRST_BYTES = 64 * 1024;
/** What is read of a body that is sent on; a client has the time for a body for as much of it. */
const STREAMED_BYTES = 64 * 1024;

/** A request on a socket. The connection tells it when the client left; see `Exchange`. */
export class SocketRequest implements HubRequest {
  readonly head: RequestHead;
  /** What answers it; sets itself here. */
  exchange: { giveUp(reason: unknown): void } | null = null;
  readonly #owner: RequestOwner;
  #waitsForContinue: boolean;
  #bodyTaken: boolean;
  #left = false;
  #leftFor: unknown = undefined;
  #isBodyLost = false;
  #abort: Aborter | null = null;
  #failBody: ((error: unknown) => void) | null = null;

  constructor(head: RequestHead, owner: RequestOwner) {
    this.head = head;
    this.#owner = owner;
    this.#waitsForContinue = head.expectsContinue;
    this.#bodyTaken = head.bodyLength === 0;
  }

  get method(): string {
    return this.head.method;
  }

  get target(): string {
    return this.head.target;
  }

  get httpVersion(): string {
    return this.head.minor === 1 ? "1.1" : "1.0";
  }

  get remoteAddress(): string {
    return this.#owner.remoteAddress;
  }

  header(name: string): string | null {
    return this.head.fields.get(name);
  }

  headersFrom(prefix: string): [string, string][] {
    return this.head.fields.startingWith([prefix]);
  }

  isRepeated(name: string): boolean {
    return this.head.fields.isRepeated(name);
  }

  /** True once the whole body was read, or when there is none. */
  get isBodyTaken(): boolean {
    return this.#bodyTaken;
  }

  /** True when the rest of the body could not be found on this connection. */
  get isBodyLost(): boolean {
    return this.#isBodyLost;
  }

  /** True while the client waits to be told to send its body (RFC 9110, 10.1.1); answered now, it may never send it. */
  get waitsForContinue(): boolean {
    return this.#waitsForContinue;
  }

  get left(): boolean {
    return this.#left;
  }

  get signal(): AbortLike {
    if (this.#abort === null) {
      this.#abort = new Aborter();
      // Whoever waits for a client that leaves may do so before the body is read.
      this.#owner.reader.watch();
      if (this.#left) this.#abort.abort(this.#leftFor);
    }
    return this.#abort;
  }

  giveUp(reason: unknown): void {
    this.exchange?.giveUp(reason);
  }

  /** The client is gone, or given up, and its answer is not whole. */
  leave(reason: unknown): void {
    if (this.#left) return;
    this.#left = true;
    this.#leftFor = reason;
    this.failBody(reason);
    this.#abort?.abort(reason);
  }

  /** Gives up waiting for the body, if it is awaited: nobody knows any more where it ends. */
  failBody(error: unknown): void {
    const fail = this.#failBody;
    if (fail === null) return;
    this.#failBody = null;
    this.#isBodyLost = true;
    fail(error);
  }

  collectBody(maxBytes: number): Promise<Uint8Array> {
    if (this.#left) return Promise.reject(this.#leftFor);
    const { bodyLength } = this.head;
    if (bodyLength === 0) return Promise.resolve(NO_BYTES);
    if (bodyLength > maxBytes) return Promise.reject(bodyTooLarge(maxBytes));
    const { reader } = this.#owner;
    if (bodyLength !== CHUNKED && reader.size >= bodyLength) {
      this.#bodyTaken = true;
      this.#waitsForContinue = false;
      // A copy, since the caller may keep it for longer than the reader's buffer is worth.
      return Promise.resolve(reader.take(bodyLength).slice());
    }
    return new Promise((resolve, reject) => {
      this.#failBody = reject;
      this.#collect(maxBytes).then((bytes) => {
        this.#failBody = null;
        resolve(bytes);
      }, (error) => this.failBody(error));
    });
  }

  streamBody(maxBytes: number): BodySource {
    const { bodyLength } = this.head;
    if (bodyLength > maxBytes) throw bodyTooLarge(maxBytes);
    const chunks = bodyLength === CHUNKED ? new ChunkedBody() : null;
    let size = 0;
    return {
      length: chunks === null ? bodyLength : null,
      pull: async () => {
        if (this.#left) throw this.#leftFor;
        if (this.#bodyTaken) return null;
        // Left in its middle, nobody could tell where it ends.
        this.#isBodyLost = true;
        const piece = await this.#inTime(() =>
          chunks === null
            ? this.#nextBytes(Math.min(STREAMED_BYTES, bodyLength - size))
            : this.#nextChunks(chunks)
        );
        size += piece.length;
        if (size > maxBytes) throw bodyTooLarge(maxBytes);
        if (chunks === null ? size === bodyLength : chunks.done) {
          this.#bodyTaken = true;
          this.#isBodyLost = false;
          this.#owner.reader.watch();
        }
        return piece.length > 0 ? piece : null;
      },
    };
  }

  async readUpgraded(): Promise<Uint8Array | null> {
    const { reader } = this.#owner;
    if (reader.size === 0 && !await reader.more()) return null;
    return reader.take(reader.size).slice();
  }

  async #nextBytes(length: number): Promise<Uint8Array> {
    const { reader } = this.#owner;
    if (reader.size >= length) return reader.take(length);
    const bytes = new Uint8Array(length);
    if (!await reader.fill(bytes, 0)) throw clientLeft();
    return bytes;
  }

  /** Empty only at the end. */
  async #nextChunks(chunks: ChunkedBody): Promise<Uint8Array> {
    const { reader } = this.#owner;
    const pieces: Uint8Array[] = [];
    for (let size = 0; size < STREAMED_BYTES && !chunks.done;) {
      if (reader.size === 0 && !await reader.more()) throw clientLeft();
      const come = reader.size;
      const piece = chunks.push(reader.peek());
      reader.take(come - (chunks.done ? chunks.surplus : 0));
      if (chunks.failure !== null) throw notHttp(`its body ${chunks.failure}`);
      size += piece.length;
      pieces.push(piece);
    }
    return joinBytes(pieces);
  }

  /** Waits for a part of the body, for as long as the server lets a client take. */
  async #inTime<T>(wait: () => Promise<T>): Promise<T> {
    const isAwaited = this.#waitsForContinue && this.#owner.reader.size === 0;
    this.#waitsForContinue = false;
    if (isAwaited) await this.#owner.sendContinue();
    this.#owner.awaitBody(true);
    const come = await new Promise<T>((resolve, reject) => {
      this.#failBody = reject;
      wait().then(resolve, reject);
    });
    this.#failBody = null;
    this.#owner.awaitBody(false);
    return come;
  }

  /** Reads on and throws away what comes, up to `maxBytes`; true when the body was whole. */
  async discardBody(maxBytes: number): Promise<boolean> {
    const { reader } = this.#owner;
    const { bodyLength } = this.head;
    if (bodyLength === CHUNKED) {
      try {
        await this.#readChunks(maxBytes, () => {});
        return true;
      } catch {
        return false;
      }
    }
    if (bodyLength > maxBytes) return false;
    for (let left = bodyLength; left > 0;) {
      if (reader.size === 0 && !await reader.more()) return false;
      left -= reader.take(Math.min(left, reader.size)).length;
    }
    return true;
  }

  async #collect(maxBytes: number): Promise<Uint8Array> {
    const { bodyLength } = this.head;
    if (this.#waitsForContinue) {
      this.#waitsForContinue = false;
      await this.#owner.sendContinue();
    }
    this.#owner.awaitBody(true);
    try {
      if (bodyLength !== CHUNKED) return await this.#readLength(bodyLength);
      const pieces: Uint8Array[] = [];
      await this.#readChunks(maxBytes, (piece) => pieces.push(piece.slice()));
      return joinBytes(pieces);
    } finally {
      if (!this.#isBodyLost) this.#owner.awaitBody(false);
    }
  }

  async #readLength(length: number): Promise<Uint8Array> {
    const { reader } = this.#owner;
    let bytes = new Uint8Array(Math.min(length, FIRST_BYTES));
    for (let filled = 0;;) {
      if (!await reader.fill(bytes, filled)) throw clientLeft();
      filled = bytes.length;
      if (filled === length) break;
      const larger = new Uint8Array(Math.min(length, filled * 4));
      larger.set(bytes);
      bytes = larger;
    }
    this.#bodyTaken = true;
    return bytes;
  }

  /** Gives each piece of the payload to `use`. */
  async #readChunks(maxBytes: number, use: (piece: Uint8Array) => void): Promise<void> {
    const { reader } = this.#owner;
    const chunks = new ChunkedBody();
    let size = 0;
    for (;;) {
      if (reader.size === 0 && !await reader.more()) throw clientLeft();
      const come = reader.size;
      const piece = chunks.push(reader.peek());
      size += piece.length;
      if (size <= maxBytes) use(piece);
      reader.take(come - (chunks.done ? chunks.surplus : 0));
      if (chunks.failure !== null) throw notHttp(`its body ${chunks.failure}`);
      if (size > maxBytes) throw bodyTooLarge(maxBytes);
      if (chunks.done) break;
    }
    this.#bodyTaken = true;
  }
}

/** The error of a request that was not whole in time. */
export function requestTimeout(): HubError {
  return new HubError("invalid_request", "The request did not arrive in time", {
    status: 408,
    clientCode: "request_timeout",
  });
}
