import type { HubEvent } from "../core/event.ts";
import type { Database } from "../store/database.ts";
import { readEvents, readRun, type RunKey, type StoredRun } from "../store/runs.ts";
import { renderUiEvent } from "../wire/ui_stream.ts";
import type { LiveEvent } from "./broadcast.ts";

const PAGE = 500;
const ENDED: ReadonlySet<StoredRun["status"]> = new Set(["completed", "failed", "cancelled"]);

/** What a look at a run's log found behind a cursor. */
export interface LogPage {
  events: readonly LiveEvent[];
  /**
   * `waits`: nothing comes behind the cursor until a person answers. `over`: nothing comes behind these events. `gone`:
   * there is no such run any more, or it ended in front of them.
   */
  run: "goes-on" | "waits" | "over" | "gone";
}

/** Reads the run's committed events behind a number, or, when there are none, whether any can still come. */
export async function lookAtLog(db: Database, key: RunKey, after: number): Promise<LogPage> {
  const page = await readEvents(db, { ...key, afterSeq: after, limit: PAGE });
  if (page.length > 0) {
    const run = page.at(-1)?.event.type === "finish" ? "over" : "goes-on";
    return { events: page.map(({ seq, event }) => toLive(event, seq)), run };
  }
  const run = await readRun(db, key);
  if (run === null) return { events: [], run: "gone" };
  if (run.status === "waiting" && run.lastSeq <= after) return { events: [], run: "waits" };
  if (!hasEnded(run) || run.lastSeq > after) return { events: [], run: "goes-on" };
  return { events: [], run: run.lastSeq === after ? "over" : "gone" };
}

/** True when nothing drives the run any more, here or elsewhere. */
export function hasEnded(run: StoredRun): boolean {
  return ENDED.has(run.status);
}

/** An event as readers get it, encoded. */
export function toLive(event: HubEvent, seq: number | null): LiveEvent {
  return { seq, event, bytes: renderUiEvent(event, seq) };
}
