import { type Clock, sleep } from "../core/clock.ts";
import { toHubError } from "../core/error.ts";
import type { LiveEvent } from "../run/broadcast.ts";
import { followRun } from "../run/follow_run.ts";
import { lookAtLog } from "../run/look_at_log.ts";
import { RunWakeups } from "../run/run_wakeups.ts";
import type { Database } from "../store/database.ts";
import { readRunOverview, type RunOverview } from "../store/run_overview.ts";
import type { RunKey } from "../store/runs.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import { EXIT } from "./exit_codes.ts";
import { print, printError, readerGone } from "./print.ts";
import { createShow, exitCodeOf } from "./show_event.ts";
import { catchStopSignal } from "./stop_signals.ts";

/** How to watch. */
export interface WatchOptions {
  runId: string;
  /** Events as JSON lines with their `seq`, instead of words. */
  json: boolean;
  clock: Clock;
}

const EVENTS_POLL_MS = 250;
const OWNER_POLL_MS = 500;
const AWAY_PAUSE_MS = 1000;
/** No run is driven in this process. */
const NOWHERE = { get: () => undefined, stop: () => false };

/**
 * Shows a run's events from its first one to its end, whichever replica drives it and through Postgres' absences, and
 * its owner whenever that changes. Gives the exit code of `loophub run`; Ctrl-C leaves, the run goes on.
 */
export async function watchRun(
  db: Database,
  { runId, json, clock }: WatchOptions,
): Promise<number> {
  const key = { tenantId: DEFAULT_TENANT_ID, runId };
  const left = new AbortController();
  let leftWith: number | null = null;
  const leave = (code: number) => {
    leftWith ??= code;
    left.abort();
  };
  void catchStopSignal().then(() => leave(EXIT.interrupted));
  readerGone.addEventListener("abort", () => leave(EXIT.readerGone));
  const owner = new OwnerLine(db, key);
  await firstLook(owner, { clock, signal: left.signal });
  const watching = watchOwner(owner, { clock, signal: left.signal });
  const show = createShow({ isTerminal: Deno.stdout.isTerminal() });
  let code: number = EXIT.failed;
  try {
    for await (const { seq, event } of followPatiently(db, { key, clock, signal: left.signal })) {
      if (json) print(JSON.stringify({ seq, ...event }));
      else show(event);
      if (event.type === "finish") code = exitCodeOf(event.finishReason);
    }
  } finally {
    left.abort();
    await watching;
  }
  if (leftWith !== null) return leftWith;
  // The events have told how it ended; who had it then is worth a look, not a failure.
  await owner.look({ ended: true }).catch(() => {});
  return code;
}

async function firstLook(
  owner: OwnerLine,
  { clock, signal }: { clock: Clock; signal: AbortSignal },
): Promise<void> {
  while (!signal.aborted) {
    try {
      return await owner.look({ ended: false });
    } catch (error) {
      await awaitReturn(error, { clock, signal });
    }
  }
}

/** A pause before another try while Postgres is away; throws what is another failure. */
async function awaitReturn(
  error: unknown,
  { clock, signal }: { clock: Clock; signal: AbortSignal },
): Promise<void> {
  const failure = toHubError(error);
  if (failure.code !== "database_unavailable") throw failure;
  printError(`${failure.message}; trying again`);
  await sleep(clock, AWAY_PAUSE_MS, signal).catch(() => {});
}

/** The run's events behind each other; waits while Postgres is away. */
async function* followPatiently(
  db: Database,
  { key, clock, signal }: { key: RunKey; clock: Clock; signal: AbortSignal },
): AsyncGenerator<LiveEvent, void, void> {
  const wakeups = new RunWakeups({
    look: (key, after) => lookAtLog(db, key, after),
    pollMs: () => EVENTS_POLL_MS,
    clock,
  });
  let after = 0;
  while (!signal.aborted) {
    try {
      const pages = followRun({ ...key, after, signal }, { db, live: NOWHERE, wakeups });
      for await (const page of pages) {
        for (const live of page) {
          after = live.seq ?? after;
          yield live;
        }
      }
      return;
    } catch (error) {
      await awaitReturn(error, { clock, signal });
    }
  }
}

async function watchOwner(
  owner: OwnerLine,
  { clock, signal }: { clock: Clock; signal: AbortSignal },
): Promise<void> {
  while (!signal.aborted) {
    await sleep(clock, OWNER_POLL_MS, signal).catch(() => {});
    // What keeps this from being read keeps the events from being read, which tells it.
    if (!signal.aborted) await owner.look({ ended: false }).catch(() => {});
  }
}

/** Who owns the run; says it only when it has changed. */
class OwnerLine {
  readonly #db: Database;
  readonly #key: RunKey;
  #last = "";

  constructor(db: Database, key: RunKey) {
    this.#db = db;
    this.#key = key;
  }

  /** Says nothing of a run's end unless its log was shown to the end (`ended`). */
  async look({ ended }: { ended: boolean }): Promise<void> {
    const run = await readRunOverview(this.#db, this.#key);
    if (!ended && run?.finishedAt !== null) return;
    const line = run === null ? "" : describeOwner(run);
    if (line !== this.#last && line !== "") printError(line);
    this.#last = line;
  }
}

function describeOwner({ owner, epoch, leaseMs, status }: RunOverview): string {
  if (owner === null) return `${status}, epoch ${epoch}`;
  const lapsed = leaseMs !== null && leaseMs < 0 ? ", its lease has lapsed" : "";
  return `${status}, epoch ${epoch}, owner ${owner}${lapsed}`;
}
