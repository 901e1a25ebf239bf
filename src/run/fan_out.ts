import type { Clock, Timer } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { Database } from "../store/database.ts";
import { openListenConnection } from "../store/listen_connection.ts";
import { Listener } from "../store/listener.ts";
import type { GrantOwner } from "../store/mcp_grants.ts";
import { notify } from "../store/notify.ts";
import { NotifyQueue } from "../store/notify_queue.ts";
import type { RunKey } from "../store/runs.ts";
import { lookAtLog } from "./look_at_log.ts";
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

/** What a replica does when it hears something. All of it may be called without a reason, and never rejects. */
export interface FanOutHandlers {
  /** Runs that somebody may have asked to stop, or said something to; all when left out. */
  onRequests(runIds?: readonly string[]): Promise<void>;
  /** API keys may have changed. */
  onKeys(): Promise<void>;
  /** Providers of the database may have changed. */
  onProviders(): Promise<void>;
  /** What counts of MCP servers may have changed. */
  onMcp(): Promise<void>;
  /** Somebody has authorized the hub at an MCP server. */
  onGranted(granted: GrantOwner): void;
  /** Runs may have been left to whoever takes them. */
  onLeft(): void;
}

/** How often followers of other replicas' runs look by themselves, when notifications arrive and when they do not. */
const POLL_MS = { listening: 1000, deaf: 250 };
/** How often what runs are asked is looked for without a hint: a run that commits nothing would hear of one with its lease. */
const REQUESTS_MS = 1000;

/** What replicas tell each other: hints where to look, over NOTIFY. Without them everything works, later. */
export class FanOut {
  readonly wakeups: RunWakeups;
  readonly #options: FanOutOptions;
  readonly #queue: NotifyQueue;
  #listener: Listener | null = null;
  #timer: Timer | null = null;
  #closed = false;

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
    const look = (key: RunKey, after: number) => lookAtLog(db, key, after);
    this.wakeups = new RunWakeups({ look, pollMs, clock });
  }

  /** Events of a run were committed here. */
  committed(runId: string): void {
    this.wakeups.wake([runId]);
    if (this.#options.enabled) this.#queue.committed(runId);
  }

  /** A run that another replica drives was asked to stop here, or told something. */
  requested(runId: string): void {
    if (this.#options.enabled) this.#queue.requested(runId);
  }

  /** A run that was driven here is anybody's now. */
  left(): void {
    if (this.#options.enabled) this.#queue.left();
  }

  /** Hears the other replicas from now on. */
  listen(handlers: FanOutHandlers): void {
    const { db, directUrl, enabled, metrics, clock, random, log } = this.#options;
    const lookForRequests = async () => {
      await handlers.onRequests();
      if (!this.#closed) this.#timer = clock.setTimer(lookForRequests, REQUESTS_MS);
    };
    void lookForRequests();
    if (!enabled) return;
    this.#listener = new Listener({
      open: (connection) => openListenConnection(directUrl, connection),
      beat: () => notify(db, { beat: true }),
      onWakeup: ({ runs, stops, keys, providers, mcp, granted, left }) => {
        if (runs !== undefined) this.wakeups.wake(runs);
        if (stops !== undefined) void handlers.onRequests(stops);
        if (keys === true) void handlers.onKeys();
        if (providers === true) void handlers.onProviders();
        if (mcp === true) void handlers.onMcp();
        if (granted !== undefined) handlers.onGranted(granted);
        if (left === true) handlers.onLeft();
      },
      onUp: () => {
        this.wakeups.wakeAll();
        void handlers.onRequests();
        void handlers.onKeys();
        void handlers.onProviders();
        void handlers.onMcp();
        handlers.onLeft();
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
    this.#closed = true;
    this.#options.clock.clearTimer(this.#timer);
    await this.#listener?.close();
    await this.#queue.close();
  }
}
