import type { Log } from "../core/log.ts";
import type { Hub } from "../hub/create_hub.ts";
import type { UnwrittenRows } from "../run/usage_spool.ts";
import { EXIT } from "./exit_codes.ts";
import { printError } from "./print.ts";
import type { StopSignal } from "./stop_signals.ts";

/** Waits for the end of a hub that serves and, on SIGTERM, for load balancers to notice; gives the exit code. */
export async function serveUntilStopped(
  hub: Pick<Hub, "databaseLost" | "leave">,
  { stopSignal, log }: { stopSignal: Promise<StopSignal>; log: Log },
): Promise<number> {
  const signal = await Promise.race([stopSignal, hub.databaseLost]);
  if (signal === undefined) return tellDatabaseLost();
  log.info("Stopping; a second signal ends at once", { signal });
  if (signal === "SIGTERM") await hub.leave();
  return EXIT.ok;
}

/** The exit code of a hub that has ended: usage rows that were not written are told by one of their own. */
export function exitCodeOf(code: number, { waiting, lost }: UnwrittenRows): number {
  return code === EXIT.ok && waiting + lost > 0 ? EXIT.usageLeft : code;
}

/** Says why a hub ends that nobody stopped; gives the exit code. */
export function tellDatabaseLost(): number {
  printError("The embedded Postgres has ended: see postgres.log in the data folder");
  return EXIT.failed;
}
