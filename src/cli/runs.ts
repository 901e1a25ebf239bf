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
import { type Command, type Forms, isVerb, refuseCall } from "./command.ts";
import { EXIT } from "./exit_codes.ts";
import { print, printText } from "./print.ts";
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

const FORMS = {
  "": { args: "[--all] [--limit N] [--json]", summary: "list active and recent runs" },
  watch: { args: "RUN_ID [--json]", summary: "follow one to its end" },
  steer: { args: "RUN_ID TEXT [--queue]", summary: "say something to it" },
  stop: { args: "RUN_ID", summary: "stop it" },
  approve: {
    args: "RUN_ID APPROVAL_ID [--remember once|session|always]",
    summary: "let a call run that waits for a person",
  },
  deny: { args: "RUN_ID APPROVAL_ID [REASON]", summary: "refuse it" },
  answer: {
    args: "RUN_ID QUESTION_ID accept|decline|cancel [JSON]",
    summary: "answer what a tool asks",
  },
} as const satisfies Forms;

/** `loophub runs`. */
export const RUNS: Command = { name: "runs", forms: FORMS, run: runs };

const MAX_LIMIT = 10_000;
const DAY_MS = 86_400_000;

/** Lists runs; follows, steers, stops or answers one of any replica, beside a running hub too. */
async function runs(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
  const [word = "", runId = "", ...more] = positionals;
  const text = more.join(" ");
  const verb = isVerb(FORMS, word) ? word : null;
  const remember = REMEMBER.find((reach) => reach === values.remember) ?? null;
  const isReach = values.remember === undefined || (remember !== null && verb === "approve");
  const limit = /^\d{1,5}$/.test(values.limit) ? Number(values.limit) : 0;
  if (verb === null || !isWhole(verb, runId, more) || !isReach || limit < 1 || limit > MAX_LIMIT) {
    return refuseCall(RUNS, positionals);
  }
  const options = systemHubOptions(await loadSystemConfig(values.config), { quiet: true });
  const { clock } = options;
  const postgres = await openPostgres(options.loaded, { ...options, share: true });
  const db = postgres.connect();
  try {
    const key = { tenantId: DEFAULT_TENANT_ID, runId };
    if (verb === "watch") return await watchRun(db, { runId, json: values.json, clock });
    if (verb !== "") {
      const { ids } = options;
      const said = { approved: verb === "approve", words: more, remember, ids };
      if (verb === "approve" || verb === "deny") await decide(db, { ...key, ...said });
      else if (verb === "answer") {
        const masterKey = await loadMasterKey({
          given: options.env("LOOPHUB_MASTER_KEY"),
          dataDir: postgres.dataDir,
          randomBytes: options.randomBytes,
        });
        await answer(db, { ...key, words: more, masterKey });
      } else if (verb === "steer") await steer(db, { ...key, text, queue: values.queue, ids });
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

/** Whether a verb has what it wants behind it. */
function isWhole(verb: keyof typeof FORMS, runId: string, more: readonly string[]): boolean {
  if (verb === "") return true;
  if (!isId("run", runId)) return false;
  const hasText = more.join(" ").trim() !== "";
  switch (verb) {
    case "approve":
      return isId("apr", more[0] ?? "") && more.length === 1;
    case "deny":
      return isId("apr", more[0] ?? "");
    case "answer":
      return isId("qst", more[0] ?? "") && isAction(more[1] ?? "");
    case "steer":
      return hasText;
    case "watch":
    case "stop":
      return !hasText;
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
