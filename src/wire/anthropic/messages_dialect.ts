import { HubError } from "../../core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { type AnswerPiece, ChunkWriter, toCompletion } from "../chat_answer.ts";
import type { ChatAnswerFacts, ChatChunkMaker, ChatDialect } from "../chat_dialect.ts";
import { hasError } from "../errors/read_error.ts";
import { createSseChunks } from "../sse_chunks.ts";
import { BlockReader } from "./block_reader.ts";
import { decodeMessagesError, readMessagesErrorFacts } from "./decode_error.ts";
import { encodeMessagesRequest } from "./encode_request.ts";
import { FINISH_REASONS, mergeUsage, readMessagesUsage, refusalText } from "./message_facts.ts";

/**
 * The Messages API (`anthropic-version: 2023-06-01`) asked in chat completions. `docs/providers.md` has what becomes of
 * each field.
 */
export const MESSAGES: ChatDialect = {
  encodeRequest: encodeMessagesRequest,
  startChunks,
  decodeAnswer,
  decodeError: decodeMessagesError,
  errorFacts: readMessagesErrorFacts,
};

function decodeAnswer(native: JsonObject, facts: ChatAnswerFacts): JsonObject {
  if (hasError(native)) return { error: decodeMessagesError(native, 500) };
  const { content, stop_reason: reason } = native;
  if (!Array.isArray(content) || typeof reason !== "string") {
    throw new HubError("upstream_malformed", "The provider's answer is no message that has ended");
  }
  const reader = new BlockReader(facts);
  const pieces = content.flatMap((block, index) =>
    isJsonObject(block) ? [...reader.start(index, block), ...reader.stop(index)] : []
  );
  return toCompletion(ownFacts(native, facts), {
    pieces: [...joinArguments(pieces), ...refusal(reason, native["stop_details"])],
    finishReason: FINISH_REASONS[reason] ?? reason,
    usage: readMessagesUsage(native["usage"]),
  });
}

/** Calls with the arguments that came behind them. */
function joinArguments(pieces: readonly AnswerPiece[]): AnswerPiece[] {
  const texts = pieces.flatMap((piece) => piece.type === "arguments" ? [piece.text] : []);
  return pieces.flatMap((piece) => {
    if (piece.type === "arguments") return [];
    return [piece.type === "call" ? { ...piece, arguments: texts.shift() ?? "{}" } : piece];
  });
}

function startChunks(facts: ChatAnswerFacts): ChatChunkMaker {
  const reader = new BlockReader(facts);
  let writer = new ChunkWriter(facts);
  let usage: JsonObject = {};
  let reason: string | null = null;
  let failed = false;
  let done = false;

  const read = (event: JsonObject): JsonObject[] => {
    if (failed || done) return [];
    const { index = null, message, content_block: block, delta } = event;
    switch (event["type"]) {
      case "message_start":
        if (!isJsonObject(message)) return [];
        writer = new ChunkWriter(ownFacts(message, facts));
        usage = mergeUsage(usage, message["usage"]);
        return [];
      case "content_block_start":
        return isJsonObject(block) ? writer.pieces(reader.start(index, block)) : [];
      case "content_block_delta":
        return isJsonObject(delta) ? writer.pieces(reader.delta(index, delta)) : [];
      case "content_block_stop":
        return writer.pieces(reader.stop(index));
      case "message_delta":
        usage = mergeUsage(usage, event["usage"]);
        if (!isJsonObject(delta) || typeof delta["stop_reason"] !== "string") return [];
        reason = delta["stop_reason"];
        return writer.pieces(refusal(reason, delta["stop_details"]));
      case "message_stop":
        if (reason === null) return [];
        done = true;
        return writer.finish(FINISH_REASONS[reason] ?? reason, readMessagesUsage(usage));
      case "error":
        failed = true;
        return [{ error: decodeMessagesError(event, 500) }];
      default:
        if (event["type"] !== undefined || !hasError(event)) return [];
        failed = true;
        return [{ error: decodeMessagesError(event, 500) }];
    }
  };
  return createSseChunks({
    read,
    get done() {
      return done;
    },
  });
}

/** The facts as the provider tells them: its own id and the model's full name. */
function ownFacts(message: JsonObject, facts: ChatAnswerFacts): ChatAnswerFacts {
  const { id, model } = message;
  return {
    ...facts,
    ...(typeof id === "string" && id !== "" ? { id } : {}),
    ...(typeof model === "string" && model !== "" ? { model } : {}),
  };
}

function refusal(reason: string, details: Json | undefined): AnswerPiece[] {
  const text = refusalText(reason, details);
  return text === null ? [] : [{ type: "refusal", text }];
}
