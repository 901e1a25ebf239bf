import { parseArgs } from "node:util";
import { isId } from "../core/id.ts";
import type { Database } from "../store/database.ts";
import { openPostgres } from "../store/open_postgres.ts";
import { listRuns } from "../store/run_overview.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import { EXIT } from "./exit_codes.ts";
import { print, printError } from "./print.ts";
import { formatRuns } from "./run_table.ts";
import { loadSystemConfig, systemHubOptions } from "./system.ts";
import { watchRun } from "./watch_run.ts";

const OPTIONS = {
  config: { type: "string" },
  all: { type: "boolean", default: false },
  limit: { type: "string", default: "20" },
  json: { type: "boolean", default: false },
} as const;

const USAGE = `loophub runs wants one of

  loophub runs [--all] [--limit N] [--json]
  loophub runs watch RUN_ID [--json]`;
const MAX_LIMIT = 10_000;
const DAY_MS = 86_400_000;

/** `loophub runs`: lists runs, or follows one of any replica to its end, beside a running hub too. */
export async function runs(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
  const [verb, runId = "", ...more] = positionals;
  const isWatch = verb === "watch" && isId("run", runId) && more.length === 0;
  const limit = /^\d{1,5}$/.test(values.limit) ? Number(values.limit) : 0;
  if ((verb !== undefined && !isWatch) || limit < 1 || limit > MAX_LIMIT) {
    printError(USAGE);
    return EXIT.usage;
  }
  const options = systemHubOptions(await loadSystemConfig(values.config), { quiet: true });
  const { clock } = options;
  const postgres = await openPostgres(options.loaded, { ...options, share: true });
  const db = postgres.connect();
  try {
    if (isWatch) return await watchRun(db, { runId, json: values.json, clock });
    const sinceMs = values.all ? 0 : clock.now() - DAY_MS;
    return await list(db, { sinceMs, limit, json: values.json });
  } finally {
    await db.close();
    await postgres.stop();
  }
}

async function list(
  db: Database,
  { json, ...options }: { sinceMs: number; limit: number; json: boolean },
): Promise<number> {
  const found = await listRuns(db, { ...options, tenantId: DEFAULT_TENANT_ID });
  const lines = json ? found.map((run) => JSON.stringify(run)) : formatRuns(found);
  for (const line of lines) print(line);
  return EXIT.ok;
}
