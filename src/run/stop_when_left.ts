import type { AbortLike } from "../core/abort.ts";
import type { Log } from "../core/log.ts";
import type { RunKey } from "../store/runs.ts";
import { type StopOptions, stopRun } from "./stop_run.ts";

/** What stopping the runs of clients that leave needs. */
export interface StopWhenLeftOptions extends StopOptions {
  /** Whether the hub ends: then runs go on elsewhere, whoever asked for them. */
  isStopping(): boolean;
  log: Log;
}

/** Stops the run as soon as whoever asked for it has left. Gives back what ends the watch. */
export function stopWhenLeft(
  { tenantId, runId, signal, reason }: RunKey & { signal: AbortLike; reason: string },
  options: StopWhenLeftOptions,
): () => void {
  const stop = () => {
    if (options.isStopping()) return;
    stopRun({ tenantId, runId, reason }, options).catch((error: unknown) =>
      options.log.warn("The run of a client that left could not be stopped", { runId, error })
    );
  };
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  return () => signal.removeEventListener("abort", stop);
}
