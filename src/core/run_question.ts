import { isJsonObject, type Json, type JsonObject } from "./json.ts";
import type { ToolQuestion } from "./tool.ts";

/** What became of a question. `expired`: nobody answered in time. `cancelled`: a person, or its call ended before. */
export type QuestionState = "pending" | "answered" | "declined" | "expired" | "cancelled";

/** A question that a tool has asked people in the middle of a call. */
export interface RunQuestion {
  questionId: string;
  toolCallId: string;
  /** Who asks, as people know it. */
  source: string;
  kind: ToolQuestion["kind"];
  message: string;
  /** What else there is to see, as its kind has it: the schema of a form, an address, a model. */
  asked: JsonObject;
  /** RFC 3339, by the replica's clock; Postgres' clock decides. */
  expiresAt: string;
}

/** The name of the `data` events and parts that questions are in a log and in a message. */
const QUESTION = "question";
const KINDS: readonly RunQuestion["kind"][] = ["form", "url", "sampling"];
/** All that can become of a question. */
export const QUESTION_STATES: readonly QuestionState[] = [
  "pending",
  "answered",
  "declined",
  "expired",
  "cancelled",
];

/** The event that says how a question stands; what is to be filled in is in the first alone, and an answer's words in none. */
export function questionEvent(
  { questionId, asked, ...question }: RunQuestion,
  state: QuestionState,
) {
  const shown = state === "pending" ? asked : {};
  const data: JsonObject = { ...question, ...shown, state };
  return { type: "data" as const, name: QUESTION, id: questionId, data };
}

/** True for `data` that stands for a question. */
export function isQuestion({ name }: { name?: string }): boolean {
  return name === QUESTION;
}

/** The question of such an event or part; null for all else, and for one that is not of this form. */
export function readQuestion(
  part: { type: string; name?: string; data?: Json; id?: string },
): RunQuestion & { state: QuestionState } | null {
  const { data, id: questionId } = part;
  if (!isQuestion(part) || !isJsonObject(data) || questionId === undefined) return null;
  const { toolCallId, source, message, expiresAt, ...asked } = data;
  const kind = KINDS.find((known) => known === asked["kind"]);
  const state = QUESTION_STATES.find((known) => known === asked["state"]);
  delete asked["kind"];
  delete asked["state"];
  if (kind === undefined || state === undefined) return null;
  if (typeof toolCallId !== "string" || typeof source !== "string") return null;
  if (typeof message !== "string" || typeof expiresAt !== "string") return null;
  return { questionId, toolCallId, source, kind, message, asked, expiresAt, state };
}

/** What fields are called whose values are secret, whatever the schema says. */
const SECRET_NAME = /pass(word|phrase|code)|secret|token|credential|api_?key/i;

/** Fields of a form whose values nobody but the server may see. */
export function secretFieldsOf({ properties }: JsonObject): Set<string> {
  const fields = isJsonObject(properties) ? Object.entries(properties) : [];
  const isSecret = ([name, field]: [string, Json]) =>
    SECRET_NAME.test(name) ||
    isJsonObject(field) && (field["format"] === "password" || field["writeOnly"] === true);
  return new Set(fields.filter(isSecret).map(([name]) => name));
}
