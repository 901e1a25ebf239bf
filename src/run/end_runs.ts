import { type Clock, doneWithin } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { LeaveOptions } from "./live_run.ts";
import type { LiveRuns } from "./live_runs.ts";

/** How long ending runs may take to write their last events; what is left goes on wherever it is found abandoned. */
const WRITE_GRACE_MS = 10_000;

/**
 * Ends the runs of a replica that stops: they are left to others as `leave` says, or, when that is null, they are
 * stopped. Rejects when runs could not be left; their leases run out.
 */
export async function endRuns(
  live: Pick<LiveRuns, "leave" | "close" | "size">,
  { leave, clock, log }: { leave: LeaveOptions | null; clock: Clock; log: Log },
): Promise<void> {
  const end = async () => {
    try {
      if (leave !== null) await live.leave(leave);
    } finally {
      await live.close("the hub is stopping");
    }
  };
  if (await doneWithin(clock, (leave?.graceMs ?? 0) + WRITE_GRACE_MS, end())) return;
  log.warn("Runs are left to the next hub: they did not end in time", { runs: live.size });
}
