import { createHash } from "node:crypto";
import { fromUuid, type Id, type IdPrefix, toUuid } from "./id.ts";

/**
 * The id that every replica derives from the same facts: the time of the run `runId`, and a hash of prefix, run and
 * `name`. Two calls with the same arguments give the same id.
 */
export function deriveId<P extends IdPrefix>(
  prefix: P,
  { runId, name }: { runId: string; name: string },
): Id<P> {
  const time = toUuid(runId as Id).replaceAll("-", "").slice(0, 12);
  const hex = createHash("sha256").update(`${prefix} ${runId} ${name}`).digest("hex");
  return fromUuid(prefix, `${time}7${hex.slice(0, 3)}8${hex.slice(3, 18)}`);
}
