import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { QuestionState, RunQuestion } from "../core/run_question.ts";
import { type AskedRow, askedState, readAsked } from "./asked_rows.ts";
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

type Row = Omit<StoredQuestion, keyof AskedRow> & AskedRow;

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
  return await readQuestions(db, key, db.read`order by a.question_id`);
}

/** One question of a run; null when it has none of that id. */
export async function readQuestion(
  db: Database,
  key: QuestionKey,
): Promise<StoredQuestion | null> {
  const id = toUuid(key.questionId as Id);
  return (await readQuestions(db, key, db.read`and a.question_id = ${id}`))[0] ?? null;
}

async function readQuestions(
  db: Database,
  { tenantId, runId }: RunKey,
  rest: ReturnType<Database["read"]>,
): Promise<StoredQuestion[]> {
  const rows = await db.within(db.read<Row[]>`
    select a.question_id as "questionId", a.run_id as "runId", a.tool_call_id as "toolCallId", a.source, a.kind,
      a.message, a.asked, ${askedState(db)} as state, a.decided_by as "decidedBy",
      a.created_at as "createdAt", a.expires_at as "expiresAt", a.decided_at as "decidedAt"
    from hub.questions a
    join hub.runs r on r.tenant_id = a.tenant_id and r.run_id = a.run_id
    where a.tenant_id = ${tenantId} and a.run_id = ${toUuid(runId as Id)} ${rest}`);
  return rows.map((row) => ({
    ...readAsked(row),
    questionId: fromUuid("qst", row.questionId),
  }));
}

function toInput(keys: readonly QuestionKey[]) {
  return keys.map(({ tenantId, questionId }) => ({
    tenant_id: tenantId,
    question_id: toUuid(questionId as Id),
  }));
}
