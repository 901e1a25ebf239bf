import type { Clock } from "../core/clock.ts";
import type { HandedCredentials } from "../core/handed_credentials.ts";
import type { LiveRun } from "./live_run.ts";

interface Kept {
  handed: HandedCredentials;
  /** When it is forgotten; null while the run is driven here. */
  dueMs: number | null;
}

/** Runs that wait for people with credentials in memory; of more the oldest are forgotten. */
const MAX_WAITING = 10_000;

/** The credentials of the runs of this replica, while they go on here or wait for people. Nowhere else are they kept. */
export class HandedRuns {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #waitMs: number;
  readonly #runs = new Map<string, Kept>();

  /** `waitMs` is how long a run that waits may come back. */
  constructor({ clock, waitMs }: { clock: Pick<Clock, "monotonic">; waitMs: number }) {
    this.#clock = clock;
    this.#waitMs = waitMs;
  }

  /** How many runs have some here. */
  get size(): number {
    return this.#runs.size;
  }

  get(runId: string): HandedCredentials | null {
    return this.#runs.get(runId)?.handed ?? null;
  }

  /** The run goes on here. */
  hold(runId: string, handed: HandedCredentials): void {
    this.#runs.set(runId, { handed, dueMs: null });
  }

  /** The run is over here, or waits for people. */
  leave(
    { isPaused, record: { runId } }: Pick<LiveRun, "isPaused"> & { record: { runId: string } },
    handed: HandedCredentials,
  ): void {
    if (isPaused) this.park(runId, handed);
    else this.#runs.delete(runId);
  }

  /** The run waits for people, and may go on here. */
  park(runId: string, handed: HandedCredentials): void {
    this.#runs.delete(runId);
    this.#runs.set(runId, { handed, dueMs: this.#clock.monotonic() + this.#waitMs });
    if (this.#runs.size > MAX_WAITING) this.sweep();
  }

  /** Forgets what nobody came back for. */
  sweep(): void {
    const nowMs = this.#clock.monotonic();
    let waiting = [...this.#runs.values()].filter(({ dueMs }) => dueMs !== null).length;
    for (const [runId, { dueMs }] of this.#runs) {
      if (dueMs === null || (dueMs > nowMs && waiting <= MAX_WAITING)) continue;
      this.#runs.delete(runId);
      waiting--;
    }
  }
}
