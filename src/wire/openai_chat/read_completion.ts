import { HubError } from "../../core/error.ts";
import { isJsonObject } from "../../core/json.ts";
import type { Usage } from "../../core/usage.ts";
import type { Redact } from "../provider_text.ts";
import { errorTextOf } from "./chat_frames.ts";
import { readUsage } from "./chat_usage.ts";
import { JsonScanner } from "./json_scanner.ts";

const BRACE = 0x7b;
const decoder = new TextDecoder();

/**
 * The usage of an answer that was not streamed, null when it tells none. Throws `upstream_malformed` for what is no JSON
 * object, `upstream_error` for an error in the place of an answer.
 */
export function readCompletionUsage(bytes: Uint8Array, redact: Redact): Usage | null {
  const answer = readMembers(bytes);
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

/** The answer, whole or with `usage` and `error` alone: building the values of all others would cost more than the rest. */
function readMembers(bytes: Uint8Array): unknown {
  const scanner = new JsonScanner(bytes);
  try {
    scanner.skipSpace();
    if (scanner.take(BRACE)) {
      const found: Record<string, unknown> = {};
      scanner.members((key) => {
        const from = scanner.position;
        scanner.value(2);
        const isWanted = key === "usage" || key === "error";
        if (isWanted) found[key] = scanner.parse({ from, to: scanner.position });
        else if (key === "choices") found[key] = null;
      });
      scanner.end();
      return found;
    }
  } catch {
    // The scan has bounds of its own; the parser has the last word.
  }
  try {
    return JSON.parse(decoder.decode(bytes));
  } catch {
    throw new HubError("upstream_malformed", "The provider's answer is not JSON");
  }
}
