import type { Clock, Timer } from "../core/clock.ts";
import { HubError, toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import type { OwnedRun } from "../store/run_commit.ts";

/** What the keeper needs. */
export interface LeaseKeeperOptions {
  /** Renews leases; runs that are missing from the answer belong to somebody else. */
  renew(
    runs: { tenantId: string; runId: string; epoch: number }[],
  ): Promise<Map<string, OwnedRun>>;
  /** Called for each renewed run, with what it was asked. */
  onRenewed(runId: string, asked: OwnedRun): void;
  onLost(runId: string, error: HubError): void;
  clock: Clock;
  log: Log;
  leaseMs: number;
}

interface Held {
  tenantId: string;
  runId: string;
  epoch: number;
  renewedMs: number;
}

/**
 * Renews the leases of runs that write nothing for a third of the lease. A run whose lease could not be renewed for
 * two thirds of it, by this process's own steady clock, ends here before another replica may take it.
 */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions;
  readonly #held = new Map<string, Held>();
  #timer: Timer | null = null;
  #renewing = false;
  #closed = false;

  constructor(options: LeaseKeeperOptions) {
    this.#options = options;
  }

  /** Takes a lease over that Postgres was asked for at `leasedMs`, or just now. */
  hold(run: { tenantId: string; runId: string; epoch: number; leasedMs?: number }): void {
    const { tenantId, runId, epoch, leasedMs } = run;
    const renewedMs = leasedMs ?? this.#options.clock.monotonic();
    this.#held.set(runId, { tenantId, runId, epoch, renewedMs });
    this.#arm();
  }

  /** A write that Postgres was asked for at this monotonic time has renewed the run's lease. */
  renewed(runId: string, askedMs: number): void {
    const held = this.#held.get(runId);
    if (held !== undefined) held.renewedMs = Math.max(held.renewedMs, askedMs);
  }

  release(runId: string): void {
    this.#held.delete(runId);
    if (this.#held.size === 0 && this.#timer !== null) {
      this.#options.clock.clearTimer(this.#timer);
      this.#timer = null;
    }
  }

  close(): void {
    this.#closed = true;
    for (const runId of [...this.#held.keys()]) this.release(runId);
  }

  #arm(): void {
    if (this.#timer !== null || this.#closed || this.#held.size === 0) return;
    this.#timer = this.#options.clock.setTimer(() => {
      this.#timer = null;
      this.#arm();
      this.#tick();
    }, Math.max(50, this.#options.leaseMs / 6));
  }

  #tick(): void {
    const { clock, leaseMs } = this.#options;
    const now = clock.monotonic();
    for (const held of [...this.#held.values()]) {
      if (now - held.renewedMs < leaseMs * 2 / 3) continue;
      this.release(held.runId);
      this.#options.onLost(
        held.runId,
        new HubError("lease_lost", `The lease of ${held.runId} could not be renewed in time`),
      );
    }
    const due = [...this.#held.values()].filter((held) => now - held.renewedMs >= leaseMs / 3);
    if (due.length > 0 && !this.#renewing) void this.#renew(due);
  }

  async #renew(due: Held[]): Promise<void> {
    this.#renewing = true;
    // The lease counts from when Postgres was asked, not from when its answer came.
    const askedMs = this.#options.clock.monotonic();
    try {
      const owned = await this.#options.renew(due);
      for (const held of due) {
        const { runId } = held;
        // Lost meanwhile, and perhaps taken over again: the answer is not about that claim.
        if (this.#held.get(runId) !== held) continue;
        const verdict = owned.get(runId);
        if (verdict === undefined) {
          this.release(runId);
          this.#options.onLost(runId, new HubError("lease_lost", `${runId} has another owner now`));
        } else {
          held.renewedMs = Math.max(held.renewedMs, askedMs);
          this.#options.onRenewed(runId, verdict);
        }
      }
    } catch (error) {
      this.#options.log.warn("Leases were not renewed", { error: toHubError(error) });
    } finally {
      this.#renewing = false;
    }
  }
}
