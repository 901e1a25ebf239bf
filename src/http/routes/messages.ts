import type { IdSource } from "../../core/id.ts";
import { HubError } from "../../core/error.ts";
import type { HeaderPairs } from "../../providers/transport.ts";
import type { OpenAnswer } from "../../router/open_answer.ts";
import type { ResolveModel } from "../../router/resolve.ts";
import type { IdempotentAnswers } from "../../run/idempotent_answers.ts";
import type { AnswerCache } from "../../run/response_cache.ts";
import { messagesErrorBody } from "../../wire/messages/error_body.ts";
import { estimateTokens } from "../../wire/messages/estimate_tokens.ts";
import { TOKEN_COUNT_WIRE } from "../../wire/messages/messages_wire.ts";
import { scanMessagesRequest } from "../../wire/messages/scan_request.ts";
import { toFrame } from "../../wire/translated_events.ts";
import { askedBy } from "../asked_by.ts";
import { CACHE_FIELDS } from "../cache_header.ts";
import type { Call } from "../call.ts";
import { IDEMPOTENCY_HEADER } from "../idempotency_key.ts";
import { bytesReply, jsonReply, type Reply } from "../reply.ts";
import { defineRoute, type Route, type RouteFacts } from "../route.ts";
import { readWholeAnswer, show, tellInFrame, wholeHeaders } from "./completion_reply.ts";
import { isNative, type MessageRequest, nativeBody, openMessage } from "./open_message.ts";
import { replyCompletion } from "./reply_completion.ts";

/** What the routes of the Messages API need. */
export interface MessagesOptions {
  resolve: ResolveModel;
  openAnswer: OpenAnswer;
  ids: IdSource;
  /** Silence before headers or bytes after which a stream gets a comment, in milliseconds; 0 = never. */
  keepaliveMs: number;
  /** Answers requests that carry an `Idempotency-Key`. */
  answers: Pick<IdempotentAnswers, "open">;
  /** Answers requests that ask for it. */
  cache: AnswerCache;
}

/** Clients add `/messages` with and without `/v1`, to base URLs with and without it. */
const ANSWERS = [
  { method: "POST", path: "/v1/messages" },
  { method: "POST", path: "/messages" },
  { method: "POST", path: "/v1/v1/messages" },
] as const;
const COUNTS = [
  { method: "POST", path: "/v1/messages/count_tokens" },
  { method: "POST", path: "/messages/count_tokens" },
  { method: "POST", path: "/v1/v1/messages/count_tokens" },
] as const;
/** Tells a count that the hub made from one of the provider. */
const ESTIMATED = { "x-loophub-token-count": "estimated" };

const FIELDS = {
  "anthropic-version": "Version of the API, for providers that speak it",
  "anthropic-beta": "Beta features, for providers that speak this API",
};

/** `POST /v1/messages` and `POST /v1/messages/count_tokens`. */
export function messagesRoutes(options: MessagesOptions): Route[] {
  return [
    ...ANSWERS.map((place) =>
      defineRoute({
        ...COMMON,
        ...place,
        summary: "A message, streamed or not",
        description:
          "Anthropic's endpoint. To its own provider all fields pass; for another one the request is translated.",
        headers: { ...FIELDS, ...IDEMPOTENCY_HEADER, ...CACHE_FIELDS },
        responses: {
          200: { description: "The message", contentType: "application/json", orStream: true },
          ...REFUSALS,
        },
        handle: (call) => answer(call, options),
      })
    ),
    ...COUNTS.map((place) =>
      defineRoute({
        ...COMMON,
        ...place,
        summary: "How many tokens a message would have",
        description: "An estimate, which a header says, where the provider does not count.",
        headers: FIELDS,
        responses: {
          200: { description: "`{input_tokens}`", contentType: "application/json" },
          ...REFUSALS,
        },
        handle: (call) => count(call, options),
      })
    ),
  ];
}

const COMMON = {
  auth: "user",
  tag: "proxy",
  errors: "messages",
  body: "raw",
} satisfies Partial<RouteFacts>;

const REFUSALS = {
  400: { description: "The request is not valid, or the model's provider cannot be told it" },
  404: { description: "There is no such model" },
};

async function answer(call: Call, options: MessagesOptions): Promise<Reply> {
  const { ids, openAnswer, keepaliveMs, answers, cache } = options;
  const asked = await readRequest(call, options);
  const { model, stream } = asked.scan;
  return await replyCompletion(call, {
    answers,
    cache,
    targets: asked.targets,
    repeatable: true,
    keepaliveMs,
    model,
    stream,
    asUi: false,
    ui: { ids },
    place: "messages",
    asked: JSON.stringify(asked.headers),
    failures: tellInFrame((error) => toFrame(messagesErrorBody(error, call.requestId))),
    begin: (signal) => openMessage({ ...asked, signal }, openAnswer),
  });
}

async function count(call: Call, options: MessagesOptions): Promise<Reply> {
  const asked = await readRequest(call, options);
  const { targets, signal, facts, headers } = asked;
  const natives = targets.filter(isNative);
  const [first] = targets;
  if (first === undefined || !isNative(first)) {
    return jsonReply({ input_tokens: await estimateTokens(asked.body) }, { headers: ESTIMATED });
  }
  const startedMs = call.clock.monotonic();
  try {
    const counted = await options.openAnswer({
      targets: natives,
      prepare: async (target) => ({
        wire: TOKEN_COUNT_WIRE,
        body: await nativeBody(asked, target),
        hideUsage: false,
        headers,
        subpath: "/count_tokens",
      }),
      stream: false,
      bytes: asked.body.length,
      tags: asked.tags,
      affinity: asked.affinity,
      signal,
      span: asked.span,
      facts,
    });
    const bytes = await readWholeAnswer(counted);
    return bytesReply(bytes, {
      contentType: "application/json",
      headers: wholeHeaders(show(counted)),
    });
  } finally {
    call.addUpstreamWait(call.clock.monotonic() - startedMs);
  }
}

async function readRequest(
  call: Call,
  { resolve, ids }: MessagesOptions,
): Promise<MessageRequest> {
  const body = await call.readBody();
  const scan = await scanMessagesRequest(body);
  return {
    body,
    scan,
    targets: resolve(scan.model),
    ...askedBy(call, { kind: "proxy", publicModel: scan.model }),
    headers: passedFields(call),
    signal: call.signal,
    nextId: () => ids.next("msg"),
  };
}

const DEFAULT_VERSION = "2023-06-01";
const FIELD_VALUE = /^[ -~]{1,4000}$/;

function passedFields({ request }: Call): HeaderPairs {
  return Object.keys(FIELDS).flatMap((name): HeaderPairs => {
    const value = request.header(name) ?? (name === "anthropic-version" ? DEFAULT_VERSION : null);
    if (value === null) return [];
    if (FIELD_VALUE.test(value)) return [[name, value]];
    throw new HubError("invalid_request", `The ${name} header is no list of names`, {
      param: name,
    });
  });
}
