import assert from "node:assert/strict";
import type { LongestStretch } from "./loop_meter.ts";
import type { MeteredHub } from "./with_metered_hub.ts";

/** What the event loop may do at once, in milliseconds. */
export const MOST_MS = 50;
/** Garbage of what came before is collected some time, and a busy machine has cold caches: the best of these counts. */
const ATTEMPTS = 6;

/** Measures until it is within the bound, some times at most; gives the best. */
export async function bestStretch(
  hub: MeteredHub,
  { upTo, work }: { upTo: number; work: () => Promise<void> },
): Promise<LongestStretch> {
  let best: LongestStretch | null = null;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    await hub.longest();
    await work();
    const longest = await hub.longest();
    if (best === null || longest.cpuMs < best.cpuMs) best = longest;
    if (best.cpuMs < upTo) break;
  }
  assert.ok(best !== null);
  return best;
}

/** A stretch that was too long, in words. */
export function slowWords(name: string, { cpuMs, wallMs }: LongestStretch): string {
  return `${name}: ${Math.round(cpuMs)} ms of processor, ${Math.round(wallMs)} ms in all`;
}
