import type { Clock } from "../../core/clock.ts";
import type { Deadline, Deadlines } from "../../core/deadlines.ts";
import { type HubError, toHubError } from "../../core/error.ts";
import type { Log } from "../../core/log.ts";
import { findBlankLine, TOKEN } from "../../wire/http1/header_fields.ts";
import type { HubRequest } from "../hub_request.ts";
import { errorReply } from "../on_error.ts";
import type { Reply } from "../reply.ts";
import { Exchange, type ExchangeOwner } from "./exchange.ts";
import type { HeadOptions, ScratchPool } from "./reply_bytes.ts";
import { headersTooLarge, notHttp, parseRequestHead, type RequestHead } from "./request_head.ts";
import type { ServerLimits } from "./server_limits.ts";
import { type ServerSocket, SocketReader } from "./socket_reader.ts";
import { type RequestOwner, requestTimeout, SocketRequest } from "./socket_request.ts";

/** What all connections of a server share. */
export interface ConnectionServer {
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly log: Log;
  readonly limits: ServerLimits;
  readonly scratches: ScratchPool;
  writeHead(reply: Reply, options: HeadOptions): string;
  handle(request: HubRequest): Reply | Promise<Reply>;
  /** True once the server stops: answers then close their connection. */
  isStopping(): boolean;
  /** True once clients should go elsewhere: an answer that begins then says that its connection ends with it. */
  isLeaving(): boolean;
  exchangeBegan(): void;
  exchangeEnded(): void;
  closed(connection: ClientConnection): void;
}

const CONTINUE = new TextEncoder().encode("HTTP/1.1 100 Continue\r\n\r\n");
/** What is read of a body that nobody wanted, so that the connection can go on. */
const MAX_DISCARDED = 1024 * 1024;
/** How long a client that is sent away may take to read why, and how much of what it still sends is thrown away. */
const LINGER_MS = 5000;
const MAX_LINGERED = 64 * 1024 * 1024;
const CR = 13;
const LF = 10;

type Phase = "idle" | "head" | "body" | "answer" | "write" | "linger";

/** A client's connection: one request after another, each answered before the next one is begun. */
export class ClientConnection implements Deadline, ExchangeOwner, RequestOwner {
  dueMs = Infinity;
  place = -1;
  readonly remoteAddress: string;
  readonly reader: SocketReader;
  readonly #socket: ServerSocket;
  readonly #server: ConnectionServer;
  #phase: Phase = "idle";
  #exchange: Exchange | null = null;
  #closed = false;
  #late = false;

  constructor(socket: ServerSocket, options: { server: ConnectionServer; remoteAddress: string }) {
    this.#socket = socket;
    this.#server = options.server;
    this.remoteAddress = options.remoteAddress;
    this.reader = new SocketReader(socket, () => this.#onGone());
  }

  get scratches(): ScratchPool {
    return this.#server.scratches;
  }

  /** Serves until the connection ends. Never rejects. */
  async run(): Promise<void> {
    try {
      this.#enter("head", this.#server.limits.headersTimeoutMs);
      while (await this.#serveOne());
    } catch (error) {
      this.#server.log.error("A connection failed", { error });
    }
    this.close();
  }

  /** Closes at once; an answer under way is broken off. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#server.deadlines.remove(this);
    this.#socket.close();
    this.#server.closed(this);
    this.#abandon();
  }

  /** Breaks off what is under way because the server gives up on it. */
  destroy(reason: unknown): void {
    this.#abandon({ reason });
    this.close();
  }

  /** Closes it unless a request is being answered or sent, or an answer that sends the client away still read. */
  closeIfIdle(): void {
    const waits = this.#phase === "idle" || this.#phase === "head";
    if (waits && this.reader.size === 0) this.close();
  }

  /** Called by the deadlines. */
  expire(): void {
    switch (this.#phase) {
      case "head":
        this.#late = true;
        this.reader.giveUp();
        return;
      case "body":
        this.#exchange?.request.failBody(requestTimeout());
        return;
      default:
        this.close();
    }
  }

  writeHead(reply: Reply, options: HeadOptions): string {
    return this.#server.writeHead(reply, options);
  }

  async write(bytes: Uint8Array): Promise<boolean> {
    this.#enter("write", this.#server.limits.writeTimeoutMs);
    try {
      let at = await this.#socket.write(bytes);
      while (at < bytes.length) {
        this.#enter("write", this.#server.limits.writeTimeoutMs);
        at += await this.#socket.write(bytes.subarray(at));
      }
      return true;
    } catch {
      // The client is gone; there is nobody to tell.
      return false;
    } finally {
      this.#enter("answer", Infinity);
    }
  }

  mayKeep(request: SocketRequest): boolean {
    if (this.#server.isStopping() || this.#server.isLeaving()) return false;
    if (!request.head.keep || request.waitsForContinue) return false;
    if (request.isBodyLost) return false;
    return request.isBodyTaken || request.head.bodyLength <= MAX_DISCARDED;
  }

  ended(): void {
    this.#server.exchangeEnded();
  }

  async sendContinue(): Promise<void> {
    await this.write(CONTINUE);
  }

  awaitBody(isAwaited: boolean): void {
    if (isAwaited) return this.#enter("body", this.#server.limits.requestTimeoutMs);
    this.#enter("answer", Infinity);
    if (this.#exchange?.request.isBodyTaken) this.reader.watch();
  }

  /** Reads and answers one request; false when the connection must end. */
  async #serveOne(): Promise<boolean> {
    const head = await this.#readHead();
    if (head === null) return false;
    this.#enter("answer", Infinity);
    const request = new SocketRequest(head, this);
    const exchange = new Exchange(request, this);
    this.#exchange = exchange;
    this.#server.exchangeBegan();
    if (head.bodyLength === 0 || this.reader.size >= head.bodyLength) this.reader.watch();
    let keep = false;
    try {
      const reply = this.#server.handle(request);
      keep = await exchange.send(reply instanceof Promise ? await reply : reply);
    } catch (error) {
      this.#server.log.error("A request could not be answered", { error });
      exchange.cut(toHubError(error));
      return false;
    } finally {
      this.#exchange = null;
    }
    if (this.reader.gone || this.#closed) return false;
    if (!request.isBodyTaken && !request.isBodyLost && !request.waitsForContinue) {
      this.#enter("linger", LINGER_MS);
      keep = await request.discardBody(MAX_DISCARDED) && keep;
    }
    if (!keep || this.#server.isStopping()) {
      if (this.reader.size > 0 || !request.isBodyTaken) await this.#linger();
      return false;
    }
    this.#enter("idle", this.#server.limits.idleTimeoutMs);
    return true;
  }

  /** The next head; null when the client left or was sent away. */
  async #readHead(): Promise<RequestHead | null> {
    const { limits } = this.#server;
    let seen = 0;
    try {
      for (;;) {
        this.#skipEmptyLines();
        const bytes = this.reader.peek();
        const end = findBlankLine(bytes, seen);
        if (end > limits.maxHeaderBytes || (end < 0 && bytes.length >= limits.maxHeaderBytes)) {
          throw headersTooLarge("The request header is larger than this server reads");
        }
        if (end >= 0) return parseRequestHead(this.reader.take(end), limits.maxHeaders);
        if (bytes.length > 0) {
          assertMayBecomeHead(bytes, seen);
          if (this.#phase === "idle") this.#enter("head", limits.headersTimeoutMs);
        }
        seen = bytes.length;
        if (await this.reader.more()) continue;
        if (this.#late && this.reader.size > 0) throw requestTimeout();
        return null;
      }
    } catch (error) {
      await this.#refuse(toHubError(error));
      return null;
    }
  }

  /** RFC 9112, 2.2: some clients send an empty line behind a body. */
  #skipEmptyLines(): void {
    const bytes = this.reader.peek();
    let at = 0;
    while (bytes[at] === CR && bytes[at + 1] === LF) at += 2;
    if (at > 0) this.reader.take(at);
  }

  /** Answers bytes that never became a request, in the shape of every other error, and closes. */
  async #refuse(error: HubError): Promise<void> {
    const reply = errorReply(error);
    const body = typeof reply.body === "string" ? new TextEncoder().encode(reply.body) : null;
    const framing = { kind: "length" as const, length: body?.length ?? 0 };
    const head = this.writeHead(reply, { minor: 1, framing, keep: false });
    const bytes = new TextEncoder().encode(head);
    if (await this.write(bytes) && (body === null || await this.write(body))) await this.#linger();
    this.close();
  }

  /** Ends the sending side and throws away what still comes: closing over unread bytes would reset the connection before the answer is read. */
  async #linger(): Promise<void> {
    this.#enter("linger", LINGER_MS);
    try {
      await this.#socket.closeWrite();
    } catch {
      return;
    }
    for (let thrown = 0; thrown < MAX_LINGERED;) {
      thrown += this.reader.take(this.reader.size).length;
      if (!await this.reader.more()) return;
    }
  }

  /** A handler or a source that never settles must not keep the socket; a write under way ends by itself. */
  #onGone(): void {
    if (this.#exchange === null) return;
    this.#abandon();
    if (this.#phase !== "write") this.close();
  }

  /** Ends what is under way. Those who listen to that may throw, which must not take the server along. */
  #abandon(cut?: { reason: unknown }): void {
    try {
      if (cut === undefined) this.#exchange?.leave();
      else this.#exchange?.cut(cut.reason);
    } catch (error) {
      this.#server.log.error("A request did not end well", { error });
    }
  }

  #enter(phase: Phase, forMs: number): void {
    if (this.#closed) return;
    this.#phase = phase;
    const { deadlines, clock } = this.#server;
    deadlines.set(this, forMs === Infinity ? Infinity : clock.coarse() + forMs);
  }
}

/** Throws for bytes that no blank line will make a head of: another protocol, or bare line feeds. */
function assertMayBecomeHead(bytes: Uint8Array, seen: number): void {
  if (TOKEN[bytes[0] ?? 0] !== 1 && bytes[0] !== CR) throw notHttp("its first line has no method");
  for (let at = bytes.indexOf(LF, seen); at >= 0; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at - 1] !== CR) throw notHttp("a line of its header ends without a carriage return");
  }
}
