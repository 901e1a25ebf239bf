import type { Usage } from "../../core/usage.ts";
import { hasError, readProviderError } from "../errors/read_error.ts";
import type { Redact } from "../provider_text.ts";
import { readAnswerMembers } from "../read_members.ts";
import { toAnswerError } from "../upstream_error.ts";
import { readUsage } from "./chat_usage.ts";

/** Members that tell the usage, or an error in place of an answer. */
const MEMBERS: ReadonlySet<string> = new Set([
  "usage",
  "error",
  "object",
  "message",
  "code",
  "type",
]);
const CHOICES: ReadonlySet<string> = new Set(["choices"]);

/**
 * The usage of an answer that was not streamed, null when it tells none. Rejects `upstream_malformed` for what is no JSON
 * object, `upstream_error` for an error in the place of an answer.
 */
export async function readCompletionUsage(
  bytes: Uint8Array,
  redact: Redact,
): Promise<Usage | null> {
  const answer = await readAnswerMembers(bytes, { wanted: MEMBERS, present: CHOICES });
  if (hasError(answer) && !("choices" in answer)) {
    throw toAnswerError(readProviderError(answer, redact), { wire: "chat" });
  }
  return readUsage(answer["usage"]);
}
