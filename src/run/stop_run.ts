import { describeKeyEnd } from "../core/key_end.ts";
import { listRunsOfEndedKeys } from "../store/ended_keys.ts";
import { requestStop, type RunKey } from "../store/runs.ts";
import { listDesertedSubRuns, listOpenSubRuns } from "../store/sub_runs.ts";
import type { FollowOptions } from "./follow_run.ts";

/** What stopping runs needs. */
export interface StopOptions {
  follow: Pick<FollowOptions, "db" | "live">;
  /** Tells the other replicas that a run which is not driven here was asked to stop, or told something. */
  onRequestElsewhere(runId: string): void;
  /** Tells all replicas that a run may go on. */
  onClaimable(): void;
}

/** Stops a run, and those below it, wherever they are driven. Null when there is none; `stopped` is false when it was over. */
export async function stopRun(
  { reason, ...key }: RunKey & { reason: string },
  options: StopOptions,
): Promise<{ stopped: boolean; status: string } | null> {
  const stopped = await stopOne({ ...key, reason }, options);
  if (stopped === null) return null;
  for (const runId of await listOpenSubRuns(options.follow.db, key)) {
    await stopOne({ ...key, runId, reason: "the run that asked was stopped" }, options);
  }
  return stopped;
}

/**
 * Stops runs whose asking call ended without them, as with a run that was given up; those below them are found in their
 * turn. Gives how many.
 */
export async function stopDeserted(options: StopOptions): Promise<number> {
  const deserted = await listDesertedSubRuns(options.follow.db);
  for (const key of deserted) {
    await stopOne({ ...key, reason: "the run that asked is over" }, options);
  }
  return deserted.length;
}

/**
 * Stops runs whose API key has ended and that no replica has stopped by itself: above all those that wait for people. Gives
 * how many.
 */
export async function stopRunsOfEndedKeys(options: StopOptions): Promise<number> {
  const runs = await listRunsOfEndedKeys(options.follow.db);
  for (const { end, ...key } of runs) {
    await stopOne({ ...key, reason: describeKeyEnd(end) }, options);
  }
  return runs.length;
}

async function stopOne(
  { reason, ...key }: RunKey & { reason: string },
  { follow, onRequestElsewhere, onClaimable }: StopOptions,
): Promise<{ stopped: boolean; status: string } | null> {
  const { runId } = key;
  const stopped = await requestStop(follow.db, key);
  if (stopped === null || !stopped.stopped) return stopped;
  if (!follow.live.stop(runId, reason)) onRequestElsewhere(runId);
  if (stopped.status === "waiting") onClaimable();
  return stopped;
}
