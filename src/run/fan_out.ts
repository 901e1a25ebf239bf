import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { Database } from "../store/database.ts";
import { Listener } from "../store/listener.ts";
import { notify, openListenConnection } from "../store/notify.ts";
import { NotifyQueue } from "../store/notify_queue.ts";
import { RunWakeups } from "./run_wakeups.ts";

/** What telling and hearing other replicas needs. */
export interface FanOutOptions {
  db: Database;
  /** Where LISTEN works: past any pooler. */
  directUrl: string;
  /** False where there is no NOTIFY: then everybody polls. */
  enabled: boolean;
  metrics: {
    notification(outcome: "sent" | "failed" | "received" | "ignored"): void;
    listenerUp(up: boolean): void;
  };
  clock: Clock;
  random: () => number;
  log: Log;
}

/** What a replica does when it hears something. All of it may be called without a reason. */
export interface FanOutHandlers {
  /** Runs that somebody may have asked to stop; all when left out. */
  onStops(runIds?: readonly string[]): void;
  /** API keys may have changed. */
  onKeys(): void;
}

/** How often followers of other replicas' runs look by themselves, when notifications arrive and when they do not. */
const POLL_MS = { listening: 1000, deaf: 250 };

/** What replicas tell each other: hints where to look, over NOTIFY. Without them everything works, later. */
export class FanOut {
  readonly wakeups: RunWakeups;
  readonly #options: FanOutOptions;
  readonly #queue: NotifyQueue;
  #listener: Listener | null = null;

  constructor(options: FanOutOptions) {
    const { db, clock, log, metrics } = options;
    this.#options = options;
    this.#queue = new NotifyQueue({
      send: (wakeup) => notify(db, wakeup),
      observe: (outcome) => metrics.notification(outcome),
      clock,
      log,
    });
    const pollMs = () => this.#listener?.up === true ? POLL_MS.listening : POLL_MS.deaf;
    this.wakeups = new RunWakeups({ clock, pollMs });
  }

  /** Events of a run were committed here. */
  committed(runId: string): void {
    this.wakeups.wake([runId]);
    if (this.#options.enabled) this.#queue.committed(runId);
  }

  /** A run that another replica drives was asked to stop here. */
  stopRequested(runId: string): void {
    if (this.#options.enabled) this.#queue.stopRequested(runId);
  }

  /** Hears the other replicas from now on. */
  listen(handlers: FanOutHandlers): void {
    const { db, directUrl, enabled, metrics, clock, random, log } = this.#options;
    if (!enabled) return;
    this.#listener = new Listener({
      open: (connection) => openListenConnection(directUrl, connection),
      beat: () => notify(db, { beat: true }),
      onWakeup: ({ runs, stops, keys }) => {
        if (runs !== undefined) this.wakeups.wake(runs);
        if (stops !== undefined) handlers.onStops(stops);
        if (keys === true) handlers.onKeys();
      },
      onUp: () => {
        this.wakeups.wakeAll();
        handlers.onStops();
        handlers.onKeys();
      },
      observe: { up: metrics.listenerUp, heard: metrics.notification },
      clock,
      random,
      log,
    });
    this.#listener.start();
  }

  /** Tells what is still to be told, and hears nothing more. */
  async close(): Promise<void> {
    await this.#listener?.close();
    await this.#queue.close();
  }
}
