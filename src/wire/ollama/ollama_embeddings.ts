import { HubError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import type { NativeRequest } from "../chat_dialect.ts";
import { member, present } from "../chat_fields.ts";
import {
  dimensionsOf,
  embeddingInputs,
  type EmbeddingsDialect,
  type EmbeddingVectors,
} from "../embeddings_dialect.ts";
import { decodeOllamaError } from "./ollama_dialect.ts";

const OWN: readonly string[] = ["truncate", "options", "keep_alive"];

/** Ollama's `/api/embed` asked as embeddings. Unless told it cuts no input that is too long: OpenAI's API refuses it too. */
export const OLLAMA_EMBEDDINGS: EmbeddingsDialect = {
  encodeRequests,
  decodeAnswer,
  decodeError: decodeOllamaError,
};

function encodeRequests(request: JsonObject): NativeRequest[] {
  const body = present({
    model: String(request["model"]),
    input: embeddingInputs(request, { provider: "Ollama", own: OWN }),
    dimensions: dimensionsOf(request),
    truncate: request["truncate"] ?? false,
    options: member(request, "options"),
    keep_alive: member(request, "keep_alive"),
  });
  return [{ path: "/embed", body }];
}

function decodeAnswer(native: JsonObject): EmbeddingVectors {
  const { embeddings: vectors, prompt_eval_count: tokens } = native;
  if (!Array.isArray(vectors) || !vectors.every(Array.isArray)) {
    throw new HubError("upstream_malformed", "Ollama's answer has no list of embeddings");
  }
  return { vectors, promptTokens: typeof tokens === "number" ? tokens : null };
}
