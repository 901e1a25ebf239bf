import type { JsonObject } from "../core/json.ts";

/** How a dialect says that a tool failed: a member of the result, or the start of its text. */
export type FailureMark = "member" | "text";

/** The text of a failed result that has none: an empty one is refused by some, and tells nothing to the others. */
const NO_REASON = "The tool failed without a reason";

/** The member of a tool message that says so, as Anthropic calls it; chat completions have none of their own. */
export const IS_ERROR = "is_error";

/** The text of a failed result, which is never blank. */
export function failureText(text: string): string {
  return text.trim() === "" ? NO_REASON : text;
}

/** The same for a dialect that has nothing but text: it begins with `Error:`, once. */
export function markedFailure(text: string): string {
  return /^\s*error:/i.test(text) ? text : `Error: ${failureText(text)}`;
}

/** Whether a tool message of a chat request is the result of a failed call. */
export function isFailure(message: JsonObject): boolean {
  return message[IS_ERROR] === true;
}
