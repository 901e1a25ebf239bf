import { type Clock, doneWithin, type Timer } from "../../core/clock.ts";
import { toHubError } from "../../core/error.ts";
import type { Log } from "../../core/log.ts";
import { type Database, isRefusal } from "../../store/database.ts";
import { insertModelCalls } from "../../store/model_calls.ts";
import type { UsageSpool } from "../usage_spool.ts";
import { eachLeftJournal } from "./journal_lock.ts";
import { type JournalRecords, readJournal } from "./journal_records.ts";

/** What booking what other processes have left needs. */
export interface RecoveryOptions {
  /** Folder of all journals. */
  dir: string;
  spool: Pick<UsageSpool, "book">;
  db: Database;
  clock: Clock;
  log: Log;
}

/** How soon at most rows are booked whose hub was killed while others on this machine go on, in milliseconds. */
const LOOK_MS = 15_000;
/** How long an end waits for a look that is under way. */
const STOP_MS = 1000;

/** Books journals of processes that are gone, now and again, each by one process. Gives what ends it. */
export function recoverJournals(options: RecoveryOptions): { stop(): Promise<void> } {
  const { clock, log } = options;
  let timer: Timer = null;
  let isStopped = false;
  let looking: Promise<void> = Promise.resolve();
  const look = () => {
    looking = bookLeftJournals(options, () => isStopped).catch((error) =>
      log.warn("Journals of usage rows could not be booked", { error: toHubError(error) })
    ).then(() => {
      if (!isStopped) timer = clock.setTimer(look, LOOK_MS);
    });
  };
  look();
  return {
    async stop() {
      isStopped = true;
      clock.clearTimer(timer);
      await doneWithin(clock, STOP_MS, looking);
    },
  };
}

/** Books all journals of processes that are gone; those that Postgres does not take now stay. Gives the number of rows. */
export async function bookLeftJournals(
  { dir, spool, db, log }: Omit<RecoveryOptions, "clock">,
  mustStop: () => boolean = () => false,
): Promise<number> {
  let count = 0;
  await eachLeftJournal(dir, async (paths, lock) => {
    for (const path of paths) {
      const records = mustStop() ? null : await read(path, log);
      if (records === null || !await bookRecords(records, { spool, db, log })) return lock.leave();
      await Deno.remove(path).catch(() => {});
      const { rows, begun, damaged } = records;
      count += rows.length;
      if (rows.length + begun.length + damaged > 0) {
        const facts = { rows: rows.length, begun: begun.length, damaged };
        log.warn("Booked usage rows that a hub had left in its journal", facts);
      }
    }
    await lock.remove();
  });
  return count;
}

async function bookRecords(
  { rows, begun }: JournalRecords,
  { spool, db, log }: Pick<RecoveryOptions, "spool" | "db" | "log">,
): Promise<boolean> {
  if (!await spool.book(rows)) return false;
  try {
    await insertModelCalls(db, begun);
    return true;
  } catch (error) {
    log.warn("Begun model calls were not noted", { error: toHubError(error) });
    return isRefusal(error);
  }
}

/** An empty file for one that is gone; null when it cannot be read. */
async function read(path: string, log: Log): Promise<JournalRecords | null> {
  try {
    return await readJournal(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return { rows: [], begun: [], damaged: 0 };
    log.warn("A journal of usage rows cannot be read", { path, error });
    return null;
  }
}
