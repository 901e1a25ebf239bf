import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { JsonObject } from "../core/json.ts";
import type { QuestionState, RunQuestion } from "../core/run_question.ts";
import type { Database } from "./database.ts";
import { toSealed } from "./mcp_grants.ts";
import type { RunKey } from "./runs.ts";
import type { SealedSecret, SecretPlace } from "./secret_box.ts";

/** Which question. */
export interface QuestionKey extends RunKey {
  questionId: string;
}

/** A question of a tool to people, without the answer's words. Times are RFC 3339. */
export interface StoredQuestion extends Omit<RunQuestion, "kind"> {
  runId: string;
  kind: string;
  state: QuestionState;
  /** The key that answered; null when nobody did, or the command line. */
  decidedBy: string | null;
  createdAt: string;
  decidedAt: string | null;
}

/** What a person says to a question. */
export interface QuestionAnswer {
  state: "answered" | "declined" | "cancelled";
  decidedBy: string | null;
  /** What was filled in; null for nothing. */
  content: SealedSecret | null;
}

/** What a question has become, for the call that waits for it. */
export interface TakenAnswer {
  state: Exclude<QuestionState, "pending">;
  content: SealedSecret | null;
}

interface Row {
  questionId: string;
  runId: string;
  toolCallId: string;
  source: string;
  kind: string;
  message: string;
  asked: JsonObject;
  state: QuestionState;
  decidedBy: string | null;
  createdAt: Date;
  expiresAt: Date;
  decidedAt: Date | null;
}

/** Where an answer is sealed for. */
export function answerPlace({ tenantId, questionId }: QuestionKey): SecretPlace {
  return { tenantId, id: questionId, field: "content" };
}

/**
 * Answers a question, if nobody has, its time is not over and its run goes on; true when it was this that did. By
 * Postgres' clock alone a question can be answered, or has expired.
 */
export async function answerQuestion(
  db: Database,
  key: QuestionKey,
  { state, decidedBy, content }: QuestionAnswer,
): Promise<boolean> {
  const { tenantId } = key;
  const rows = await db.within(db.control<{ id: string }[]>`
    update hub.questions q set state = ${state}, decided_at = now(),
      decided_by = ${decidedBy === null ? null : toUuid(decidedBy as Id)}::uuid,
      master_key_id = ${content?.masterKeyId ?? null}::text, nonce = ${
    content?.nonce ?? null
  }::bytea,
      ciphertext = ${content?.ciphertext ?? null}::bytea
    from hub.runs r
    where q.tenant_id = ${tenantId} and q.question_id = ${toUuid(key.questionId as Id)}
      and q.run_id = ${toUuid(key.runId as Id)} and q.state = 'pending' and q.expires_at > now()
      and r.tenant_id = q.tenant_id and r.run_id = q.run_id and r.finished_at is null
      and r.cancel_requested_at is null
    returning q.question_id as id`);
  return rows.length > 0;
}

/** Lets those of these questions expire whose time is over. */
export async function expireQuestions(
  db: Database,
  keys: readonly QuestionKey[],
): Promise<void> {
  await db.within(db.control`
    update hub.questions q set state = 'expired', decided_at = now()
    from jsonb_to_recordset(${
    db.control.json(toInput(keys))
  }::jsonb) as i(tenant_id uuid, question_id uuid)
    where q.tenant_id = i.tenant_id and q.question_id = i.question_id and q.state = 'pending'
      and q.expires_at <= now()`);
}

/** What those of these questions have become that wait no more, by id. */
export async function readAnswers(
  db: Database,
  keys: readonly QuestionKey[],
): Promise<Map<string, TakenAnswer>> {
  const rows = await db.within(db.control<
    ({ id: string; state: TakenAnswer["state"] } & Partial<Parameters<typeof toSealed>[0]>)[]
  >`
    select q.question_id as id, q.state, q.master_key_id, q.nonce, q.ciphertext
    from jsonb_to_recordset(${
    db.control.json(toInput(keys))
  }::jsonb) as i(tenant_id uuid, question_id uuid)
    join hub.questions q on q.tenant_id = i.tenant_id and q.question_id = i.question_id
    where q.state <> 'pending'`);
  return new Map(rows.map(({ id, state, master_key_id, nonce, ciphertext }) => {
    const content = master_key_id && nonce && ciphertext
      ? toSealed({ master_key_id, nonce, ciphertext })
      : null;
    return [fromUuid("qst", id), { state, content }];
  }));
}

/** The run's questions in the order in which they were asked. */
export async function listRunQuestions(db: Database, key: RunKey): Promise<StoredQuestion[]> {
  return await readQuestions(db, key, db.read`order by q.question_id`);
}

/** One question of a run; null when it has none of that id. */
export async function readQuestion(
  db: Database,
  key: QuestionKey,
): Promise<StoredQuestion | null> {
  const id = toUuid(key.questionId as Id);
  return (await readQuestions(db, key, db.read`and q.question_id = ${id}`))[0] ?? null;
}

/** What nobody has answered ends with its run and its time, which do not wait for a write of their own. */
async function readQuestions(
  db: Database,
  { tenantId, runId }: RunKey,
  rest: ReturnType<Database["read"]>,
): Promise<StoredQuestion[]> {
  const rows = await db.within(db.read<Row[]>`
    select q.question_id as "questionId", q.run_id as "runId", q.tool_call_id as "toolCallId", q.source, q.kind,
      q.message, q.asked, case when q.state <> 'pending' then q.state
        when r.finished_at is not null or r.cancel_requested_at is not null then 'cancelled'
        when q.expires_at <= now() then 'expired' else 'pending' end as state,
      q.decided_by as "decidedBy", q.created_at as "createdAt", q.expires_at as "expiresAt",
      q.decided_at as "decidedAt"
    from hub.questions q
    join hub.runs r on r.tenant_id = q.tenant_id and r.run_id = q.run_id
    where q.tenant_id = ${tenantId} and q.run_id = ${toUuid(runId as Id)} ${rest}`);
  return rows.map((row) => ({
    ...row,
    questionId: fromUuid("qst", row.questionId),
    runId: fromUuid("run", row.runId),
    toolCallId: fromUuid("call", row.toolCallId),
    decidedBy: row.decidedBy === null ? null : fromUuid("key", row.decidedBy),
    createdAt: row.createdAt.toISOString(),
    expiresAt: row.expiresAt.toISOString(),
    decidedAt: row.decidedAt?.toISOString() ?? null,
  }));
}

function toInput(keys: readonly QuestionKey[]) {
  return keys.map(({ tenantId, questionId }) => ({
    tenant_id: tenantId,
    question_id: toUuid(questionId as Id),
  }));
}
