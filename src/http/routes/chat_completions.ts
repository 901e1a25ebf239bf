import { Type } from "@sinclair/typebox";
import { agentOfModel } from "../../config/model_name.ts";
import type { AbortLike } from "../../core/abort.ts";
import { HubError } from "../../core/error.ts";
import type { Answer, OpenAnswer } from "../../router/open_answer.ts";
import type { ResolveModel } from "../../router/resolve.ts";
import type { IdempotentAnswers } from "../../run/idempotent_answers.ts";
import type { AnswerCache } from "../../run/response_cache.ts";
import { CHAT } from "../../wire/openai_chat/chat_wire.ts";
import { rewriteChatRequest } from "../../wire/openai_chat/rewrite_request.ts";
import { type ChatRequestScan, scanChatRequest } from "../../wire/openai_chat/scan_request.ts";
import { type AgentModelOptions, completeByAgent } from "../agent_model/complete.ts";
import { askedBy } from "../asked_by.ts";
import { CACHE_FIELDS } from "../cache_header.ts";
import type { Call } from "../call.ts";
import { HANDED_HEADER } from "../handed.ts";
import { IDEMPOTENCY_HEADER } from "../idempotency_key.ts";
import type { Reply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import type { UiStreamOptions } from "./chat_ui_source.ts";
import { replyCompletion } from "./reply_completion.ts";

/** What the routes of completions need. */
export interface CompletionsOptions {
  resolve: ResolveModel;
  openAnswer: OpenAnswer;
  ui: UiStreamOptions;
  /** Silence before headers or bytes after which a stream gets a comment, in milliseconds; 0 = never. */
  keepaliveMs: number;
  /** Answers requests that carry an `Idempotency-Key`. */
  answers: Pick<IdempotentAnswers, "open">;
  /** Answers requests that ask for it. */
  cache: AnswerCache;
}

/**
 * `POST /v1/chat/completions`: the request goes to a provider as it came, the answer comes back as it came; of a model
 * that is an agent, the answer of its run.
 */
export function chatCompletionsRoute(
  options: CompletionsOptions,
  agents: AgentModelOptions,
): Route {
  return defineRoute({
    method: "POST",
    path: "/v1/chat/completions",
    auth: "user",
    tag: "proxy",
    summary: "A chat completion, streamed or not",
    description:
      "OpenAI's endpoint; all fields pass. `hub-stream: ui` or `?stream_format=ui` answers as a UIMessage stream. The model `agent/NAME` is the agent NAME: its run answers, with its own tools, and is stored; `budget`, `preflight`, `mcpAuth` and `tool_results` are fields of such requests.",
    query: Type.Object({ stream_format: Type.Optional(Type.String({ maxLength: 20 })) }),
    headers: {
      "hub-stream": "`ui`: a stream is answered as a UIMessage stream",
      ...IDEMPOTENCY_HEADER,
      ...CACHE_FIELDS,
      ...HANDED_HEADER,
    },
    body: "raw",
    responses: {
      200: {
        description: "The provider's answer",
        contentType: "application/json",
        orStream: true,
      },
      400: { description: "The request is not valid" },
      404: { description: "There is no such model" },
      409: { description: "The answer under the idempotency key was too large to be kept" },
      422: { description: "The idempotency key came before with another body" },
    },
    handle: (call) => complete(call, options, agents),
  });
}

async function complete(
  call: Call<unknown, { stream_format?: string }>,
  options: CompletionsOptions,
  agents: AgentModelOptions,
): Promise<Reply> {
  const body = await call.readBody();
  const scan = await scanChatRequest(body);
  const asUi = call.query.stream_format === "ui" || call.request.header("hub-stream") === "ui";
  if (asUi && !scan.stream) {
    throw new HubError("invalid_request", "A UIMessage stream wants stream: true", {
      param: "stream",
    });
  }
  const agent = agentOfModel(scan.model);
  if (agent !== null) {
    const { keepaliveMs } = options;
    return await completeByAgent(call, { agent, body, scan, asUi, keepaliveMs }, agents);
  }
  const targets = options.resolve(scan.model);
  return await replyCompletion(call, {
    ...options,
    targets,
    repeatable: !scan.store,
    model: scan.model,
    stream: scan.stream,
    asUi,
    place: "chat/completions",
    asked: asUi ? "ui" : "",
    begin: (signal) => open(call, { ...options, body, scan, targets, asUi, signal }),
  });
}

interface Opening extends CompletionsOptions {
  body: Uint8Array;
  scan: ChatRequestScan;
  targets: ReturnType<ResolveModel>;
  asUi: boolean;
  signal: AbortLike;
}

function open(call: Call, opening: Opening): Promise<Answer> {
  const { body, scan, asUi, targets } = opening;
  const asker = askedBy(call, { kind: "proxy", publicModel: scan.model });
  return opening.openAnswer({
    targets,
    prepare(target) {
      const { model, quirks: { streamOptions } } = target;
      const rewritten = rewriteChatRequest(body, { scan, model, streamOptions });
      return { wire: CHAT, body: rewritten.body, hideUsage: rewritten.hideUsage && !asUi };
    },
    stream: scan.stream,
    choices: scan.choices,
    bytes: body.length,
    ...asker,
    affinity: asker.affinity ?? scan.promptCacheKey,
    signal: opening.signal,
  });
}
