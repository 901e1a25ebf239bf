import type { JsonObject } from "../../core/json.ts";
import { parsePlainJson } from "../../core/large_json/json_in_steps.ts";
import { COMPLETIONS } from "../../wire/openai_chat/chat_wire.ts";
import { rewriteChatRequest } from "../../wire/openai_chat/rewrite_request.ts";
import { type ChatRequestScan, scanChatRequest } from "../../wire/openai_chat/scan_request.ts";
import { askedBy } from "../asked_by.ts";
import { CACHE_FIELDS } from "../cache_header.ts";
import type { Call } from "../call.ts";
import { IDEMPOTENCY_HEADER } from "../idempotency_key.ts";
import type { Reply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import type { CompletionsOptions } from "./chat_completions.ts";
import { replyCompletion } from "./reply_completion.ts";
import { targetsThatServe } from "./targets_that_serve.ts";

/** `POST /v1/completions`: a text goes on. It passes to providers that have it; there is no translation. */
export function legacyCompletionsRoute(options: CompletionsOptions): Route {
  return defineRoute({
    method: "POST",
    path: "/v1/completions",
    auth: "user",
    tag: "proxy",
    summary: "A text completion, streamed or not",
    description: "OpenAI's legacy endpoint, at providers that speak OpenAI's API; all fields pass.",
    headers: { ...IDEMPOTENCY_HEADER, ...CACHE_FIELDS },
    body: "raw",
    responses: {
      200: {
        description: "The provider's answer",
        contentType: "application/json",
        orStream: true,
      },
      400: { description: "The request is not valid, or the model's provider has no completions" },
      404: { description: "There is no such model" },
    },
    handle: (call) => complete(call, options),
  });
}

async function complete(call: Call, options: CompletionsOptions): Promise<Reply> {
  const body = await call.readBody();
  const scan = await scanChatRequest(body);
  const { model: publicModel, stream } = scan;
  const choices = await choicesOf(body, scan);
  const targets = targetsThatServe("completions", options.resolve(publicModel));
  return await replyCompletion(call, {
    ...options,
    targets,
    repeatable: true,
    kind: "completions",
    model: publicModel,
    stream,
    asUi: false,
    place: "completions",
    asked: "",
    begin: (signal) =>
      options.openAnswer({
        targets,
        prepare({ model, quirks: { streamOptions } }) {
          const rewritten = rewriteChatRequest(body, { scan, model, streamOptions });
          return { wire: COMPLETIONS, ...rewritten };
        },
        stream,
        choices,
        bytes: body.length,
        signal,
        ...askedBy(call, { kind: "completions", publicModel }),
      }),
  });
}

/** Each prompt of a list is answered `n` times, out of `best_of` where that is whole; a list of tokens is one prompt. */
async function choicesOf(
  body: Uint8Array,
  { choices, stream }: ChatRequestScan,
): Promise<number> {
  const { prompt, best_of } = await parsePlainJson(body) as JsonObject;
  const made = !stream && Number.isSafeInteger(best_of)
    ? Math.max(choices, Number(best_of))
    : choices;
  const isList = Array.isArray(prompt) && prompt.length > 0 && typeof prompt[0] !== "number";
  return isList ? made * prompt.length : made;
}
