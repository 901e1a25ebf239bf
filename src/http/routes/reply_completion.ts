import type { Call } from "../call.ts";
import { readIdempotencyKey } from "../idempotency_key.ts";
import { bytesReply, type Reply } from "../reply.ts";
import { sseReply } from "../sse_response.ts";
import { chatUiSource } from "./chat_ui_source.ts";
import {
  answerHeaders,
  type NotedAnswer,
  passThrough,
  readWholeAnswer,
  wholeHeaders,
  within,
} from "./completion_reply.ts";
import { type KeyedCompletion, keyedReply } from "./keyed_completion.ts";

/** What a provider says to one request, streamed or whole; under its `Idempotency-Key` when it has one. */
export async function replyCompletion(
  call: Call,
  completion: Omit<KeyedCompletion, "key">,
): Promise<Reply> {
  const key = readIdempotencyKey(call);
  if (key !== null) return await keyedReply(call, { ...completion, key });
  const { stream, asUi, ui, model, keepaliveMs, failures } = completion;
  const startedMs = call.clock.monotonic();
  const opened = completion.begin(call.signal);
  let answer: NotedAnswer | null;
  try {
    answer = stream ? await within(opened, call, keepaliveMs) : await opened;
  } finally {
    // Up to the head, which may be made before the answer begins.
    call.addUpstreamWait(call.clock.monotonic() - startedMs);
  }
  if (answer !== null && !stream) {
    const contentType = "application/json";
    return bytesReply(await readWholeAnswer(answer), {
      contentType,
      headers: wholeHeaders(answer),
    });
  }
  const source = asUi ? chatUiSource(opened, { ...ui, model }) : passThrough(opened, failures);
  return sseReply(source, {
    clock: call.clock,
    pingMs: keepaliveMs,
    open: answer === null || asUi,
    headers: answer === null ? {} : answerHeaders(answer),
  });
}
