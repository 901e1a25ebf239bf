import { Type } from "@sinclair/typebox";
import { agentOfModel } from "../../config/model_name.ts";
import { HubError } from "../../core/error.ts";
import type { IdSource } from "../../core/id.ts";
import type { ModelRequest } from "../../core/model.ts";
import { allows, type KeyPolicy } from "../../policy/key_policy.ts";
import type { OpenAnswer } from "../../router/open_answer.ts";
import { type ListedModel, modelNotFound, type ResolveModel } from "../../router/resolve.ts";
import type { IdempotentAnswers } from "../../run/idempotent_answers.ts";
import type { AnswerCache } from "../../run/response_cache.ts";
import { toChatRequest } from "../../wire/messages/messages_request.ts";
import {
  lineOf,
  type OllamaWriterOptions,
  translateToLines,
  translateToObject,
} from "../../wire/ollama/client_answer.ts";
import {
  chatOfOllama,
  isOllamaChat,
  OllamaChatRequest,
  OllamaGenerateRequest,
  promptOfOllama,
} from "../../wire/ollama/client_request.ts";
import { CHAT } from "../../wire/openai_chat/chat_wire.ts";
import { askedBy } from "../asked_by.ts";
import { CACHE_FIELDS } from "../cache_header.ts";
import type { Call } from "../call.ts";
import { IDEMPOTENCY_HEADER } from "../idempotency_key.ts";
import { jsonReply, type Reply } from "../reply.ts";
import { defineRoute, type OtherBody, type Route, type RouteFacts } from "../route.ts";
import { readWholeAnswer, tellInFrame } from "./completion_reply.ts";
import { replyCompletion } from "./reply_completion.ts";
import { readOnce, translatedAnswer } from "./translated_answer.ts";

/** What the routes of Ollama's API need. */
export interface OllamaOptions {
  models: () => readonly ListedModel[];
  resolve: ResolveModel;
  policyOf(keyId: string): KeyPolicy;
  openAnswer: OpenAnswer;
  ids: IdSource;
  /** Answers requests that carry an `Idempotency-Key`. */
  answers: Pick<IdempotentAnswers, "open">;
  /** Answers requests that ask for it. */
  cache: AnswerCache;
  now(): number;
}

/** The version of Ollama whose API this is: clients look for what theirs can do. */
const API_VERSION = "0.12.0";
const NDJSON = "application/x-ndjson";
const FAILURES = {
  ...tellInFrame(({ message }) => lineOf({ error: message })),
  // Every client of Ollama reads such a line as the end.
  endsWith: () => true,
};
const COMMON = { tag: "ollama", errors: "ollama" } as const satisfies Partial<RouteFacts>;
const Named = Type.Object({
  model: Type.Optional(Type.String({ minLength: 1, maxLength: 300 })),
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 300 })),
});

/** A request that is understood. */
interface Asked {
  model: string;
  stream: boolean;
  isChat: boolean;
  /** Null when it asks for nothing but that the model is there. */
  toRequest: ((options: { forOllama: boolean }) => ModelRequest) | null;
  unloads: boolean;
}

/** `/api/tags`, `/api/generate`, `/api/show` and `/api/version` of Ollama; its `/api/chat` is `ollamaChat`. */
export function ollamaRoutes(options: OllamaOptions): Route[] {
  const { models, policyOf, now } = options;
  return [
    defineRoute({
      ...COMMON,
      method: "GET",
      path: "/api/tags",
      auth: "user",
      summary: "Models that the key may call, as clients of Ollama list them",
      responses: { 200: { description: "`{models}`", contentType: "application/json" } },
      handle({ principal: { keyId } }) {
        const policy = policyOf(keyId);
        const modified_at = new Date(now()).toISOString();
        const callable = models().filter(({ id }) => allows(policy.models, id));
        return jsonReply({
          models: callable.map(({ id, ownedBy }) => (
            { name: id, model: id, modified_at, size: 0, digest: "", details: detailsOf(ownedBy) }
          )),
        });
      },
    }),
    defineRoute({
      ...COMMON,
      method: "POST",
      path: "/api/show",
      auth: "user",
      summary: "One model, as clients of Ollama ask for it",
      body: Named,
      responses: {
        200: { description: "What it can do", contentType: "application/json" },
        404: { description: "There is no such model, or none for this key" },
      },
      handle({ body, principal: { keyId } }) {
        const model = body.model ?? body.name ?? "";
        const [target] = findModel(model, keyId, options);
        return jsonReply({
          modelfile: "",
          parameters: "",
          template: "",
          details: detailsOf(target?.provider ?? "loophub"),
          model_info: { "general.architecture": "loophub" },
          capabilities: ["completion", "tools"],
        });
      },
    }),
    defineRoute({
      ...COMMON,
      method: "GET",
      path: "/api/version",
      auth: "user",
      isPolled: true,
      summary: "The version of Ollama whose API this is",
      responses: { 200: { description: "`{version}`", contentType: "application/json" } },
      handle: () => jsonReply({ version: API_VERSION }),
    }),
    defineRoute({
      ...COMMON,
      method: "POST",
      path: "/api/generate",
      auth: "user",
      summary: "The answer to a prompt, for clients of Ollama",
      description: "Lines of JSON unless `stream` is false.",
      headers: { ...IDEMPOTENCY_HEADER, ...CACHE_FIELDS },
      body: OllamaGenerateRequest,
      responses: {
        200: { description: "The answer", contentType: NDJSON },
        400: { description: "The request is not valid, or the model's provider cannot be told it" },
        404: { description: "There is no such model" },
      },
      handle(call) {
        const { model, stream, prompt = "", images } = call.body;
        const isAsked = prompt !== "" || (images ?? []).length > 0;
        return answer(call, options, {
          model,
          stream: stream !== false,
          isChat: false,
          toRequest: isAsked ? (made) => promptOfOllama(call.body, made) : null,
          unloads: call.body.keep_alive === 0,
        });
      },
    }),
  ];
}

/** Ollama's `POST /api/chat`, beside the one of AI SDK clients. */
export function ollamaChat(options: OllamaOptions): OtherBody {
  return {
    takes: isOllamaChat,
    schema: OllamaChatRequest,
    errors: "ollama",
    handle(call) {
      const body = call.body as OllamaChatRequest;
      return answer(call, options, {
        model: body.model,
        stream: body.stream !== false,
        isChat: true,
        toRequest: (body.messages ?? []).length > 0 ? (made) => chatOfOllama(body, made) : null,
        unloads: body.keep_alive === 0,
      });
    },
  };
}

async function answer(call: Call, options: OllamaOptions, asked: Asked): Promise<Reply> {
  const { model, stream, isChat, toRequest } = asked;
  const targets = findModel(model, call.principal.keyId, options);
  if (toRequest === null) return jsonReply(loadedOf(asked, options.now()));
  const requests = { own: toRequest({ forOllama: true }), others: toRequest({ forOllama: false }) };
  const bytes = (await call.readBody()).length;
  const begin = async (signal: Call["signal"]) => {
    const writing: OllamaWriterOptions = {
      ...{ model, isChat, now: options.now },
      monotonic: () => call.clock.monotonic(),
    };
    const opened = await options.openAnswer({
      targets,
      async prepare(target) {
        const request = target.kind === "ollama" ? requests.own : requests.others;
        const body = await toChatRequest(request, { target, stream });
        return { wire: CHAT, body, hideUsage: false };
      },
      stream,
      bytes,
      signal,
      ...askedBy(call, { kind: "proxy", publicModel: model }),
    });
    return translatedAnswer(
      opened,
      stream
        ? translateToLines(() => opened.read(), writing)
        : readOnce(async () => translateToObject(await readWholeAnswer(opened), writing)),
    );
  };
  return await replyCompletion(call, {
    ...{ answers: options.answers, cache: options.cache, targets, model, stream, begin },
    repeatable: true,
    asUi: false,
    ui: { ids: options.ids },
    contentType: NDJSON,
    // There is no line that says nothing.
    keepaliveMs: 0,
    place: isChat ? "ollama/chat" : "ollama/generate",
    asked: "",
    failures: FAILURES,
  });
}

/** Who serves a model that the key may call. */
function findModel(
  model: string,
  keyId: string,
  { resolve, policyOf }: OllamaOptions,
): ReturnType<ResolveModel> {
  if (agentOfModel(model) !== null) {
    throw new HubError(
      "invalid_request",
      `${model} is an agent: ask it at POST /v1/chat/completions, or as a chat of an AI SDK client`,
      { param: "model" },
    );
  }
  if (!allows(policyOf(keyId).models, model)) throw modelNotFound(model);
  return resolve(model);
}

/** What Ollama says when a model was only to be loaded, or let go. */
function loadedOf({ model, isChat, unloads }: Asked, nowMs: number) {
  return {
    model,
    created_at: new Date(nowMs).toISOString(),
    ...isChat ? { message: { role: "assistant", content: "" } } : { response: "" },
    done: true,
    done_reason: unloads ? "unload" : "load",
  };
}

function detailsOf(family: string) {
  return {
    parent_model: "",
    format: "",
    family,
    families: [family],
    parameter_size: "",
    quantization_level: "",
  };
}
