import type { HubEvent } from "../core/event.ts";
import type { Fold } from "../core/fold.ts";
import type { Log } from "../core/log.ts";
import type { LoopBatch } from "../inference/loop_batch.ts";
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
  /** True from when it begins to wait for people: it goes on here or elsewhere, and whoever follows it follows its log. */
  isPaused: boolean;
  /** Resolves when the run is over here: finished, waiting, or lost to another replica. Never rejects. */
  readonly done: Promise<void>;
}

/** What is known of a run that is driven from here on. */
export interface DriveOptions {
  log?: Log;
  /** What it has said before. */
  events?: readonly HubEvent[];
  /** How many texts were said to it before. */
  steered?: number;
  /** A request to stop it is stored. */
  stopRequested?: boolean;
  /** It is stopped before its first step, for this reason. */
  stopReason?: string | undefined;
}

/** Makes the loop of a run. */
export type BeginLoop = (
  signal: AbortSignal,
  steering: SteeringInbox,
) => AsyncGenerator<LoopBatch, void, void>;

/** How runs are left. */
export interface LeaveOptions {
  /** How long they may go on to the end of their step. */
  graceMs: number;
  /** A step that says nothing for as long is not waited for. */
  silentMs: number;
}
