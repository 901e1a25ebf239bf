import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";

/**
 * How thinking travels in chat completions: an item of `reasoning_details` for each block, with this format. Its `index`
 * is the block's place in the answer, where all text counts as one block and each call as one.
 */
export const THINKING_FORMAT = "anthropic-claude-v1";

/** The item of a `thinking` or `redacted_thinking` block; null for a block that cannot go back. */
export function toDetail(block: JsonObject, index: number): JsonObject | null {
  const common = { format: THINKING_FORMAT, index };
  if (block["type"] === "redacted_thinking") {
    return { type: "reasoning.encrypted", data: block["data"] ?? "", ...common };
  }
  const { thinking, signature } = block;
  if (typeof signature !== "string") return null;
  return { type: "reasoning.text", text: thinking ?? "", signature, ...common };
}

/** A block with its place in the message, null where that is not known. */
export interface PlacedThinking {
  block: JsonObject;
  index: number | null;
}

/**
 * The blocks of a message's `reasoning_details`, in order. Other providers' items mean nothing here, and text without a
 * signature is refused there. Items that other gateways sent in pieces are put together.
 */
export function readThinking(message: JsonObject): PlacedThinking[] {
  const details: Json | undefined = message["reasoning_details"];
  const found: { block: JsonObject; index: number | null }[] = [];
  for (const detail of Array.isArray(details) ? details : []) {
    if (!isJsonObject(detail) || (detail["format"] ?? THINKING_FORMAT) !== THINKING_FORMAT) {
      continue;
    }
    const index = typeof detail["index"] === "number" ? detail["index"] : null;
    if (detail["type"] === "reasoning.encrypted" && typeof detail["data"] === "string") {
      found.push({ block: { type: "redacted_thinking", data: detail["data"] }, index });
    }
    if (detail["type"] !== "reasoning.text") continue;
    const text = typeof detail["text"] === "string" ? detail["text"] : "";
    const { signature } = detail;
    const signed: JsonObject = typeof signature === "string" ? { signature } : {};
    const last = found.at(-1);
    const isRest = last?.block["type"] === "thinking" && last.index === index &&
      !("signature" in last.block);
    if (isRest) {
      Object.assign(last.block, { thinking: String(last.block["thinking"]) + text, ...signed });
    } else found.push({ block: { type: "thinking", thinking: text, ...signed }, index });
  }
  return found.filter(({ block }) => block["type"] !== "thinking" || "signature" in block);
}

/** The thinking among what else the message holds: its text, then its calls, each a list of blocks. */
export function placeThinking(
  thinking: readonly PlacedThinking[],
  others: readonly JsonObject[][],
): JsonObject[] {
  const blocks: JsonObject[] = [];
  const left = [...others];
  let place = 0;
  for (const { block, index } of thinking) {
    for (; index !== null && place < index && left.length > 0; place++) {
      blocks.push(...left.shift() ?? []);
    }
    blocks.push(block);
    place++;
  }
  return [...blocks, ...left.flat()];
}
