import type { BegunCall } from "../store/usage_rows.ts";

interface Entry {
  call: BegunCall;
  isTaken: boolean;
  isWritten: boolean;
}

/** Model calls of this replica's runs that were sent and have no usage row yet, by the row's id. */
export class BegunCalls {
  readonly #calls = new Map<string, Entry>();

  /** Adds a call that is about to be sent. */
  add(call: BegunCall): void {
    this.#calls.set(call.row.usageId, { call, isTaken: false, isWritten: false });
  }

  /** The call has its row. */
  end(usageId: string): void {
    this.#calls.delete(usageId);
  }

  /** Calls of a run that were not taken before. */
  takeOf(runId: string): BegunCall[] {
    const taken: BegunCall[] = [];
    for (const entry of this.#calls.values()) {
      if (entry.isTaken || entry.call.row.runId !== runId) continue;
      entry.isTaken = true;
      taken.push(entry.call);
    }
    return taken;
  }

  /** Whether a call waits to be written. */
  get waits(): boolean {
    for (const { isWritten } of this.#calls.values()) if (!isWritten) return true;
    return false;
  }

  /** Calls that were not written yet. */
  waiting(): BegunCall[] {
    return [...this.#calls.values()].flatMap(({ call, isWritten }) => isWritten ? [] : [call]);
  }

  /** These are written. */
  written(calls: readonly BegunCall[]): void {
    for (const { row: { usageId } } of calls) {
      const entry = this.#calls.get(usageId);
      if (entry !== undefined) entry.isWritten = true;
    }
  }
}
