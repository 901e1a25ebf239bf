import { HubError } from "../../core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { NativeRequest } from "../chat_dialect.ts";
import { member, present } from "../chat_fields.ts";
import {
  dimensionsOf,
  embeddingInputs,
  type EmbeddingsDialect,
  type EmbeddingVectors,
} from "../embeddings_dialect.ts";
import { decodeGeminiError, readGeminiErrorFacts } from "./decode_error.ts";
import { modelPath } from "./encode_request.ts";

/** Texts that one `batchEmbedContents` takes. */
const BATCH = 100;

/** Gemini's `embedContent` and `batchEmbedContents` asked as embeddings; `task_type` and `title` are its own. */
export const GEMINI_EMBEDDINGS: EmbeddingsDialect = {
  encodeRequests,
  decodeAnswer,
  decodeError: decodeGeminiError,
  errorFacts: readGeminiErrorFacts,
};

function encodeRequests(request: JsonObject): NativeRequest[] {
  const inputs = embeddingInputs(request, { provider: "Gemini", own: ["task_type", "title"] });
  const path = modelPath(String(request["model"]));
  const options = {
    taskType: member(request, "task_type"),
    title: member(request, "title"),
    outputDimensionality: dimensionsOf(request),
  };
  const bodies = inputs.map((text) =>
    present({ model: path, content: { parts: [{ text }] }, ...options })
  );
  const [only] = bodies;
  if (bodies.length === 1 && only !== undefined) {
    return [{ path: `/${path}:embedContent`, body: only }];
  }
  const requests: NativeRequest[] = [];
  for (let at = 0; at < bodies.length; at += BATCH) {
    const body = { requests: bodies.slice(at, at + BATCH) };
    requests.push({ path: `/${path}:batchEmbedContents`, body });
  }
  return requests;
}

function decodeAnswer(native: JsonObject): EmbeddingVectors {
  const { embedding, embeddings = [embedding ?? null] } = native;
  const usage = native["usageMetadata"];
  const tokens = isJsonObject(usage) ? usage["promptTokenCount"] : null;
  return {
    vectors: Array.isArray(embeddings) ? embeddings.map(valuesOf) : [],
    promptTokens: typeof tokens === "number" ? tokens : null,
  };
}

function valuesOf(embedding: Json): Json {
  const values = isJsonObject(embedding) ? embedding["values"] : null;
  if (Array.isArray(values)) return values;
  throw new HubError("upstream_malformed", "Gemini's answer has an embedding without values");
}
