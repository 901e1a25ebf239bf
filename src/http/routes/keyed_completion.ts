import type { AbortLike } from "../../core/abort.ts";
import { type HubError, toHubError } from "../../core/error.ts";
import {
  type AnswerReader,
  type BegunAnswer,
  type IdempotentAnswers,
  REPLAYED_HEADERS,
} from "../../run/idempotent_answers.ts";
import type { ByteSource } from "../byte_source.ts";
import type { Call } from "../call.ts";
import { idempotencyFacts } from "../idempotency_key.ts";
import { bytesReply, type Reply } from "../reply.ts";
import { SSE_CONTENT_TYPE, sseReply } from "../sse_response.ts";
import { chatUiSource, type UiStreamOptions } from "./chat_ui_source.ts";
import {
  type FailureTeller,
  passThrough,
  readWholeAnswer,
  type ShownAnswer,
  wholeHeaders,
  within,
} from "./completion_reply.ts";

/** A completion that was asked for with an `Idempotency-Key`. */
export interface KeyedCompletion {
  answers: Pick<IdempotentAnswers, "open">;
  key: string;
  model: string;
  stream: boolean;
  asUi: boolean;
  ui: UiStreamOptions;
  /** The endpoint's name, within which a key is one. */
  place: string;
  /** What beside the body chooses the answer. */
  asked: string;
  keepaliveMs: number;
  /** Of a stream; an event stream's unless told. */
  contentType?: string;
  /** Opens the answer. */
  begin(signal: AbortLike): Promise<ShownAnswer>;
  /** How failures in mid-stream are told; as chat completions unless told. */
  failures?: FailureTeller;
}

/** Of the moment when the provider answered: they say nothing about a replay. */
const MOMENTARY = /^(?:x-ratelimit-|retry-after)/;

/** The answer under the request's key: the provider's own, or what an earlier request got or is getting. */
export async function keyedReply(call: Call, completion: KeyedCompletion): Promise<Reply> {
  const { answers, key, stream, asUi, keepaliveMs, place, asked } = completion;
  const facts = await idempotencyFacts(call, { key, place, asked });
  const reader = answers.open({
    ...facts,
    tenantId: call.principal.tenantId,
    begin: (signal) => begin(call, { ...completion, signal }),
  });
  const leave = () => reader.close();
  call.signal.addEventListener("abort", leave, { once: true });
  if (call.left) leave();
  const startedMs = call.clock.monotonic();
  try {
    const head = stream ? await within(reader.begun, call, keepaliveMs) : await reader.begun;
    const headers = head === null ? {} : headersFor(reader, head.headers);
    if (head !== null && !stream) {
      const bytes = await readWholeAnswer(reader);
      reader.close();
      return bytesReply(bytes, { contentType: head.contentType, headers });
    }
    return sseReply(sourceOf(reader, completion), {
      clock: call.clock,
      pingMs: keepaliveMs,
      open: head === null || asUi,
      contentType: completion.contentType,
      headers,
    });
  } catch (error) {
    reader.close();
    throw error;
  } finally {
    // Waiting for what another request gets is waiting for its provider.
    if (reader.replayed) call.addUpstreamWait(call.clock.monotonic() - startedMs);
  }
}

function headersFor(reader: AnswerReader, headers: Readonly<Record<string, string>>) {
  if (!reader.replayed) return headers;
  const lasting = Object.entries(headers).filter(([name]) => !MOMENTARY.test(name));
  return { ...Object.fromEntries(lasting), ...REPLAYED_HEADERS };
}

/** What all who ask with the key get. A UIMessage stream is rendered once for all of them, as its ids are minted. */
async function begin(
  call: Call,
  completion: KeyedCompletion & { signal: AbortLike },
): Promise<BegunAnswer> {
  const startedMs = call.clock.monotonic();
  let answer: ShownAnswer;
  try {
    answer = await completion.begin(completion.signal);
  } finally {
    call.addUpstreamWait(call.clock.monotonic() - startedMs);
  }
  const { stream, asUi, ui, model } = completion;
  let failure: HubError | null = null;
  const watched: ShownAnswer = {
    ...answer,
    async read() {
      try {
        return await answer.read();
      } catch (error) {
        throw failure = toHubError(error);
      }
    },
    cancel(reason) {
      failure ??= reason;
      answer.cancel(reason);
    },
  };
  const rendered = asUi ? chatUiSource(Promise.resolve(watched), { ...ui, model }) : null;
  return {
    head: stream
      ? { contentType: completion.contentType ?? SSE_CONTENT_TYPE, headers: answer.headers() }
      : { contentType: "application/json", headers: wholeHeaders(answer) },
    get failure() {
      return failure;
    },
    read: () => rendered === null ? watched.read() : rendered.pull(),
    cancel: (reason) => watched.cancel(reason),
  };
}

/** One reader's stream. */
function sourceOf(
  reader: AnswerReader,
  { asUi, ui, model, failures }: KeyedCompletion,
): ByteSource {
  const opened = reader.begun.then(() => ({ read: () => reader.read(), cancel() {} }));
  opened.catch(() => {});
  const source = asUi ? null : passThrough(opened, failures);
  let failed: ByteSource | null = null;
  return {
    async pull() {
      if (source !== null) return await source.pull();
      // The head is out: a failure is told in the stream.
      failed ??= await opened.then(
        () => null,
        (error) => chatUiSource(Promise.reject(error), { ...ui, model }),
      );
      return await (failed?.pull() ?? reader.read());
    },
    cancel: () => reader.close(),
  };
}
