import { Buffer } from "node:buffer";
import type { ServerResponse } from "node:http";
import type { Clock, Timer } from "../core/clock.ts";
import type { ByteSource } from "./byte_source.ts";
import { clientLeft } from "./hub_request.ts";
import type { NodeRequest } from "./node_request.ts";
import { isSource, type Outcome, type Reply } from "./reply.ts";

/** What all exchanges of a server share. */
export interface ExchangeServer {
  clock: Clock;
  /** A client that takes nothing for this long while bytes wait for it counts as gone. */
  writeTimeoutMs: number;
  /** True once the server stops: answers then ask the client to close the connection. */
  isStopping: () => boolean;
  /** Called once, when nothing more will be sent. */
  onEnd: () => void;
}

/** What an exchange belongs to. */
export interface ExchangeOptions {
  server: ExchangeServer;
  /** Exchanges under way on the same connection; this one is in it until its end. */
  siblings: Exchange[];
}

/** How long bytes that were made before a body failed may take to leave, before the connection is reset. */
const LAST_BYTES_MS = 1000;
/** How long, and for how many bytes, a client may go on sending a body that was refused as too large. */
const LINGER_MS = 5000;
const LINGER_BYTES = 64 * 1024 * 1024;
const NO_BYTES = new Uint8Array(0);

/** One request and the writing of its answer to the socket. */
export class Exchange {
  readonly request: NodeRequest;
  readonly #response: ServerResponse;
  readonly #server: ExchangeServer;
  readonly #siblings: Exchange[];
  #reply: Reply | null = null;
  #source: ByteSource | null = null;
  #bytesOut = 0;
  #ended = false;
  #wake: (() => void) | null = null;

  constructor(request: NodeRequest, response: ServerResponse, options: ExchangeOptions) {
    this.request = request;
    this.#response = response;
    this.#server = options.server;
    this.#siblings = options.siblings;
    this.#siblings.push(this);
  }

  /** True when anything else written to the connection now would be taken for this answer. */
  get ownsConnection(): boolean {
    return this.#reply !== null || this.request.isComplete;
  }

  /** Writes the reply: a whole body in one go with its length, a source piece by piece as the client reads. */
  send(reply: Reply): void {
    this.#reply = reply;
    const { body } = reply;
    if (this.#ended) {
      if (isSource(body)) body.cancel(clientLeft());
      reply.onEnd?.({ outcome: "left", bytesOut: 0 });
      return;
    }
    const head = this.#headOf(reply);
    const response = this.#response;
    if (!isSource(body)) {
      const length = body === null ? 0 : Buffer.byteLength(body);
      if (allowsBody(reply.status)) head.push("content-length", String(length));
      response.writeHead(reply.status, head);
      this.#bytesOut = this.request.method === "HEAD" ? 0 : length;
      if (body !== null && length > 0) {
        if (this.#mustLinger(reply)) this.#linger(body);
        else this.#end(body);
      } else this.#end(undefined);
      return;
    }
    response.writeHead(reply.status, head);
    if (this.request.method === "HEAD" || !allowsBody(reply.status)) {
      body.cancel(undefined);
      return this.#end(undefined);
    }
    this.#source = body;
    if (reply.flush) response.flushHeaders();
    this.#pump(body).catch((error) => {
      this.#source = null;
      this.#cut(error);
    });
  }

  /** The connection is closed: whatever was not sent by now never will be. */
  close(): void {
    if (this.#ended) return;
    this.request.leave();
    this.#stop("left", clientLeft());
  }

  /** Breaks the connection because the server gives up on it. */
  destroy(reason: unknown): void {
    if (!this.#ended) this.#cut(reason);
  }

  #headOf(reply: Reply): string[] {
    const head: string[] = [];
    for (const name in reply.headers) {
      if (Object.hasOwn(reply.headers, name)) head.push(name, reply.headers[name] ?? "");
    }
    for (const text of reply.extra) head.push(text);
    if (
      this.#server.isStopping() || this.request.waitsForContinue || this.#mustLinger(reply)
    ) {
      head.push("connection", "close");
    }
    return head;
  }

  async #pump(source: ByteSource): Promise<void> {
    for (;;) {
      const bytes = await source.pull();
      if (this.#ended) return;
      if (bytes === null) {
        this.#source = null;
        return this.#end(undefined);
      }
      if (bytes.length === 0) continue;
      this.#bytesOut += bytes.length;
      if (this.#response.write(bytes)) continue;
      await this.#drained();
      if (this.#ended) return;
    }
  }

  #drained(): Promise<void> {
    const { clock, writeTimeoutMs } = this.#server;
    return new Promise((resolve) => {
      const timer: Timer = clock.setTimer(() => {
        this.request.leave();
        this.#stop("left", clientLeft());
        this.#reset();
      }, writeTimeoutMs);
      this.#wake = () => {
        this.#wake = null;
        clock.clearTimer(timer);
        resolve();
      };
      this.#response.once("drain", () => this.#wake?.());
    });
  }

  #end(body: Uint8Array | string | undefined): void {
    this.#response.once("finish", () => this.#stop("done", undefined));
    if (body === undefined) this.#response.end();
    else this.#response.end(body);
  }

  /** True for the answer to a body that was too large and is still coming: no next request can be had behind it. */
  #mustLinger(reply: Reply): boolean {
    return reply.status === 413 && !this.request.isComplete && !this.request.waitsForContinue;
  }

  /**
   * Sends the whole answer, but closes the connection only when the client has sent its body, or a bound is met:
   * closing over unread bytes would reset the connection before the answer is read.
   */
  #linger(body: Uint8Array | string): void {
    this.#response.write(body, () => this.#stop("done", undefined));
    this.request.discardBody(
      { clock: this.#server.clock, maxBytes: LINGER_BYTES, maxMs: LINGER_MS },
      () => this.#response.end(),
    );
  }

  /** A body that fails is never ended cleanly: what was made before may leave, then the connection is reset. */
  #cut(error: unknown): void {
    if (this.#ended) return;
    this.#stop("cut", error);
    const { socket } = this.#response;
    if (socket === null || this.#response.writableLength === 0) return this.#reset();
    const { clock } = this.#server;
    const timer = clock.setTimer(() => this.#reset(), LAST_BYTES_MS);
    // Called back once everything before it is with the kernel, or the connection is closed.
    socket.write(NO_BYTES, () => {
      clock.clearTimer(timer);
      this.#reset();
    });
  }

  /** A reset rather than an end: clients of HTTP/1.0 take the end of the connection for the end of the body. */
  #reset(): void {
    const { socket } = this.#response;
    if (socket === null) this.#response.destroy();
    else socket.resetAndDestroy();
  }

  #stop(outcome: Outcome, reason: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    const source = this.#source;
    this.#source = null;
    source?.cancel(reason);
    this.#wake?.();
    this.#siblings.splice(this.#siblings.indexOf(this), 1);
    this.#server.onEnd();
    const bytesOut = this.#bytesOut;
    this.#reply?.onEnd?.(
      outcome === "cut" ? { outcome, bytesOut, error: reason } : { outcome, bytesOut },
    );
  }
}

/** RFC 9110, 6.4.1: these have no content. */
function allowsBody(status: number): boolean {
  return status >= 200 && status !== 204 && status !== 304;
}
