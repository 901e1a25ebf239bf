import { HubError } from "../../core/error.ts";
import { isJsonObject } from "../../core/json.ts";
import type { Usage } from "../../core/usage.ts";
import { hasError, readProviderError } from "../errors/read_error.ts";
import type { Redact } from "../provider_text.ts";
import { toAnswerError } from "../upstream_error.ts";
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
  if (hasError(answer) && !("choices" in answer)) {
    throw toAnswerError(readProviderError(answer, redact), { wire: "chat" });
  }
  return readUsage(answer["usage"]);
}

/** Members that tell the usage, or an error in place of an answer. */
const MEMBERS: ReadonlySet<string> = new Set([
  "usage",
  "error",
  "object",
  "message",
  "code",
  "type",
]);

/** The answer, whole or with a few members alone: building the values of all others would cost more than the rest. */
function readMembers(bytes: Uint8Array): unknown {
  const scanner = new JsonScanner(bytes);
  try {
    scanner.skipSpace();
    if (scanner.take(BRACE)) {
      const found: Record<string, unknown> = {};
      scanner.members((key) => {
        const from = scanner.position;
        scanner.value(2);
        const isWanted = MEMBERS.has(key);
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
