import type { Clock, Timer } from "../../core/clock.ts";
import type { Connection } from "./connection.ts";

/** Bounds of the pool. */
export interface IdlePoolOptions {
  clock: Clock;
  /** Connections kept per origin; further ones are closed. */
  maxIdlePerOrigin: number;
}

/**
 * Connections that wait for their next request. The one used last is taken first, so that the ones a burst needed grow
 * old and are closed. One timer serves all, and only while something waits.
 */
export class IdlePool {
  readonly #clock: Clock;
  readonly #maxIdle: number;
  readonly #idle = new Map<string, Connection[]>();
  #count = 0;
  #timer: Timer | null = null;

  constructor(options: IdlePoolOptions) {
    this.#clock = options.clock;
    this.#maxIdle = options.maxIdlePerOrigin;
  }

  /** Number of waiting connections. */
  get size(): number {
    return this.#count;
  }

  /** The youngest connection to this origin that is still fresh, or null. */
  take(key: string, nowMs: number): Connection | null {
    const stack = this.#idle.get(key);
    if (stack === undefined) return null;
    for (let connection = stack.pop(); connection !== undefined; connection = stack.pop()) {
      this.#count--;
      if (connection.closed) continue;
      if (connection.idleUntilMs > nowMs) return connection;
      connection.close();
    }
    return null;
  }

  /** Keeps a connection for at most `idleMs`, or closes it when enough of them wait. */
  put(connection: Connection, idleMs: number): void {
    let stack = this.#idle.get(connection.key);
    if (stack === undefined) this.#idle.set(connection.key, stack = []);
    if (stack.length >= this.#maxIdle || idleMs <= 0) return connection.close();
    connection.idleUntilMs = this.#clock.coarse() + idleMs;
    stack.push(connection);
    this.#count++;
    connection.park();
    if (this.#timer === null) this.#timer = this.#clock.setTimer(this.#sweep, idleMs);
  }

  /** Forgets a connection that ended while it waited. */
  remove(connection: Connection): void {
    const stack = this.#idle.get(connection.key);
    const at = stack?.indexOf(connection) ?? -1;
    if (at < 0) return;
    stack?.splice(at, 1);
    this.#count--;
    this.#rest();
  }

  /** Closes everything that waits. */
  clear(): void {
    for (const stack of this.#idle.values()) for (const connection of stack) connection.close();
    this.#idle.clear();
    this.#count = 0;
    this.#rest();
  }

  #rest(): void {
    if (this.#count > 0 || this.#timer === null) return;
    this.#clock.clearTimer(this.#timer);
    this.#timer = null;
  }

  readonly #sweep = () => {
    this.#timer = null;
    const nowMs = this.#clock.coarse();
    let nextMs = Infinity;
    for (const [key, stack] of this.#idle) {
      const fresh = stack.filter((connection) => {
        if (connection.closed) return false;
        if (connection.idleUntilMs > nowMs) return true;
        connection.close();
        return false;
      });
      this.#count -= stack.length - fresh.length;
      if (fresh.length === 0) this.#idle.delete(key);
      else this.#idle.set(key, fresh);
      for (const connection of fresh) nextMs = Math.min(nextMs, connection.idleUntilMs);
    }
    if (nextMs < Infinity) this.#timer = this.#clock.setTimer(this.#sweep, nextMs - nowMs);
  };
}
