import { isJsonObject } from "../core/json.ts";

/** What an answer says of itself beside its usage. */
export interface AnswerFacts {
  model: string | null;
  finishReasons: readonly string[];
}

/** Longest answer that is looked into, in bytes. */
const MAX_BYTES = 1024 * 1024;
const MAX_REASONS = 16;

/** Reads who gave a whole answer, and why it ended, in whichever dialect; what it does not say is left empty. */
export function readAnswerFacts(bytes: Uint8Array): AnswerFacts {
  const none: AnswerFacts = { model: null, finishReasons: [] };
  if (bytes.length > MAX_BYTES) return none;
  let answer: unknown;
  try {
    answer = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return none;
  }
  if (!isJsonObject(answer)) return none;
  const { model, choices, stop_reason: stopped, status } = answer;
  const reasons = Array.isArray(choices)
    ? choices.slice(0, MAX_REASONS).map((choice) =>
      isJsonObject(choice) ? choice["finish_reason"] : null
    )
    : [stopped ?? status];
  return {
    model: typeof model === "string" ? model : null,
    finishReasons: reasons.filter((reason) => typeof reason === "string"),
  };
}
