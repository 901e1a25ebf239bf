import type { Call } from "../call.ts";
import { readIdempotencyKey } from "../idempotency_key.ts";
import { bytesReply, type Reply } from "../reply.ts";
import { sseReply } from "../sse_response.ts";
import { type Cacheable, throughCache } from "./cached_completion.ts";
import { chatUiSource } from "./chat_ui_source.ts";
import {
  passThrough,
  readWholeAnswer,
  type ShownAnswer,
  wholeHeaders,
  within,
} from "./completion_reply.ts";
import { type KeyedCompletion, keyedReply } from "./keyed_completion.ts";

/** What a provider says to one request, streamed or whole; under its `Idempotency-Key` when it has one, from the cache when it asks for it. */
export async function replyCompletion(
  call: Call,
  completion: Omit<KeyedCompletion, "key" | "begin"> & Cacheable,
): Promise<Reply> {
  const begin = throughCache(call, completion);
  const key = readIdempotencyKey(call);
  if (key !== null) return await keyedReply(call, { ...completion, begin, key });
  const { stream, asUi, ui, model, keepaliveMs, failures } = completion;
  const startedMs = call.clock.monotonic();
  const opened = begin(call.signal);
  let answer: ShownAnswer | null;
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
    contentType: completion.contentType,
    headers: answer === null ? {} : answer.headers(),
  });
}
