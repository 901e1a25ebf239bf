import { HubError } from "../core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { Access } from "../core/ownership.ts";
import { secretFieldsOf } from "../core/run_question.ts";
import type { ToolInputProblem } from "../core/tool.ts";
import { foreignValidator } from "../operations/foreign_schema.ts";
import { hasFormat } from "../operations/formats.ts";
import { describeProblems } from "../operations/registry.ts";
import type { Database } from "../store/database.ts";
import type { MasterKey } from "../store/master_key.ts";
import {
  answerPlace,
  answerQuestion,
  type QuestionKey,
  readQuestion,
  type StoredQuestion,
} from "../store/questions.ts";
import { sealSecret } from "../store/secret_box.ts";
import { assertMayAnswer } from "./may_answer.ts";

/** A person's answer to what a tool has asked. */
export interface QuestionWords extends QuestionKey {
  action: "accept" | "decline" | "cancel";
  /** What was filled in; left out, nothing was. */
  content?: JsonObject | undefined;
  /** Who answers; null: the command line, which may answer all. */
  by: Access | null;
}

const MAX_CONTENT_CHARS = 64 * 1024;
const STATES = { accept: "answered", decline: "declined", cancel: "cancelled" } as const;

/**
 * Answers a question, wherever its run is driven; of all answers one counts. What was filled in is sealed until the call has
 * it. Gives the question as it is then. Throws as `assertMayAnswer` does, `not_found`, `invalid_request` for content that does not fit, and `conflict` with the state as
 * its code when it was answered before, has expired, or ended with its call.
 */
export async function giveAnswer(
  db: Database,
  { action, content, by, ...key }: QuestionWords,
  masterKey: MasterKey,
): Promise<StoredQuestion> {
  const { questionId, runId } = key;
  if (by !== null) await assertMayAnswer(db, by, { runId });
  const question = await readQuestion(db, key);
  if (question === null) {
    throw new HubError("not_found", `The run ${runId} has no question ${questionId}`);
  }
  const filledIn = checkContent(question, { action, content });
  const sealed = filledIn === null
    ? null
    : await sealSecret(JSON.stringify(filledIn), { key: masterKey, place: answerPlace(key) });
  const answer = { state: STATES[action], decidedBy: by?.keyId ?? null, content: sealed };
  const isAnswered = await answerQuestion(db, key, answer);
  const after = await readQuestion(db, key) ?? question;
  if (isAnswered) return after;
  throw new HubError(
    "conflict",
    `${questionId} cannot be answered any more: it is ${after.state}`,
    { clientCode: `question_${after.state}` },
  );
}

/** What the call gets: the content as the form wants it, or null for an answer without any. */
function checkContent(
  { kind, asked: { schema } }: StoredQuestion,
  { action, content }: Pick<QuestionWords, "action" | "content">,
): JsonObject | null {
  if (action !== "accept" || kind !== "form") {
    if (content === undefined) return null;
    throw wrong(`content goes with accept and a form alone, not with ${action} of a ${kind}`);
  }
  const given = content ?? {};
  const chars = JSON.stringify(given).length;
  if (chars > MAX_CONTENT_CHARS) {
    throw wrong(`content has ${chars} characters, wanted are ${MAX_CONTENT_CHARS} at most`);
  }
  if (!isJsonObject(schema)) return given;
  const checked = foreignValidator(schema)(given);
  const problems = checked.ok ? wrongFormats(schema, checked.input) : checked.problems;
  if (checked.ok && problems.length === 0) return checked.input as JsonObject;
  const secret = secretFieldsOf(schema);
  const shown = problems.map((problem) =>
    secret.has(problem.path.split("/")[1] ?? "") ? { ...problem, got: "a secret" } : problem
  );
  throw wrong(`content does not fit: ${describeProblems(shown)}`);
}

/** The formats that forms of MCP have, which other schemas only hint at. */
function wrongFormats({ properties }: JsonObject, content: Json): ToolInputProblem[] {
  if (!isJsonObject(properties) || !isJsonObject(content)) return [];
  return Object.entries(content).flatMap(([name, value]) => {
    const field = Object.hasOwn(properties, name) ? properties[name] : undefined;
    const format = isJsonObject(field) ? field["format"] : undefined;
    if (typeof value !== "string" || typeof format !== "string") return [];
    return hasFormat(value, format)
      ? []
      : [{ path: `/${name}`, wanted: `the format ${format}`, got: "another text" }];
  });
}

function wrong(message: string): HubError {
  return new HubError("invalid_request", message, { param: "content" });
}
