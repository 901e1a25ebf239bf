import assert from "node:assert/strict";
import { Deadlines } from "../../../src/core/deadlines.ts";
import { SILENT_LOG } from "../../../src/core/log.ts";
import type { HubRequest } from "../../../src/http/hub_request.ts";
import type { Reply } from "../../../src/http/reply.ts";
import {
  ClientConnection,
  type ConnectionServer,
} from "../../../src/http/server/client_connection.ts";
import { createHeadWriter, ScratchPool } from "../../../src/http/server/reply_bytes.ts";
import { DEFAULT_SERVER_LIMITS } from "../../../src/http/server/server_limits.ts";
import type { ServerSocket } from "../../../src/http/server/socket_reader.ts";
import { createFakeClock, type FakeClock } from "../../support/fake_clock.ts";

/** How a memory client takes bytes. */
export interface TakingOptions {
  /** Bytes taken by each write; all of them unless told. */
  sizes?: readonly number[];
  /** Turns of the microtask queue before a write is done. */
  delay?: number;
}

/**
 * The client's side of a socket in memory. It notes a second read or write while one is under way, and takes the bytes
 * of a write only when the write ends, so that a buffer used again too early shows.
 */
export class MemoryClient implements ServerSocket {
  text = "";
  /** What no server may do to a socket. */
  readonly faults: string[] = [];
  closed = false;
  /** While true writes wait. */
  stuck = false;
  readonly #sizes: readonly number[];
  readonly #delay: number;
  #writes = 0;
  #writing = false;
  #incoming: Uint8Array[] = [];
  #isOver = false;
  #pending:
    | { into: Uint8Array; resolve: (n: number | null) => void; reject: (e: Error) => void }
    | null = null;
  #failWrite: ((error: Error) => void) | null = null;
  writesClosed = false;

  constructor({ sizes = [], delay = 0 }: TakingOptions = {}) {
    this.#sizes = sizes;
    this.#delay = delay;
  }

  /** Bytes of the client; null is its end. */
  deliver(bytes: Uint8Array | null): void {
    if (bytes === null) this.#isOver = true;
    else if (bytes.length > 0) this.#incoming.push(bytes.slice());
    this.#feed();
  }

  read(into: Uint8Array): Promise<number | null> {
    if (this.#pending !== null) return this.#fault("two reads are under way");
    if (into.length === 0) return this.#fault("a read into nothing");
    if (this.closed) return Promise.reject(new Deno.errors.BadResource("closed"));
    return new Promise((resolve, reject) => {
      this.#pending = { into, resolve, reject };
      this.#feed();
    });
  }

  async write(bytes: Uint8Array): Promise<number> {
    if (this.#writing) return this.#fault("two writes are under way");
    if (bytes.length === 0) return this.#fault("a write of nothing");
    if (this.writesClosed) return this.#fault("a write behind the end");
    if (this.closed) throw new Deno.errors.BadResource("closed");
    this.#writing = true;
    try {
      for (let turn = 0; turn < this.#delay; turn++) await Promise.resolve();
      if (this.stuck) await new Promise<void>((_, reject) => this.#failWrite = reject);
      if (this.closed) throw new Deno.errors.Interrupted("closed");
      const size = this.#sizes[this.#writes++ % this.#sizes.length] ?? bytes.length;
      const count = Math.min(bytes.length, Math.max(1, size));
      this.text += new TextDecoder("latin1").decode(bytes.subarray(0, count));
      return count;
    } finally {
      this.#writing = false;
    }
  }

  closeWrite(): Promise<void> {
    this.writesClosed = true;
    return Promise.resolve();
  }

  close(): void {
    if (this.closed) this.faults.push("closed twice");
    this.closed = true;
    const pending = this.#pending;
    this.#pending = null;
    pending?.reject(new Deno.errors.Interrupted("closed"));
    this.#failWrite?.(new Deno.errors.Interrupted("closed"));
  }

  #fault(what: string): Promise<never> {
    this.faults.push(what);
    return Promise.reject(new Error(what));
  }

  #feed(): void {
    const pending = this.#pending;
    if (pending === null) return;
    const piece = this.#incoming[0];
    if (piece === undefined) {
      if (!this.#isOver) return;
      this.#pending = null;
      return pending.resolve(null);
    }
    this.#pending = null;
    const count = Math.min(piece.length, pending.into.length);
    pending.into.set(piece.subarray(0, count));
    if (count === piece.length) this.#incoming.shift();
    else this.#incoming[0] = piece.subarray(count);
    pending.resolve(count);
  }
}

/** A server without a listener, and what it counted. */
export class MemoryServer implements ConnectionServer {
  readonly clock: FakeClock = createFakeClock();
  readonly deadlines = new Deadlines(this.clock);
  readonly log = SILENT_LOG;
  readonly limits = DEFAULT_SERVER_LIMITS;
  readonly scratches = new ScratchPool();
  readonly writeHead = createHeadWriter(this.clock, 75_000);
  readonly handle: (request: HubRequest) => Reply | Promise<Reply>;
  readonly open = new Set<ClientConnection>();
  stopping = false;
  active = 0;

  constructor(handle: (request: HubRequest) => Reply | Promise<Reply>) {
    this.handle = handle;
  }

  isStopping(): boolean {
    return this.stopping;
  }

  isLeaving(): boolean {
    return false;
  }

  exchangeBegan(): void {
    this.active++;
  }

  exchangeEnded(): void {
    this.active--;
    assert.ok(this.active >= 0, "an exchange ended twice");
  }

  closed(connection: ClientConnection): void {
    this.open.delete(connection);
  }

  /** Serves a client; `ran` resolves when the connection's loop has ended. */
  serve(client: MemoryClient): { connection: ClientConnection; ran: Promise<void> } {
    const connection = new ClientConnection(client, { server: this, remoteAddress: "127.0.0.1" });
    this.open.add(connection);
    return { connection, ran: connection.run() };
  }
}

/** One answer as a client reads it. */
export interface ReadAnswer {
  status: number;
  head: string;
  body: string;
}

/** The answers in a text, interim ones left out; null when the last one is not whole. */
export function readAnswers(text: string): ReadAnswer[] | null {
  const answers: ReadAnswer[] = [];
  let at = 0;
  while (at < text.length) {
    const end = text.indexOf("\r\n\r\n", at);
    if (end < 0) return null;
    const head = text.slice(at, end);
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1]);
    assert.ok(status >= 100, `no status in ${JSON.stringify(head.slice(0, 80))}`);
    at = end + 4;
    if (status < 200) continue;
    let body = "";
    const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
    if (length !== undefined) {
      body = text.slice(at, at += Number(length));
      if (body.length < Number(length)) return null;
    } else if (/\r\ntransfer-encoding: chunked/i.test(head)) {
      for (;;) {
        const line = text.indexOf("\r\n", at);
        if (line < 0) return null;
        const size = parseInt(text.slice(at, line), 16);
        if (text.length < line + 2 + size + 2) return null;
        body += text.slice(line + 2, line + 2 + size);
        at = line + 2 + size + 2;
        if (size === 0) break;
      }
    }
    answers.push({ status, head, body });
  }
  return answers;
}
