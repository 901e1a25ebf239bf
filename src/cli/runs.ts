import { parseArgs } from "node:util";
import { REMEMBER, type Remember } from "../core/approval.ts";
import { HubError } from "../core/error.ts";
import { type IdSource, isId } from "../core/id.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { answerQuestion } from "../run/approvals.ts";
import { giveAnswer, type QuestionWords } from "../run/give_answer.ts";
import { sayToRun } from "../run/say_to_run.ts";
import type { Database } from "../store/database.ts";
import { loadMasterKey, type MasterKey } from "../store/master_key.ts";
import { notify } from "../store/notify.ts";
import { openPostgres } from "../store/open_postgres.ts";
import { listRuns } from "../store/run_overview.ts";
import { requestStop, type RunKey } from "../store/runs.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import { EXIT } from "./exit_codes.ts";
import { print, printError, printText } from "./print.ts";
import { formatRuns } from "./run_table.ts";
import { loadSystemConfig, systemHubOptions } from "./system.ts";
import { watchRun } from "./watch_run.ts";

const OPTIONS = {
  config: { type: "string" },
  all: { type: "boolean", default: false },
  limit: { type: "string", default: "20" },
  json: { type: "boolean", default: false },
  queue: { type: "boolean", default: false },
  remember: { type: "string" },
} as const;

const USAGE = `loophub runs wants one of

  loophub runs [--all] [--limit N] [--json]
  loophub runs watch RUN_ID [--json]
  loophub runs steer RUN_ID TEXT [--queue]
  loophub runs stop RUN_ID
  loophub runs approve RUN_ID APPROVAL_ID [--remember once|session|always]
  loophub runs deny RUN_ID APPROVAL_ID [REASON]
  loophub runs answer RUN_ID QUESTION_ID accept|decline|cancel [JSON]`;
const MAX_LIMIT = 10_000;
const DAY_MS = 86_400_000;

/** `loophub runs`: lists runs; follows, steers, stops or answers one of any replica, beside a running hub too. */
export async function runs(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
  const [verb, runId = "", ...more] = positionals;
  const text = more.join(" ");
  const wantsText = verb === "steer";
  const decides = verb === "approve" || verb === "deny";
  const isVerb = isId("run", runId) &&
    (decides
      ? isId("apr", more[0] ?? "") && (verb === "deny" || more.length === 1)
      : verb === "answer"
      ? isId("qst", more[0] ?? "") && isAction(more[1] ?? "")
      : ["watch", "steer", "stop"].includes(verb ?? "") && (text.trim() !== "") === wantsText);
  const remember = REMEMBER.find((reach) => reach === values.remember) ?? null;
  const isReach = values.remember === undefined || (remember !== null && verb === "approve");
  const limit = /^\d{1,5}$/.test(values.limit) ? Number(values.limit) : 0;
  if ((verb !== undefined && !isVerb) || !isReach || limit < 1 || limit > MAX_LIMIT) {
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
      const { ids } = options;
      const said = { approved: verb === "approve", words: more, remember, ids };
      if (decides) await decide(db, { ...key, ...said });
      else if (verb === "answer") {
        const masterKey = await loadMasterKey({
          given: options.env("LOOPHUB_MASTER_KEY"),
          dataDir: postgres.dataDir,
          randomBytes: options.randomBytes,
        });
        await answer(db, { ...key, words: more, masterKey });
      } else if (wantsText) await steer(db, { ...key, text, queue: values.queue, ids });
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

async function decide(
  db: Database,
  { words: [approvalId = "", ...words], ...said }: RunKey & {
    approved: boolean;
    words: string[];
    remember: Remember | null;
    ids: IdSource;
  },
): Promise<void> {
  const reason = words.length === 0 ? null : words.join(" ");
  const answered = await answerQuestion(db, {
    ...{ ...said, approvalId, reason },
    ...{ by: null, hash: null, rememberSeconds: null },
  });
  printText(`${answered.toolName} is ${answered.state}`);
}

async function answer(
  db: Database,
  { words: [questionId = "", action = "", ...words], masterKey, ...key }: RunKey & {
    words: string[];
    masterKey: MasterKey;
  },
): Promise<void> {
  if (!isAction(action)) return;
  const content = words.length === 0 ? undefined : readContent(words.join(" "));
  const given = { ...key, questionId, action, content, by: null };
  const answered = await giveAnswer(db, given, masterKey);
  printText(`${answered.source} is ${answered.state}`);
}

function isAction(word: string): word is QuestionWords["action"] {
  return word === "accept" || word === "decline" || word === "cancel";
}

/** What was filled in; never shown in an error. */
function readContent(text: string): JsonObject {
  try {
    const content = JSON.parse(text) as Json;
    if (isJsonObject(content)) return content;
  } catch { /* said below */ }
  throw new HubError("invalid_request", 'The answer is no JSON object, such as {"name": "…"}');
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
  for (const line of lines) printText(line);
  return EXIT.ok;
}
