import { HubError } from "../../core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { createSseParser } from "../../core/sse.ts";
import { type AnswerPiece, ChunkWriter, toCompletion } from "../chat_answer.ts";
import type { ChatAnswerFacts, ChatChunkMaker, ChatDialect } from "../chat_dialect.ts";
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
  if (isJsonObject(native["error"])) return { error: decodeMessagesError(native, 500) };
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
  let chunks: JsonObject[] = [];
  let usage: JsonObject = {};
  let reason: string | null = null;
  let failed = false;
  let done = false;

  const take = (event: JsonObject) => {
    const { index = null } = event;
    switch (event["type"]) {
      case "message_start":
        if (!isJsonObject(event["message"])) return;
        writer = new ChunkWriter(ownFacts(event["message"], facts));
        usage = mergeUsage(usage, event["message"]["usage"]);
        return;
      case "content_block_start":
        if (isJsonObject(event["content_block"])) {
          chunks.push(...writer.pieces(reader.start(index, event["content_block"])));
        }
        return;
      case "content_block_delta":
        if (isJsonObject(event["delta"])) {
          chunks.push(...writer.pieces(reader.delta(index, event["delta"])));
        }
        return;
      case "content_block_stop":
        chunks.push(...writer.pieces(reader.stop(index)));
        return;
      case "message_delta": {
        usage = mergeUsage(usage, event["usage"]);
        const delta = isJsonObject(event["delta"]) ? event["delta"] : {};
        if (typeof delta["stop_reason"] !== "string") return;
        reason = delta["stop_reason"];
        chunks.push(...writer.pieces(refusal(reason, delta["stop_details"])));
        return;
      }
      case "message_stop":
        if (reason === null || done) return;
        done = true;
        chunks.push(
          ...writer.finish(FINISH_REASONS[reason] ?? reason, readMessagesUsage(usage)),
        );
        return;
      case "error":
        failed = true;
        chunks.push({ error: decodeMessagesError(event, 500) });
    }
  };

  const parser = createSseParser({
    onEvent({ data }) {
      if (failed || done) return;
      let event: unknown;
      try {
        event = JSON.parse(data);
      } catch {
        return;
      }
      if (isJsonObject(event)) take(event);
    },
  });
  const drain = () => {
    const made = chunks;
    chunks = [];
    return made;
  };
  return {
    push(bytes) {
      parser.push(bytes);
      return drain();
    },
    end() {
      parser.end();
      return drain();
    },
    get done() {
      return done;
    },
  };
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
