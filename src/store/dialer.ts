import { connect, type Socket } from "node:net";
import { type Clock, sleep } from "../core/clock.ts";

/** Where the driver would connect to: one of several hosts, or a path. */
export interface Address {
  host: string[];
  port: number[];
  path: string | false;
}

const FIRST_PAUSE_MS = 50;
const LAST_PAUSE_MS = 1000;
/** Hang-ups further apart have nothing to do with each other. */
const FORGET_MS = 10_000;
/** A request to cancel a statement gets no answer but the end of its connection. */
const CANCEL_BYTES = 16;

/**
 * Connects for the driver's pools. By itself the driver connects anew at once, 200 times a second with each connection, for
 * as long as a statement waits, to an address that hangs up before it says anything: its `backoff` is not asked then.
 * Here each round of hang-ups is followed by a pause.
 */
export class Dialer {
  readonly #clock: Clock;
  #rounds = 0;
  #dueMs = -Infinity;
  #turn = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A socket that connects; rejects when the signal aborts before its turn. */
  async dial({ host: hosts, port: ports, path }: Address, signal: AbortSignal): Promise<Socket> {
    const pauseMs = this.#dueMs - this.#clock.monotonic();
    if (pauseMs > 0) await sleep(this.#clock, pauseMs, signal);
    signal.throwIfAborted();
    const at = this.#turn++ % hosts.length;
    const host = hosts[at] ?? "localhost";
    const socket = path === false || path === ""
      ? connect({ host, port: ports[at] ?? 5432 })
      : connect({ path });
    socket.once("close", (hadError) => {
      // Of a single address the driver tells the statement, and waits by itself.
      if (!hadError || hosts.length > 1) this.#ended(socket);
    });
    // The name that its certificate is for.
    return Object.assign(socket, { host });
  }

  #ended({ bytesRead, bytesWritten }: Socket): void {
    if (bytesRead > 0 || bytesWritten === CANCEL_BYTES) return;
    const nowMs = this.#clock.monotonic();
    if (nowMs < this.#dueMs) return;
    if (nowMs - this.#dueMs > FORGET_MS) this.#rounds = 0;
    this.#dueMs = nowMs + Math.min(LAST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#rounds++);
  }
}
