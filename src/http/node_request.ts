import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../core/clock.ts";
import { bodyTooLarge, clientLeft, type HubRequest, joinBytes } from "./hub_request.ts";

const NO_BYTES = new Uint8Array(0);

/** A request of `node:http`. The server tells it when the client left; see `Exchange`. */
export class NodeRequest implements HubRequest {
  readonly method: string;
  readonly target: string;
  readonly #message: IncomingMessage;
  readonly #response: ServerResponse;
  #waitsForContinue: boolean;
  #left = false;
  #abort: AbortController | null = null;
  #onLeft: (() => void) | null = null;
  #collecting: ((error: unknown) => void) | null = null;

  constructor(
    message: IncomingMessage,
    response: ServerResponse,
    options: { expectsContinue: boolean },
  ) {
    this.#message = message;
    this.#response = response;
    this.#waitsForContinue = options.expectsContinue;
    this.method = message.method ?? "";
    this.target = message.url ?? "";
  }

  get httpVersion(): string {
    return this.#message.httpVersion;
  }

  get remoteAddress(): string {
    return this.#message.socket.remoteAddress ?? "";
  }

  get headerCount(): number {
    return this.#message.rawHeaders.length / 2;
  }

  header(name: string): string | null {
    const value = this.#message.headers[name];
    return value === undefined ? null : typeof value === "string" ? value : value.join(", ");
  }

  isRepeated(name: string): boolean {
    const raw = this.#message.rawHeaders;
    let count = 0;
    for (let at = 0; at < raw.length; at += 2) {
      const header = raw[at] ?? "";
      if (header.length === name.length && header.toLowerCase() === name) count++;
    }
    return count > 1;
  }

  /** True once the whole request has arrived. */
  get isComplete(): boolean {
    return this.#message.complete;
  }

  get left(): boolean {
    return this.#left;
  }

  get signal(): AbortSignal {
    if (this.#abort === null) {
      this.#abort = new AbortController();
      if (this.#left) this.#abort.abort(clientLeft());
    }
    return this.#abort.signal;
  }

  /** Calls back once if the client leaves before its answer is whole; cheaper than the signal. */
  set onLeft(callback: () => void) {
    this.#onLeft = callback;
  }

  /** The client is gone and its answer is not whole. */
  leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#collecting?.(clientLeft());
    this.#abort?.abort(clientLeft());
    this.#onLeft?.();
  }

  collectBody(maxBytes: number): Promise<Uint8Array> {
    if (this.#left) return Promise.reject(clientLeft());
    const length = this.header("content-length");
    const chunked = this.header("transfer-encoding") !== null;
    if (length === null && !chunked) return Promise.resolve(NO_BYTES);
    if (length !== null && Number(length) > maxBytes) return Promise.reject(bodyTooLarge(maxBytes));
    if (this.#waitsForContinue) {
      this.#waitsForContinue = false;
      this.#response.writeContinue();
    }
    return new Promise((resolve, reject) => {
      const pieces: Uint8Array[] = [];
      let size = 0;
      const onData = (piece: Uint8Array) => {
        size += piece.length;
        if (size > maxBytes) fail(bodyTooLarge(maxBytes));
        else pieces.push(piece);
      };
      const onEnd = () => {
        this.#collecting = null;
        resolve(joinBytes(pieces, size));
      };
      const fail = (error: unknown) => {
        this.#collecting = null;
        this.#message.removeListener("data", onData);
        this.#message.removeListener("end", onEnd);
        pieces.length = 0;
        reject(error);
      };
      this.#collecting = fail;
      this.#message.on("data", onData);
      this.#message.on("end", onEnd);
    });
  }

  /** Reads and drops the rest of the body; calls back once, at its end, at a bound, or when the connection is closed. */
  discardBody(
    { clock, maxBytes, maxMs }: { clock: Clock; maxBytes: number; maxMs: number },
    onEnd: () => void,
  ): void {
    const message = this.#message;
    let size = 0;
    const onData = (piece: Uint8Array) => {
      size += piece.length;
      if (size > maxBytes) end();
    };
    const end = () => {
      clock.clearTimer(timer);
      message.removeListener("data", onData);
      message.removeListener("end", end);
      message.socket.removeListener("close", end);
      onEnd();
    };
    const timer = clock.setTimer(end, maxMs);
    message.on("data", onData);
    message.on("end", end);
    message.socket.on("close", end);
  }

  /** True while the client waits to be told to send its body (RFC 9110, 10.1.1); answered now, it may never send it. */
  get waitsForContinue(): boolean {
    return this.#waitsForContinue;
  }
}
