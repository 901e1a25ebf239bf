import type { AbortLike } from "../../core/abort.ts";
import { spliceBytes } from "../../core/splice_bytes.ts";
import type { OpenAnswer } from "../../router/open_answer.ts";
import type { ResolveModel } from "../../router/resolve.ts";
import type { AnswerCache } from "../../run/response_cache.ts";
import { type EmbeddingEncoding, toEncoding } from "../../wire/embedding_encoding.ts";
import { EMBEDDINGS } from "../../wire/openai_chat/chat_wire.ts";
import { scanMembers, scanModel } from "../../wire/openai_chat/scan_request.ts";
import { askedBy } from "../asked_by.ts";
import { CACHE_FIELDS } from "../cache_header.ts";
import type { Call } from "../call.ts";
import { bytesReply, type Reply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { awaitAnswer } from "./await_answer.ts";
import { throughCache } from "./cached_completion.ts";
import { readWholeAnswer, wholeHeaders } from "./completion_reply.ts";
import { targetsThatServe } from "./targets_that_serve.ts";

/** What embeddings need. */
export interface EmbeddingsOptions {
  resolve: ResolveModel;
  openAnswer: OpenAnswer;
  /** Answers requests that ask for it. */
  cache: AnswerCache;
}

const WATCHED: ReadonlySet<string> = new Set(["model", "encoding_format"]);

/** `POST /v1/embeddings`: as it came to providers of OpenAI's API, translated for those with embeddings of their own. */
export function embeddingsRoute(options: EmbeddingsOptions): Route {
  return defineRoute({
    method: "POST",
    path: "/v1/embeddings",
    auth: "user",
    tag: "proxy",
    summary: "Embeddings of texts",
    description:
      "OpenAI's endpoint. Vectors come as `encoding_format` asks, whatever the provider makes of it.",
    headers: CACHE_FIELDS,
    body: "raw",
    responses: {
      200: { description: "The embeddings", contentType: "application/json" },
      400: { description: "The request is not valid, or the model's provider has no embeddings" },
      404: { description: "There is no such model" },
    },
    handle: (call) => embed(call, options),
  });
}

async function embed(call: Call, options: EmbeddingsOptions): Promise<Reply> {
  const body = await call.readBody();
  const scan = await scanMembers(body, WATCHED);
  const { model: publicModel, modelSpan } = scanModel(scan);
  const targets = targetsThatServe("embeddings", options.resolve(publicModel));
  const encoding = encodingOf(scan.read("encoding_format"));
  const begin = (signal: AbortLike) =>
    options.openAnswer({
      targets,
      prepare: ({ model }) => ({
        wire: EMBEDDINGS,
        body: model === publicModel
          ? body
          : spliceBytes(body, modelSpan, new TextEncoder().encode(JSON.stringify(model))),
        hideUsage: false,
      }),
      stream: false,
      // No token comes out that a budget would have to hold.
      choices: 0,
      bytes: body.length,
      signal,
      ...askedBy(call, { kind: "embeddings", publicModel }),
    });
  const open = throughCache(call, {
    cache: options.cache,
    targets,
    repeatable: true,
    model: publicModel,
    stream: false,
    kind: "embeddings",
    place: "embeddings",
    asked: "",
    begin,
  });
  const answer = await awaitAnswer(call, () => open(call.signal));
  const bytes = await readWholeAnswer(answer);
  const written = encoding === null ? bytes : await toEncoding(bytes, encoding);
  return bytesReply(written, {
    contentType: "application/json",
    headers: wholeHeaders(answer),
  });
}

/** What the vectors must be written as; null for a format of the provider's own, which is between it and the client. */
function encodingOf(format: unknown): EmbeddingEncoding | null {
  if (format === undefined || format === null || format === "float") return "float";
  return format === "base64" ? "base64" : null;
}
