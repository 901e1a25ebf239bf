import type { Fold } from "../core/fold.ts";
import type { Broadcast } from "./broadcast.ts";
import type { RecordedRun } from "./recorder.ts";
import type { SteeringInbox } from "./steering_inbox.ts";
import type { StepWatch } from "./step_watch.ts";

/** A run that this replica drives. */
export interface LiveRun {
  readonly record: RecordedRun;
  readonly broadcast: Broadcast;
  readonly fold: Fold;
  /** Stops the loop; the reason tells why. */
  readonly abort: AbortController;
  /** What is said to the run. */
  readonly steering: SteeringInbox;
  readonly watch: StepWatch;
  /** Resolves when the run is over here: finished, or lost to another replica. Never rejects. */
  readonly done: Promise<void>;
}
