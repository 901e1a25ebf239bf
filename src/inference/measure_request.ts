import type { ModelMessage, ModelRequest } from "../core/model.ts";
import { WorkStretch } from "../core/next_turn.ts";
import type { Tokenizer } from "../core/tokenizer.ts";
import { documentTokens, IMAGE_TOKENS } from "../wire/messages/estimate_tokens.ts";

/** What stands around a message, a call or a result besides its text. */
const FRAME_TOKENS = 6;
/** Estimates are within this factor of the count, in both directions, for every text they were compared with. */
const DOUBT = 2;
/** Characters that are counted between two turns of the event loop: an estimate of them takes some 5 ms. */
export const COUNTED_CHARACTERS = 256 * 1024;
/** What a text costs besides its characters. */
const TEXT_UNITS = 64;

/** What a model reads of a request: texts, and what is counted without any. */
interface Read {
  texts: string[];
  flat: number;
}

/**
 * Tokens of a request. As long as an estimate is far below `limit` it is given as it is; nearer, the tokenizer counts,
 * as exactly as it can.
 */
export async function measureRequest(
  request: Pick<ModelRequest, "messages" | "tools">,
  { tokenizer, limit }: { tokenizer: Tokenizer; limit: number },
): Promise<number> {
  const { texts, flat } = readsOf(request);
  const stretch = new WorkStretch(COUNTED_CHARACTERS);
  let estimate = flat;
  for (const text of texts) estimate += await estimateTokens(text, { tokenizer, stretch });
  if (estimate * DOUBT <= limit) return estimate;
  let tokens = flat;
  for (const text of texts) tokens += await countTokens(text, { tokenizer, stretch });
  return tokens;
}

/** What a text is counted with. */
interface Counting {
  tokenizer: Tokenizer;
  stretch: WorkStretch;
}

/** Tokens of a text, counted; a text that is too long for one stretch is estimated in pieces. */
export async function countTokens(text: string, counting: Counting): Promise<number> {
  if (text.length > COUNTED_CHARACTERS) return await estimateTokens(text, counting);
  const { tokenizer, stretch } = counting;
  const counted = tokenizer.count(text);
  const tokens = typeof counted === "number" ? counted : await counted;
  await stretch.spend(text.length + TEXT_UNITS);
  return tokens;
}

async function estimateTokens(text: string, { tokenizer, stretch }: Counting): Promise<number> {
  let tokens = 0;
  for (let from = 0; from < text.length || from === 0; from += COUNTED_CHARACTERS) {
    const piece = text.slice(from, from + COUNTED_CHARACTERS);
    tokens += tokenizer.estimate(piece);
    await stretch.spend(piece.length + TEXT_UNITS);
  }
  return tokens;
}

/** Tokens of messages alone, counted. */
export async function measureMessages(
  messages: readonly ModelMessage[],
  tokenizer: Tokenizer,
): Promise<number> {
  return await measureRequest({ messages: [...messages], tools: [] }, { tokenizer, limit: 0 });
}

function readsOf({ messages, tools }: Pick<ModelRequest, "messages" | "tools">): Read {
  const read: Read = { texts: [], flat: 0 };
  for (const message of messages) readMessage(message, read);
  for (const { name, description, parameters } of tools) {
    read.texts.push(name, description, JSON.stringify(parameters));
    read.flat += FRAME_TOKENS;
  }
  return read;
}

function readMessage(message: ModelMessage, read: Read): void {
  read.flat += FRAME_TOKENS;
  switch (message.role) {
    case "system":
      read.texts.push(message.text);
      return;
    case "user":
      for (const piece of message.content) {
        if (piece.type === "text") read.texts.push(piece.text);
        else if (piece.type === "image") read.flat += IMAGE_TOKENS;
        else read.flat += documentTokens(piece.url.length);
      }
      return;
    case "assistant":
      for (const piece of message.content) {
        if (piece.type === "tool-call") {
          read.texts.push(piece.toolName, piece.inputText);
          read.flat += FRAME_TOKENS;
        } else {
          read.texts.push(piece.text);
          if (piece.type !== "reasoning" || piece.origin.payload === undefined) continue;
          read.texts.push(JSON.stringify(piece.origin.payload));
        }
      }
      return;
    case "tool":
      for (const { text, images } of message.results) {
        read.texts.push(text);
        read.flat += FRAME_TOKENS + images.length * IMAGE_TOKENS;
      }
  }
}
