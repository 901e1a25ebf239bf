import { type Clock, sleep } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import type { EmbeddedPostgres } from "./embedded_postgres.ts";

/** The embedded Postgres as long as the hub wants it. */
export interface KeptPostgres {
  /** Resolves when it ended and cannot be had again, since another hub has the data folder now. */
  lost: Promise<void>;
  /** Stops it, or the attempts to start it again. Idempotent. */
  stop(): Promise<void>;
}

type Server = Pick<EmbeddedPostgres, "url" | "exited" | "stop">;

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;
/** One that was up for so long is started again as if it had never ended. */
const STEADY_MS = 60_000;

/**
 * Starts the embedded Postgres again whenever it ends by itself (killed, out of memory, a full disk), at the same address,
 * later each time: the hub serves meanwhile what needs no database.
 */
export function keepPostgres(
  first: Server,
  { start, clock, log }: { start(): Promise<Server>; clock: Clock; log: Log },
): KeptPostgres {
  const stopped = new AbortController();
  const lost = Promise.withResolvers<void>();
  let current: Server | null = first;

  const startAgain = async (): Promise<Server | null> => {
    const server = await start();
    if (server.url === first.url) return server;
    await server.stop();
    log.error("The port of the embedded Postgres is in use: it waits for it to be free");
    return null;
  };

  const keep = async () => {
    let pauseMs = FIRST_PAUSE_MS;
    let sinceMs = clock.monotonic();
    while (!stopped.signal.aborted) {
      if (current !== null) {
        const { code } = await current.exited;
        if (stopped.signal.aborted) return;
        if (clock.monotonic() - sinceMs >= STEADY_MS) pauseMs = FIRST_PAUSE_MS;
        log.error("The embedded Postgres has ended and is started again; see postgres.log", {
          code,
          pauseMs,
        });
        await current.stop();
        current = null;
      }
      await sleep(clock, pauseMs, stopped.signal).catch(() => {});
      if (stopped.signal.aborted) return;
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      try {
        current = await startAgain();
        sinceMs = clock.monotonic();
        if (current !== null) log.warn("The embedded Postgres is up again");
      } catch (error) {
        log.error("The embedded Postgres did not start again", { error, pauseMs });
        if (error instanceof HubError && error.details?.["holder"] !== undefined) {
          return lost.resolve();
        }
      }
    }
  };
  const keeping = keep();

  let stopping: Promise<void> | null = null;
  const stop = async () => {
    stopped.abort();
    const known = current;
    await known?.stop();
    await keeping;
    // One that was being started meanwhile.
    if (current !== known) await current?.stop();
  };
  return { lost: lost.promise, stop: () => stopping ??= stop() };
}
