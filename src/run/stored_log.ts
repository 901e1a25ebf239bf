import { type HubEvent, isTransition, type SequencedEvent } from "../core/event.ts";
import type { Fold, PartChange } from "../core/fold.ts";
import type { Database } from "../store/database.ts";
import { readEvents, type RunKey } from "../store/runs.ts";

const PAGE = 500;

/** The whole log of a run as it is in Postgres. */
export async function readLog(db: Database, key: RunKey): Promise<SequencedEvent[]> {
  const whole: SequencedEvent[] = [];
  for (let afterSeq = 0;;) {
    const page = await readEvents(db, { ...key, afterSeq, limit: PAGE });
    const last = page.at(-1);
    if (last === undefined) return whole;
    whole.push(...page);
    afterSeq = last.seq;
  }
}

/**
 * Brings a fold to where the recorder's was when it had written these events, and gives the parts that it wrote: taken
 * as often as it took them, so that a place that was filled and lost again comes as void.
 */
export function replayRecorded(
  fold: Fold,
  events: readonly HubEvent[],
): Map<number, PartChange> {
  const parts = new Map<number, PartChange>();
  for (const event of events) {
    fold.apply(event);
    if (!isTransition(event)) continue;
    for (const change of fold.takeChangedParts()) parts.set(change.index, change);
  }
  return parts;
}
