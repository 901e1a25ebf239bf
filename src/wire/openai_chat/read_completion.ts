import { HubError } from "../../core/error.ts";
import { isJsonObject } from "../../core/json.ts";
import type { Usage } from "../../core/usage.ts";
import type { Redact } from "../provider_text.ts";
import { errorTextOf } from "./chat_tap.ts";
import { readUsage } from "./chat_usage.ts";

/**
 * The usage of an answer that was not streamed, null when it tells none. Throws `upstream_malformed` for what is no JSON
 * object, `upstream_error` for an error in the place of an answer.
 */
export function readCompletionUsage(bytes: Uint8Array, redact: Redact): Usage | null {
  let answer: unknown;
  try {
    answer = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new HubError("upstream_malformed", "The provider's answer is not JSON");
  }
  if (!isJsonObject(answer)) {
    throw new HubError("upstream_malformed", "The provider's answer is not a JSON object");
  }
  if (answer["error"] !== undefined && answer["error"] !== null && !("choices" in answer)) {
    throw new HubError(
      "upstream_error",
      `The provider reported an error: ${errorTextOf(answer, redact)}`,
    );
  }
  return readUsage(answer["usage"]);
}
