import assert from "node:assert/strict";
import { readUsage } from "../../../src/wire/openai_chat/chat_usage.ts";

Deno.test("numbers that are no count of tokens are left out", () => {
  for (const odd of [-1, 1e300, 2 ** 63, "7", null, true]) {
    assert.equal(readUsage({ prompt_tokens: odd, completion_tokens: odd }), null, String(odd));
    assert.deepEqual(
      readUsage({
        prompt_tokens: 3,
        completion_tokens: 4.4,
        total_tokens: odd,
        prompt_tokens_details: { cached_tokens: odd },
        completion_tokens_details: odd,
      }),
      {
        promptTokens: 3,
        completionTokens: 4,
        totalTokens: 7,
        cachedTokens: 0,
        reasoningTokens: 0,
      },
    );
  }
});
