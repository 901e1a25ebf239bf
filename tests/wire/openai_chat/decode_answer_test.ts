import assert from "node:assert/strict";
import type { ModelEvent } from "../../../src/core/model.ts";
import { decodeChatAnswer } from "../../../src/wire/openai_chat/decode_answer.ts";
import { chatFrames, type ChatStreamOptions } from "../../support/chat_replies.ts";

/** All events of an answer that comes in pieces of `size` bytes, and the code of its failure. */
async function decode(options: ChatStreamOptions, size: number) {
  const bytes = new TextEncoder().encode(chatFrames(options).join(""));
  let at = 0;
  const read = () => Promise.resolve(at < bytes.length ? bytes.slice(at, at += size) : null);
  const events: ModelEvent[] = [];
  try {
    for await (const some of decodeChatAnswer(read)) events.push(...some);
  } catch (error) {
    return { events, code: (error as { code: string }).code };
  }
  return { events, code: null };
}

Deno.test("what came before a failure is given, however the bytes are cut", async () => {
  const said = ["a ", "b "].map((delta): ModelEvent => ({ type: "text-delta", delta }));
  for (const size of [1, 40, 1_000_000]) {
    assert.deepEqual(await decode({ deltas: ["a ", "b ", "c"], errorFrameAfter: 3 }, size), {
      events: said,
      code: "upstream_error",
    });
    assert.deepEqual(await decode({ deltas: ["a ", "b ", "c"], endAfter: 3 }, size), {
      events: said,
      code: "upstream_cut",
    });
    assert.deepEqual(await decode({ deltas: ["a ", "b "] }, size), {
      events: [...said, { type: "finish", finishReason: "stop" }],
      code: null,
    });
  }
});
