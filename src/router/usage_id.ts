import { deriveId } from "../core/derived_id.ts";
import type { CallFacts } from "./usage_fact.ts";

/**
 * The id of the usage row of a request's try, the `number`-th from 0. For a call of a run it is derived from run, step,
 * epoch, call and try: the owner and a takeover, however often they book the call, write the same row. Any other call gets a new id.
 */
export function usageIdOf(
  { runId, step, call }: CallFacts,
  { number, nextUsageId }: { number: number; nextUsageId(): string },
): string {
  if (call === undefined || runId === undefined) return nextUsageId();
  return deriveId("usg", { runId, name: `${call.epoch} ${step ?? "-"} ${call.name} ${number}` });
}
