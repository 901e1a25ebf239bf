import { type Clock, doneWithin, type Timer } from "../core/clock.ts";
import { HubError, toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import type { ListenConnection, ListenHandlers } from "./listen_connection.ts";
import { parseWakeup, type Wakeup } from "./wakeup.ts";

/** What the listener needs. */
export interface ListenerOptions {
  open(handlers: ListenHandlers): ListenConnection;
  /** Sends a wakeup that must come back here. */
  beat(): Promise<void>;
  onWakeup(wakeup: Wakeup): void;
  /** Notifications arrive from now on: whatever came before may have been missed. */
  onUp(): void;
  /** For numbers about it: whether it hears, and each payload that it heard. */
  observe?: { up(up: boolean): void; heard(outcome: "received" | "ignored"): void };
  clock: Clock;
  random: () => number;
  log: Log;
}

const BEAT_MS = 5000;
/** How long the first notification of a connection may take to come back. */
const FIRST_BEAT_MS = 2000;
const CONNECT_MS = 5000;
const FIRST_RETRY_MS = 200;
const LAST_RETRY_MS = 10_000;

const NEVER_HEARD =
  "LISTEN is done, but nothing comes: behind a pooler, set database.directUrl to an address past it";

/**
 * The replica's one connection that hears notifications. It sends itself one at once, since a pooler takes LISTEN and
 * delivers nothing, and then every 5 s: a connection whose other end is gone stays silent for ever, and only a beat that
 * does not come back tells. Then, and whenever it breaks, it is opened anew. Nothing that is right depends on it.
 */
export class Listener {
  readonly #options: ListenerOptions;
  #connection: ListenConnection | null = null;
  #listening = false;
  #up = false;
  #beat: "none" | "sending" | "sent" = "none";
  #failures = 0;
  #timer: Timer | null = null;
  #closed = false;

  constructor(options: ListenerOptions) {
    this.#options = options;
  }

  /** True while notifications are believed to arrive: since the first one that did. */
  get up(): boolean {
    return this.#up;
  }

  /** Connects, and stays connected until `close`. Never throws. */
  start(): void {
    if (!this.#closed) void this.#connect();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#drop();
  }

  async #connect(): Promise<void> {
    const { open, clock } = this.#options;
    const connection = open({
      onPayload: (payload) => {
        if (this.#connection === connection) this.#hear(payload);
      },
      onClosed: () => {
        if (this.#connection === connection && this.#listening) this.#lose("Postgres closed it");
      },
    });
    this.#connection = connection;
    try {
      if (!await doneWithin(clock, CONNECT_MS, connection.ready)) {
        throw new HubError("database_unavailable", `No answer to LISTEN within ${CONNECT_MS} ms`);
      }
      if (this.#connection !== connection) return;
      this.#listening = true;
      this.#tick();
    } catch (error) {
      if (this.#connection === connection) this.#lose("it could not be opened", error);
    }
  }

  /** The first notification has come: from now on they arrive. */
  #rise(): void {
    const { clock, log, onUp, observe } = this.#options;
    if (this.#failures > 0) log.info("Notifications of Postgres arrive again");
    this.#failures = 0;
    this.#up = true;
    observe?.up(true);
    clock.clearTimer(this.#timer);
    this.#arm(BEAT_MS, () => this.#tick());
    this.#guarded(onUp);
  }

  #hear(payload: string): void {
    this.#beat = "none";
    if (!this.#up) this.#rise();
    const wakeup = parseWakeup(payload);
    this.#options.observe?.heard(wakeup === null ? "ignored" : "received");
    if (wakeup !== null) this.#guarded(() => this.#options.onWakeup(wakeup));
  }

  /** A beat has until the next one to come back. One that could not be sent tells nothing about this connection. */
  #tick(): void {
    if (this.#beat === "sent") {
      return this.#lose(this.#up ? "a heartbeat did not come back" : NEVER_HEARD);
    }
    this.#arm(this.#up ? BEAT_MS : FIRST_BEAT_MS, () => this.#tick());
    if (this.#beat === "sending") return;
    this.#beat = "sending";
    this.#options.beat().then(
      () => {
        if (this.#beat === "sending") this.#beat = "sent";
      },
      () => {
        this.#beat = "none";
      },
    );
  }

  #lose(why: string, error?: unknown): void {
    const { random, log } = this.#options;
    const cause = error === undefined ? {} : { error: toHubError(error) };
    if (this.#failures === 0) {
      log.warn("Notifications of Postgres do not arrive: polling until they do", { why, ...cause });
    }
    void this.#drop();
    const most = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#failures++);
    if (!this.#closed) this.#arm(most * (1 + random()) / 2, () => void this.#connect());
  }

  async #drop(): Promise<void> {
    const connection = this.#connection;
    this.#connection = null;
    this.#beat = "none";
    this.#listening = false;
    if (this.#up) this.#options.observe?.up(false);
    this.#up = false;
    this.#options.clock.clearTimer(this.#timer);
    // What it would have said no longer matters, and its end has nothing to add.
    connection?.ready.catch(() => {});
    await connection?.close().catch(() => {});
  }

  #arm(delayMs: number, callback: () => void): void {
    this.#timer = this.#options.clock.setTimer(callback, delayMs);
  }

  /** Called from the driver's own stack: what it throws there nobody can catch. */
  #guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#options.log.error("A notification could not be handled", { error: toHubError(error) });
    }
  }
}
