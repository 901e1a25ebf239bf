import { HubError } from "../core/error.ts";
import { encodeJsonInSteps } from "../core/large_json/encode_json.ts";
import { parsePlainJson } from "../core/large_json/json_in_steps.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { MAX_RESPONSE_BYTES } from "../core/limits.ts";
import type { EmbeddingsDialect, EmbeddingVectors } from "../wire/embeddings_dialect.ts";
import { parseAnswer } from "../wire/read_members.ts";
import { readWhole } from "./read_whole.ts";
import { errorAnswer, jsonAnswer } from "./send_translated.ts";
import type { SendUpstream, UpstreamResponse } from "./transport.ts";

/**
 * Sends embeddings to a provider of another dialect: whoever calls sees a server of OpenAI's embeddings, which writes its
 * vectors as numbers. A request that the provider takes in parts goes out one part after another; the first error is the answer.
 */
export function sendEmbeddings(
  { send, dialect, baseUrl }: { send: SendUpstream; dialect: EmbeddingsDialect; baseUrl: string },
): SendUpstream {
  return async (request) => {
    const asked = await parsePlainJson(request.body ?? new Uint8Array(0)) as JsonObject;
    const parts: EmbeddingVectors[] = [];
    let last: UpstreamResponse | null = null;
    for (const native of dialect.encodeRequests(asked)) {
      last = await send({
        ...request,
        url: baseUrl + native.path,
        headers: [...request.headers, ...native.headers ?? []],
        body: await encodeJsonInSteps(native.body),
      });
      if (last.status < 200 || last.status > 299) return await errorAnswer(last, dialect);
      parts.push(dialect.decodeAnswer(await readObject(last)));
    }
    if (last === null) throw new HubError("internal_error", "No request was made of an input");
    return jsonAnswer(last, () => Promise.resolve(toAnswer(asked, parts)));
  };
}

async function readObject(response: UpstreamResponse): Promise<JsonObject> {
  const bytes = await readWhole(response, { maxBytes: MAX_RESPONSE_BYTES, onPiece() {} });
  return await parseAnswer(bytes);
}

/** An answer of OpenAI's; without `usage` when the provider does not count. */
function toAnswer(asked: JsonObject, parts: readonly EmbeddingVectors[]): JsonObject {
  const vectors = parts.flatMap((part) => part.vectors);
  const wanted = Array.isArray(asked["input"]) ? asked["input"].length : 1;
  if (vectors.length !== wanted) {
    throw new HubError(
      "upstream_malformed",
      `The provider's answer has ${vectors.length} embeddings, wanted ${wanted}`,
    );
  }
  const counts = parts.flatMap(({ promptTokens }) => promptTokens ?? []);
  const tokens = counts.reduce((sum, count) => sum + count, 0);
  const usage: Record<string, Json> = counts.length < parts.length
    ? {}
    : { usage: { prompt_tokens: tokens, total_tokens: tokens } };
  const data = vectors.map((embedding, index) => ({ object: "embedding", index, embedding }));
  return { object: "list", data, model: asked["model"] ?? null, ...usage };
}
