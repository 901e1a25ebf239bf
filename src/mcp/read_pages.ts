import type { Client } from "@modelcontextprotocol/client";
import { isJsonObject, type Json } from "../core/json.ts";
import { WorkStretch } from "../core/next_turn.ts";

/** Anything passes: one odd entry must not cost the others. */
export const ACCEPT_ALL = {
  "~standard": {
    version: 1 as const,
    vendor: "loophub",
    validate: (value: unknown) => ({ value: value as Json }),
  },
};

/** How long a page may take. */
export interface ReadOptions {
  signal: AbortSignal;
  timeoutMs: number;
}

const MAX_PAGES = 100;
/** Entries that are taken between two turns of the event loop: some are long. */
const STRETCH_ENTRIES = 8;

/**
 * Reads a list page by page and gives each entry to `take`, which says whether it wants more. A cursor that comes again
 * ends it. Rejects when the server refuses.
 */
export async function readPages(
  client: Client,
  { method, member, take }: { method: string; member: string; take(entry: Json): boolean },
  { signal, timeoutMs }: ReadOptions,
): Promise<void> {
  const seen = new Set<string>();
  const stretch = new WorkStretch(STRETCH_ENTRIES);
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const params = cursor === undefined ? {} : { cursor };
    const answer = await client.request({ method, params }, ACCEPT_ALL, {
      signal,
      timeout: timeoutMs,
    });
    if (!isJsonObject(answer)) return;
    const found = answer[member];
    let wantsMore = true;
    for (const entry of Array.isArray(found) ? found : []) {
      wantsMore = take(entry);
      await stretch.spend(1);
    }
    const next = answer.nextCursor;
    if (!wantsMore || typeof next !== "string" || next === "" || seen.has(next)) return;
    seen.add(next);
    cursor = next;
  }
}
