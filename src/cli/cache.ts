import { parseArgs } from "node:util";
import { isId } from "../core/id.ts";
import { type CacheOverview, clearCached, readCacheOverview } from "../store/cached_answers.ts";
import { openPostgres } from "../store/open_postgres.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import { type Command, refuseCall } from "./command.ts";
import { EXIT } from "./exit_codes.ts";
import { print } from "./print.ts";
import { formatSpan } from "./run_table.ts";
import { loadSystemConfig, systemHubOptions } from "./system.ts";

const OPTIONS = {
  config: { type: "string" },
  json: { type: "boolean", default: false },
  key: { type: "string" },
} as const;

/** `loophub cache`. */
export const CACHE: Command = {
  name: "cache",
  forms: {
    "": { args: "[--json]", summary: "what the response cache holds, and what it was good for" },
    clear: { args: "[--key KEY_ID]", summary: "drop its answers, all or those of one key" },
  },
  run: cache,
};

/** What the response cache holds, or empties it, beside a running hub too. */
async function cache(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
  const [verb, ...more] = positionals;
  const keyId = values.key ?? null;
  const clears = verb === "clear" && !values.json;
  const shows = verb === undefined && keyId === null;
  if (!(clears || shows) || more.length > 0 || (keyId !== null && !isId("key", keyId))) {
    return refuseCall(CACHE, positionals);
  }
  const options = systemHubOptions(await loadSystemConfig(values.config), { quiet: true });
  const postgres = await openPostgres(options.loaded, { ...options, share: true });
  const db = postgres.connect();
  try {
    const tenantId = DEFAULT_TENANT_ID;
    if (clears) print(`${await clearCached(db, { tenantId, keyId })} answers are dropped`);
    else {
      const overview = await readCacheOverview(db, tenantId);
      print(values.json ? JSON.stringify(overview) : formatOverview(overview));
    }
    return EXIT.ok;
  } finally {
    await db.close();
    await postgres.stop();
  }
}

/** What the cache holds, as lines for people. */
export function formatOverview(overview: CacheOverview): string {
  const { entries, bytes, hits, calls, oldestMs } = overview;
  const age = oldestMs === null ? "" : `, the oldest ${formatSpan(oldestMs)} old`;
  return `${entries} answers, ${Math.ceil(bytes / 1024)} KiB${age}
last 24 h: ${hits} requests answered from it, ${calls} proxied calls to providers`;
}
