import { isJsonObject, type JsonObject } from "../../src/core/json.ts";
import type { ChatAnswerFacts, ChatDialect } from "../../src/wire/chat_dialect.ts";
import { listAt } from "../support/at.ts";

export const FACTS: ChatAnswerFacts = {
  id: "chatcmpl-1",
  created: 1,
  model: "m",
  includeUsage: true,
};

const encoder = new TextEncoder();

/** The chunks that a dialect makes of a streamed answer, read in pieces that end at these bytes. */
export function chunksOf(
  dialect: ChatDialect,
  text: string,
  cuts: number[] = [],
): { chunks: JsonObject[]; done: boolean } {
  const bytes = encoder.encode(text);
  const maker = dialect.startChunks(FACTS);
  const chunks: JsonObject[] = [];
  let from = 0;
  for (const cut of [...cuts.toSorted((a, b) => a - b), bytes.length]) {
    chunks.push(...maker.push(bytes.slice(from, cut)));
    from = cut;
  }
  chunks.push(...maker.end());
  return { chunks, done: maker.done };
}

/** The choices of all chunks, in order. */
export function choicesOf(chunks: JsonObject[]): JsonObject[] {
  return chunks.flatMap((chunk) => listAt(chunk, "choices").filter(isJsonObject));
}
