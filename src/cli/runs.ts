import { parseArgs } from "node:util";
import { HubError } from "../core/error.ts";
import { type IdSource, isId } from "../core/id.ts";
import { answerQuestion } from "../run/approvals.ts";
import { sayToRun } from "../run/say_to_run.ts";
import type { Database } from "../store/database.ts";
import { notify } from "../store/notify.ts";
import { openPostgres } from "../store/open_postgres.ts";
import { listRuns } from "../store/run_overview.ts";
import { requestStop, type RunKey } from "../store/runs.ts";
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
  queue: { type: "boolean", default: false },
} as const;

const USAGE = `loophub runs wants one of

  loophub runs [--all] [--limit N] [--json]
  loophub runs watch RUN_ID [--json]
  loophub runs steer RUN_ID TEXT [--queue]
  loophub runs stop RUN_ID
  loophub runs approve RUN_ID APPROVAL_ID
  loophub runs deny RUN_ID APPROVAL_ID [REASON]`;
const MAX_LIMIT = 10_000;
const DAY_MS = 86_400_000;

/** `loophub runs`: lists runs; follows, steers, stops or answers one of any replica, beside a running hub too. */
export async function runs(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
  const [verb, runId = "", ...more] = positionals;
  const text = more.join(" ");
  const wantsText = verb === "steer";
  const answers = verb === "approve" || verb === "deny";
  const isVerb = isId("run", runId) &&
    (answers
      ? isId("apr", more[0] ?? "") && (verb === "deny" || more.length === 1)
      : ["watch", "steer", "stop"].includes(verb ?? "") && (text.trim() !== "") === wantsText);
  const limit = /^\d{1,5}$/.test(values.limit) ? Number(values.limit) : 0;
  if ((verb !== undefined && !isVerb) || limit < 1 || limit > MAX_LIMIT) {
    printError(USAGE);
    return EXIT.usage;
  }
  const options = systemHubOptions(await loadSystemConfig(values.config), { quiet: true });
  const { clock } = options;
  const postgres = await openPostgres(options.loaded, { ...options, share: true });
  const db = postgres.connect();
  try {
    const key = { tenantId: DEFAULT_TENANT_ID, runId };
    if (verb === "watch") return await watchRun(db, { runId, json: values.json, clock });
    if (verb !== undefined) {
      if (answers) await answer(db, { ...key, approved: verb === "approve", words: more });
      else if (wantsText) await steer(db, { ...key, text, queue: values.queue, ids: options.ids });
      else await stop(db, key);
      if (options.loaded.config.database.notify) await notify(db, { stops: [runId], left: true });
      return EXIT.ok;
    }
    const sinceMs = values.all ? 0 : clock.now() - DAY_MS;
    return await list(db, { sinceMs, limit, json: values.json });
  } finally {
    await db.close();
    await postgres.stop();
  }
}

async function steer(
  db: Database,
  { queue, ids, ...said }: RunKey & { text: string; queue: boolean; ids: IdSource },
): Promise<void> {
  const kind = queue ? "queue" : "steer";
  const steeringId = ids.next("steer");
  await sayToRun(db, { ...said, kind, steeringId, clientId: null });
  print(steeringId);
}

async function answer(
  db: Database,
  { approved, words: [approvalId = "", ...words], ...key }: RunKey & {
    approved: boolean;
    words: string[];
  },
): Promise<void> {
  const reason = words.length === 0 ? null : words.join(" ");
  const answered = await answerQuestion(db, {
    ...{ ...key, approvalId, approved, reason },
    ...{ decidedBy: null, hash: null },
  });
  print(`${answered.toolName} is ${answered.state}`);
}

async function stop(db: Database, key: RunKey): Promise<void> {
  const asked = await requestStop(db, key);
  if (asked === null) throw new HubError("not_found", `There is no run ${key.runId}`);
  print(asked.stopped ? "it stops" : `it was ${asked.status} already`);
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
