import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { ModelUse } from "../core/model_use.ts";
import type { Usage } from "../core/usage.ts";
import type { Database } from "./database.ts";
import type { RunKey } from "./runs.ts";
import { ORPHANED } from "./usage_rows.ts";

/** What one model call of a run has used, as its row says. */
export interface RowUse {
  use: ModelUse;
  /** It is an estimate until the call's owner tells. */
  isOrphaned: boolean;
}

interface Row extends Omit<Usage, "totalTokens" | "cacheWriteTokens"> {
  id: string;
  cacheWriteTokens: number;
  costMicros: number | null;
  isTold: boolean;
  estimated: boolean;
  isOrphaned: boolean;
}

/** What the model calls of a run have used that have their rows, by the rows' ids. Those of runs below it are not among them. */
export async function readRunUsage(db: Database, key: RunKey): Promise<Map<string, RowUse>> {
  const rows = await db.within(db.read<Row[]>`
    select usage_id as id, coalesce(prompt_tokens, 0)::float8 as "promptTokens",
      coalesce(completion_tokens, 0)::float8 as "completionTokens",
      coalesce(cached_tokens, 0)::float8 as "cachedTokens",
      coalesce(reasoning_tokens, 0)::float8 as "reasoningTokens",
      coalesce(cache_write_tokens, 0)::float8 as "cacheWriteTokens", cost_micros::float8 as "costMicros",
      prompt_tokens is not null as "isTold", estimated, coalesce(error_code = ${ORPHANED}, false) as "isOrphaned"
    from hub.usage where tenant_id = ${key.tenantId} and run_id = ${toUuid(key.runId as Id)}`);
  return new Map(
    rows.map((row) => [fromUuid("usg", row.id), { use: useOf(row), isOrphaned: row.isOrphaned }]),
  );
}

function useOf(row: Row): ModelUse {
  const { promptTokens, completionTokens, cachedTokens, reasoningTokens, cacheWriteTokens } = row;
  const written = cacheWriteTokens === 0 ? {} : { cacheWriteTokens };
  return {
    usage: {
      promptTokens,
      completionTokens,
      totalTokens: promptTokens + completionTokens,
      cachedTokens,
      reasoningTokens,
      ...written,
    },
    // A call that used nothing cost nothing; of another one without a price the cost is unknown.
    costMicros: row.isTold ? row.costMicros : row.costMicros ?? 0,
    estimated: row.estimated,
  };
}
