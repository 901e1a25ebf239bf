import assert from "node:assert/strict";
import { toUpstreamError } from "../../src/wire/upstream_error.ts";

const codeOf = (message: string, status = 400, code: string | number | null = null) =>
  toUpstreamError({
    status,
    body: JSON.stringify({ error: { message, type: "invalid_request_error", code } }),
    headers: {},
    nowMs: 0,
    redact: (text) => text,
  }).code;

Deno.test("what is too long is known by the words of servers that have no code for it", () => {
  for (
    const message of [
      "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
      "the request exceeds the available context size (4096 tokens), try increasing it",
      "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
      "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
      "This endpoint's maximum context length is 128000 tokens. However, you requested about 130000",
      "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 32769".replaceAll(
        "`",
        "",
      ),
      "The prompt is too long: 9000, model maximum context length: 8191",
      "Trying to keep the first 9000 tokens: the number of tokens is greater than the context length",
    ]
  ) {
    assert.equal(codeOf(message), "context_length_exceeded", message);
    assert.equal(codeOf(message, 413), "context_length_exceeded");
    assert.notEqual(codeOf(message, 500), "context_length_exceeded");
    assert.equal(codeOf(message, 429), "upstream_rate_limited");
  }
  assert.equal(codeOf("x", 400, "context_length_exceeded"), "context_length_exceeded");
  for (const message of ["temperature must be at most 2", "unknown field context", "no context"]) {
    assert.equal(codeOf(message), "upstream_rejected", message);
  }
});
