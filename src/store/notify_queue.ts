import type { Clock, Timer } from "../core/clock.ts";
import { toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import type { Wakeup } from "./wakeup.ts";

/** What the queue needs. */
export interface NotifyQueueOptions {
  send(wakeup: Wakeup): Promise<void>;
  /** For numbers about it: each statement that was sent, or was not. */
  observe?(outcome: "sent" | "failed"): void;
  clock: Clock;
  log: Log;
}

/** At most one statement in this time: NOTIFY at each commit would cost two thirds of the commits. */
const GAP_MS = 15;

/**
 * Gathers what the other replicas are to be told, and tells it in one statement, outside of every write. What could not
 * be sent is forgotten: everybody polls, more slowly.
 */
export class NotifyQueue {
  readonly #options: NotifyQueueOptions;
  #runs = new Set<string>();
  #stops = new Set<string>();
  #left = false;
  #timer: Timer | null = null;
  #sending: Promise<void> | null = null;
  #sentMs = -GAP_MS;
  #failing = false;
  #closed = false;

  constructor(options: NotifyQueueOptions) {
    this.#options = options;
  }

  /** A run has new events in its log. */
  committed(runId: string): void {
    if (this.#closed) return;
    this.#runs.add(runId);
    this.#arm();
  }

  /** Somebody asked to stop a run, or said something to it. */
  requested(runId: string): void {
    if (this.#closed) return;
    this.#stops.add(runId);
    this.#arm();
  }

  /** A run was left to other replicas. */
  left(): void {
    if (this.#closed) return;
    this.#left = true;
    this.#arm();
  }

  /** Sends what waits; takes nothing more. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) this.#options.clock.clearTimer(this.#timer);
    await this.#sending;
    await this.#send();
  }

  #arm(): void {
    if (this.#timer !== null || this.#sending !== null || this.#closed) return;
    const { clock } = this.#options;
    const delayMs = Math.max(0, this.#sentMs + GAP_MS - clock.monotonic());
    this.#timer = clock.setTimer(() => {
      this.#timer = null;
      this.#sending = this.#send().finally(() => {
        this.#sending = null;
        if (this.#runs.size + this.#stops.size > 0 || this.#left) this.#arm();
      });
    }, delayMs);
  }

  async #send(): Promise<void> {
    const { send, observe, clock, log } = this.#options;
    const wakeup: Wakeup = {
      ...(this.#runs.size === 0 ? {} : { runs: [...this.#runs] }),
      ...(this.#stops.size === 0 ? {} : { stops: [...this.#stops] }),
      ...(this.#left ? { left: true } : {}),
    };
    if (Object.keys(wakeup).length === 0) return;
    this.#runs.clear();
    this.#stops.clear();
    this.#left = false;
    this.#sentMs = clock.monotonic();
    try {
      await send(wakeup);
      this.#failing = false;
      observe?.("sent");
    } catch (error) {
      if (!this.#failing) {
        log.warn("Other replicas were not notified; they poll", { error: toHubError(error) });
      }
      this.#failing = true;
      observe?.("failed");
    }
  }
}
