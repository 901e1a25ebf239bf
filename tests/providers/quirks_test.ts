import assert from "node:assert/strict";
import { PROVIDER_KINDS } from "../../src/config/known_providers.ts";
import type { ProviderKind } from "../../src/config/known_providers.ts";
import type { ModelRequest } from "../../src/core/model.ts";
import { QUIRKS } from "../../src/providers/quirks.ts";
import { encodeChatRequest } from "../../src/wire/openai_chat/encode_request.ts";

const CALL_ID = `call_${"0123456789abcdef".repeat(2)}`;

const REQUEST: ModelRequest = {
  messages: [
    { role: "user", content: [{ type: "text", text: "go" }] },
    {
      role: "assistant",
      content: [{ type: "tool-call", toolCallId: CALL_ID, toolName: "f", inputText: "{}" }],
    },
    {
      role: "tool",
      results: [{ toolCallId: CALL_ID, toolName: "f", text: "x", images: [], isError: false }],
    },
    { role: "user", content: [{ type: "text", text: "on" }] },
  ],
  tools: [{ name: "f", description: "", parameters: { type: "object" }, strict: false }],
  parallelToolCalls: true,
  maxOutputTokens: 10,
};

const encode = (kind: ProviderKind) =>
  encodeChatRequest(REQUEST, { provider: "p", model: "m", quirks: QUIRKS[kind] });

Deno.test("every kind of provider has its row, and no other has", () => {
  assert.deepEqual(Object.keys(QUIRKS).toSorted(), [...PROVIDER_KINDS].toSorted());
});

for (const kind of PROVIDER_KINDS) {
  Deno.test(`${kind}: a request holds one bound of output, and ids of calls that fit`, () => {
    const body = encode(kind);
    const bounds = ["max_tokens", "max_completion_tokens"].filter((name) => name in body);
    assert.deepEqual(bounds, [QUIRKS[kind].maxTokensField]);
    const text = JSON.stringify(body);
    const ids = [...text.matchAll(/"(?:id|tool_call_id)":"([^"]+)"/g)].map((match) => match[1]);
    assert.equal(ids.length, 2);
    assert.equal(ids[0], ids[1]);
    assert.ok((ids[0]?.length ?? 99) <= QUIRKS[kind].toolCallIdLength);
  });

  Deno.test(`${kind}: fixed fields are lower case, clean, and none that the client sends itself`, () => {
    for (const [name, value] of QUIRKS[kind].attribution) {
      assert.match(name, /^[a-z0-9-]+$/);
      assert.match(value, /^[\x20-\x7e]+$/);
      assert.doesNotMatch(
        name,
        /^(host|content-length|transfer-encoding|connection|accept-encoding|authorization)$/,
      );
    }
  });
}

Deno.test("Mistral wants nine letters and digits, an assistant behind results, no stream options", () => {
  const body = encode("mistral");
  const messages = body["messages"] as { role: string; tool_call_id?: string }[];
  assert.deepEqual(messages.map((message) => message.role), [
    "user",
    "assistant",
    "tool",
    "assistant",
    "user",
  ]);
  assert.match(messages[2]?.tool_call_id ?? "", /^[a-zA-Z0-9]{9}$/);
  assert.equal("stream_options" in body, false);
});

Deno.test("OpenAI's newer models take only max_completion_tokens; most others know only max_tokens", () => {
  assert.equal(encode("openai")["max_completion_tokens"], 10);
  assert.equal(encode("openai-compatible")["max_tokens"], 10);
});

Deno.test("Ollama does not know parallel_tool_calls", () => {
  assert.equal("parallel_tool_calls" in encode("ollama"), false);
  assert.equal(encode("openai")["parallel_tool_calls"], true);
});

Deno.test("DeepSeek wants reasoning on every assistant message, empty where there is none", () => {
  const reasoningOf = (kind: ProviderKind) =>
    (encode(kind)["messages"] as { role: string; reasoning_content?: string }[])
      .filter(({ role }) => role === "assistant")
      .map(({ reasoning_content }) => reasoning_content);
  assert.deepEqual(reasoningOf("deepseek"), [""]);
  assert.deepEqual(reasoningOf("openai"), [undefined]);
});

Deno.test("OpenRouter is told who calls", () => {
  assert.ok(QUIRKS.openrouter.attribution.some(([name]) => name === "http-referer"));
});
