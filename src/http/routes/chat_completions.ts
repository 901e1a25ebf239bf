import { Type } from "@sinclair/typebox";
import { HubError, toHubError } from "../../core/error.ts";
import type { Answer, OpenAnswer } from "../../router/open_answer.ts";
import type { ResolveModel } from "../../router/resolve.ts";
import { CHAT } from "../../wire/openai_chat/chat_wire.ts";
import { rewriteChatRequest } from "../../wire/openai_chat/rewrite_request.ts";
import { type ChatRequestScan, scanChatRequest } from "../../wire/openai_chat/scan_request.ts";
import type { ByteSource } from "../byte_source.ts";
import type { Call } from "../call.ts";
import { errorBody } from "../on_error.ts";
import { bytesReply, type Reply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { sseReply } from "../sse_response.ts";
import { chatUiSource, type UiStreamOptions } from "./chat_ui_source.ts";

/** What the proxy route needs. */
export interface ChatCompletionsOptions {
  resolve: ResolveModel;
  openAnswer: OpenAnswer;
  ui: UiStreamOptions;
  /** Silence before headers or bytes after which a stream gets a comment, in milliseconds; 0 = never. */
  keepaliveMs: number;
}

const encoder = new TextEncoder();

/** `POST /v1/chat/completions`: the request goes to a provider as it came, the answer comes back as it came. */
export function chatCompletionsRoute(options: ChatCompletionsOptions): Route {
  return defineRoute({
    method: "POST",
    path: "/v1/chat/completions",
    auth: "user",
    tag: "proxy",
    summary: "A chat completion, streamed or not",
    description:
      "OpenAI's endpoint; all fields pass. `hub-stream: ui` or `?stream_format=ui` answers as a UIMessage stream.",
    query: Type.Object({ stream_format: Type.Optional(Type.String({ maxLength: 20 })) }),
    headers: { "hub-stream": "`ui`: a stream is answered as a UIMessage stream" },
    body: "raw",
    responses: {
      200: {
        description: "The provider's answer",
        contentType: "application/json",
        orStream: true,
      },
      400: { description: "The request is not valid" },
      404: { description: "There is no such model" },
    },
    handle: (call) => complete(call, options),
  });
}

async function complete(
  call: Call<unknown, { stream_format?: string }>,
  options: ChatCompletionsOptions,
): Promise<Reply> {
  const body = await call.readBody();
  const scan = scanChatRequest(body);
  const targets = options.resolve(scan.model);
  const asUi = call.query.stream_format === "ui" || call.request.header("hub-stream") === "ui";
  if (asUi && !scan.stream) {
    throw new HubError("invalid_request", "A UIMessage stream wants stream: true", {
      param: "stream",
    });
  }
  const startedMs = call.clock.monotonic();
  const opened = open(call, { ...options, body, scan, targets, asUi });
  let answer: Answer | null;
  try {
    answer = scan.stream ? await within(opened, call, options.keepaliveMs) : await opened;
  } finally {
    // Up to the head, which may be made before the answer begins.
    call.addUpstreamWait(call.clock.monotonic() - startedMs);
  }
  if (answer !== null && !scan.stream) return await wholeReply(answer);
  const source = asUi
    ? chatUiSource(opened, { ...options.ui, model: scan.model })
    : passThrough(opened);
  return sseReply(source, {
    clock: call.clock,
    pingMs: options.keepaliveMs,
    open: answer === null || asUi,
    headers: answer === null ? {} : answer.attempt.passedHeaders(),
  });
}

interface Opening extends ChatCompletionsOptions {
  body: Uint8Array;
  scan: ChatRequestScan;
  targets: ReturnType<ResolveModel>;
  asUi: boolean;
}

function open(call: Call, opening: Opening): Promise<Answer> {
  const { body, scan, asUi, targets } = opening;
  const { principal } = call;
  return opening.openAnswer({
    targets,
    prepare(target) {
      const { model, quirks: { streamOptions } } = target;
      const rewritten = rewriteChatRequest(body, { scan, model, streamOptions });
      return { wire: CHAT, body: rewritten.body, hideUsage: rewritten.hideUsage && !asUi };
    },
    stream: scan.stream,
    choices: scan.choices,
    signal: call.signal,
    facts: {
      requestId: call.requestId,
      tenantId: principal.tenantId,
      keyId: principal.keyId,
      kind: "proxy",
      publicModel: scan.model,
    },
  });
}

async function wholeReply(answer: Answer): Promise<Reply> {
  const bytes = await answer.read() ?? new Uint8Array(0);
  await answer.read();
  return bytesReply(bytes, {
    contentType: "application/json",
    headers: {
      ...answer.attempt.passedHeaders(),
      "x-loophub-target": toVisibleAscii(answer.attempt.target.id),
    },
  });
}

/** The text as a header can carry it: everything but visible ASCII, and the percent sign, percent-encoded (RFC 3986, 2.1). */
function toVisibleAscii(text: string): string {
  return text.toWellFormed().replace(/[^!-$&-~]/gu, encodeURIComponent);
}

/** The answer if it begins in time; null when the client must see something before. Rejects with what prevented it. */
async function within(opened: Promise<Answer>, call: Call, ms: number): Promise<Answer | null> {
  if (ms === 0) return await opened;
  let timer: unknown;
  const late = new Promise<null>((resolve) => timer = call.clock.setTimer(() => resolve(null), ms));
  try {
    return await Promise.race([opened, late]);
  } finally {
    call.clock.clearTimer(timer);
  }
}

/** The provider's frames. A failure in mid-stream becomes an error frame, and then the connection breaks. */
function passThrough(opened: Promise<Answer>): ByteSource {
  let answer: Answer | null = null;
  let failure: HubError | null = null;
  let gone = false;
  opened.catch(() => {});
  return {
    async pull() {
      if (failure !== null) throw failure;
      try {
        answer ??= await opened;
        return await answer.read();
      } catch (error) {
        failure = toHubError(error);
        return encoder.encode(`data: ${JSON.stringify(errorBody(failure))}\n\n`);
      }
    },
    cancel() {
      if (gone) return;
      gone = true;
      // An answer that nobody has read from yet is accounted too, and gives its place back.
      opened.then(
        (answer) => answer.cancel(new HubError("client_closed", "The client left")),
        () => {},
      );
    },
  };
}
