import type { LoadedConfig } from "../config/load.ts";
import type { Clock, Timer } from "../core/clock.ts";
import { toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";

/** What reloading the configuration needs. */
export interface ReloadOptions {
  /** The file that was loaded, or null when there was none. */
  source: string | null;
  /** What was said of it. */
  notes: readonly string[];
  /** Loads this file, or what is found without one. */
  load(path: string | undefined): Promise<LoadedConfig>;
  apply(loaded: LoadedConfig): void | Promise<void>;
  /** Changes when the file does; never throws. */
  stampOf(path: string): Promise<string>;
  clock: Clock;
  log: Log;
}

/** How often the file is looked at; it must have been the same for two looks, as it may be written piece by piece. */
const LOOK_MS = 400;

/**
 * Loads the configuration again when its file has changed, or when told to. One that is wrong is not taken over: the log
 * says what is wrong with it, and the last good one stays.
 */
export class Reloader {
  readonly #options: ReloadOptions;
  #source: string | null;
  #notes: ReadonlySet<string>;
  #loaded: string | null = null;
  #last: string | null = null;
  #timer: Timer | null = null;
  #turn: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: ReloadOptions) {
    this.#options = options;
    this.#source = options.source;
    this.#notes = new Set(options.notes);
  }

  /** Looks at the file from now on. */
  async start(): Promise<void> {
    this.#loaded = this.#last = await this.#stamp();
    this.#arm();
  }

  /** Loads it now. Never throws. */
  reload(): Promise<void> {
    this.#turn = this.#turn.then(() => this.#reload());
    return this.#turn;
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) this.#options.clock.clearTimer(this.#timer);
  }

  #arm(): void {
    if (this.#closed) return;
    this.#timer = this.#options.clock.setTimer(() => {
      void this.#look().finally(() => this.#arm());
    }, LOOK_MS);
  }

  async #look(): Promise<void> {
    const stamp = await this.#stamp();
    const isWhole = stamp === this.#last;
    this.#last = stamp;
    if (isWhole && stamp !== this.#loaded) await this.reload();
  }

  async #reload(): Promise<void> {
    const { load, apply, log } = this.#options;
    if (this.#closed) return;
    this.#loaded = await this.#stamp();
    try {
      // The same file, as another one that is found instead would be a surprise.
      const loaded = await load(this.#source ?? undefined);
      if (this.#closed) return;
      await apply(loaded);
      this.#source = loaded.source;
      for (const note of loaded.notes) if (!this.#notes.has(note)) log.info(note);
      this.#notes = new Set(loaded.notes);
    } catch (error) {
      tellNotReloaded(log, { source: this.#source, error });
    }
  }

  async #stamp(): Promise<string> {
    return this.#source === null ? "" : await this.#options.stampOf(this.#source);
  }
}

/** Says that a configuration was not taken over, and why. */
export function tellNotReloaded(
  log: Log,
  { source, error }: { source: string | null; error: unknown },
): void {
  log.error("The configuration was not reloaded: the last good one stays", {
    source,
    error: toHubError(error),
  });
}

/** The file's own stamp, through links; the same text for every file that is not there. */
export async function stampOf(path: string): Promise<string> {
  try {
    const { mtime, size, ino } = await Deno.stat(path);
    return `${mtime?.getTime()} ${size} ${ino}`;
  } catch {
    return "none";
  }
}

/**
 * Reloads on SIGHUP, where there is one; gives the way to end that. At a terminal the signal says that it was closed,
 * and ends the process as ever.
 */
export function reloadOnSignal(reload: () => void): () => void {
  if (Deno.build.os === "windows" || Deno.stdin.isTerminal()) return () => {};
  Deno.addSignalListener("SIGHUP", reload);
  return () => Deno.removeSignalListener("SIGHUP", reload);
}
