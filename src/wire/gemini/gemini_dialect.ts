import { HubError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import { ChunkWriter, toCompletion } from "../chat_answer.ts";
import type { ChatAnswerFacts, ChatChunkMaker, ChatDialect } from "../chat_dialect.ts";
import { hasError } from "../errors/read_error.ts";
import { createSseChunks } from "../sse_chunks.ts";
import { decodeGeminiError, readGeminiErrorFacts } from "./decode_error.ts";
import { GeminiReader } from "./decode_parts.ts";
import { encodeGeminiRequest } from "./encode_request.ts";

/**
 * The Gemini API (`v1beta`, `generateContent` and `streamGenerateContent`) asked in chat completions.
 * `docs/providers.md` has what becomes of each field.
 */
export const GEMINI: ChatDialect = {
  encodeRequest: encodeGeminiRequest,
  startChunks,
  decodeAnswer,
  decodeError: decodeGeminiError,
  errorFacts: readGeminiErrorFacts,
};

function decodeAnswer(native: JsonObject, facts: ChatAnswerFacts): JsonObject {
  if (hasError(native)) return { error: decodeGeminiError(native, 500) };
  const reader = new GeminiReader(facts);
  const pieces = reader.read(native);
  const { finishReason, spoilt, usage } = reader;
  if (spoilt !== null) throw new HubError("upstream_malformed", spoilt);
  if (finishReason === null) {
    throw new HubError("upstream_malformed", "Gemini's answer does not say why it ended");
  }
  return toCompletion(facts, { pieces, finishReason, usage });
}

/** Gemini has no end mark: the answer is whole when it has said why it ended, and its body ends. */
function startChunks(facts: ChatAnswerFacts): ChatChunkMaker {
  const reader = new GeminiReader(facts);
  const writer = new ChunkWriter(facts);
  let failed = false;
  let done = false;
  const fail = (error: JsonObject) => {
    failed = true;
    return [{ error }];
  };
  return createSseChunks({
    read(frame) {
      if (failed) return [];
      if (hasError(frame)) return fail(decodeGeminiError(frame, 500));
      return writer.pieces(reader.read(frame));
    },
    end() {
      const { finishReason, spoilt, usage } = reader;
      if (failed) return [];
      if (spoilt !== null) {
        const code = "upstream_malformed";
        return fail({ message: spoilt, type: "server_error", param: null, code });
      }
      if (finishReason === null) return [];
      done = true;
      return writer.finish(finishReason, usage);
    },
    get done() {
      return done;
    },
  });
}
