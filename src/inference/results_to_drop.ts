import { WorkStretch } from "../core/next_turn.ts";
import type { ModelToolResult } from "../core/model.ts";
import type { Tokenizer } from "../core/tokenizer.ts";
import { IMAGE_TOKENS } from "../wire/messages/estimate_tokens.ts";
import { COUNTED_CHARACTERS, countTokens } from "./measure_request.ts";
import { NO_ROOM } from "./tool_result_text.ts";

/** Characters that stand for a token where results are compared. */
const CHARACTERS_OF_TOKEN = 4;

/**
 * Which results to leave out, so that a request has `tokens` fewer; all that save anything when that is not enough.
 * `results` are the newest first. Those go first that the model reads elsewhere too (the same text stays in another one),
 * then the largest; of equals the newest. One that is no longer than what stands in its place is never left out.
 * Each is counted once: the request is neither built nor measured again for each of them.
 */
export async function resultsToDrop(
  results: readonly ModelToolResult[],
  { tokens, tokenizer }: { tokens: number; tokenizer: Tokenizer },
): Promise<string[]> {
  const stretch = new WorkStretch(COUNTED_CHARACTERS);
  const placeholder = await countTokens(NO_ROOM, { tokenizer, stretch });
  const dropped: string[] = [];
  let saved = 0;
  for (const { toolCallId, text, images } of byUse(results)) {
    if (saved >= tokens) break;
    const counted = await countTokens(text, { tokenizer, stretch });
    const saving = counted + images.length * IMAGE_TOKENS - placeholder;
    if (saving <= 0) continue;
    dropped.push(toolCallId);
    saved += saving;
  }
  return dropped;
}

/** The results in the order in which they can be done without. */
function byUse(results: readonly ModelToolResult[]): ModelToolResult[] {
  const seen = new Set<string>();
  const repeated = new Set<ModelToolResult>();
  // The oldest of the same text is the one that stays.
  for (const result of results.toReversed()) {
    if (result.images.length > 0) continue;
    if (seen.has(result.text)) repeated.add(result);
    seen.add(result.text);
  }
  const sizeOf = ({ text, images }: ModelToolResult) =>
    text.length / CHARACTERS_OF_TOKEN + images.length * IMAGE_TOKENS;
  return results.toSorted((a, b) =>
    Number(repeated.has(b)) - Number(repeated.has(a)) || sizeOf(b) - sizeOf(a)
  );
}
