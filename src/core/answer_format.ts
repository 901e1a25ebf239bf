import { isJsonObject, type Json, type JsonSchema } from "./json.ts";

/** What an answer has to be: JSON that fits a schema, or any JSON object. */
export interface AnswerFormat {
  schema: JsonSchema | null;
}

/** Names of the `data` events and parts of a run whose answer is to be JSON. */
const ANSWER = "answer";
const PROBLEM = "answer-problem";

/** Any `data` event or part. */
interface NamedData {
  type: string;
  name?: string;
  data?: Json;
}

/** The event that says that an answer fits, and its value. */
export function answerEvent(step: number, value: Json) {
  return { type: "data" as const, name: ANSWER, id: `answer-${step}`, data: { value } };
}

/** The event that says why an answer does not fit, in the words that the model reads. */
export function problemEvent(step: number, text: string) {
  return { type: "data" as const, name: PROBLEM, id: `answer-problem-${step}`, data: { text } };
}

/** True for the `data` of such events. */
export function judgesAnswer({ name }: { name?: string }): boolean {
  return name === ANSWER || name === PROBLEM;
}

/** The value of an answer that fits; undefined for any other event or part. */
export function readAnswer({ type, name, data }: NamedData): Json | undefined {
  return type === "data" && name === ANSWER && isJsonObject(data) ? data["value"] : undefined;
}

/** What the model reads of an answer that does not fit; null for any other event or part. */
export function readProblem({ type, name, data }: NamedData): string | null {
  if (type !== "data" || name !== PROBLEM || !isJsonObject(data)) return null;
  return typeof data["text"] === "string" ? data["text"] : null;
}
