import assert from "node:assert/strict";
import type { ProviderKind } from "../../src/config/known_providers.ts";
import type { JsonObject } from "../../src/core/json.ts";
import type { ModelMessage, ModelToolResult } from "../../src/core/model.ts";
import { QUIRKS } from "../../src/providers/quirks.ts";
import { translateRequest } from "../../src/wire/messages/messages_request.ts";
import { decodeInput } from "../../src/wire/openai_responses/decode_input.ts";
import { encodeChatRequest } from "../../src/wire/openai_chat/encode_request.ts";

const IMAGE = { url: "data:image/png;base64,iVBORw0KGgo=", mediaType: "image/png" };
const ANTHROPIC_IMAGE = {
  type: "image",
  source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" },
};
const INLINE = { inlineData: { mimeType: "image/png", data: "iVBORw0KGgo=" } };
const NO_REASON = "The tool failed without a reason";

/** A conversation whose last step had these results. */
function conversation(results: Partial<ModelToolResult>[]): ModelMessage[] {
  const whole = results.map((result, index) => ({
    toolCallId: `c${index}`,
    toolName: "f",
    text: "",
    images: [],
    isError: true,
    ...result,
  }));
  return [
    { role: "user", content: [{ type: "text", text: "Go" }] },
    {
      role: "assistant",
      content: whole.map(({ toolCallId, toolName }) => ({
        type: "tool-call",
        toolCallId,
        toolName,
        inputText: "{}",
      })),
    },
    { role: "tool", results: whole },
  ];
}

/** What a provider of this kind is sent behind the calls. */
function sentTo(kind: ProviderKind, messages: ModelMessage[], model = "m"): JsonObject[] {
  const quirks = QUIRKS[kind];
  const chat = encodeChatRequest({ messages, tools: [], maxOutputTokens: 9 }, {
    provider: kind,
    model,
    quirks,
  });
  return sentFor(kind, chat);
}

/** What a provider of this kind is sent for a chat request, behind the calls. */
function sentFor(kind: ProviderKind, chat: JsonObject): JsonObject[] {
  const body = QUIRKS[kind].dialect?.encodeRequest(chat).body ?? chat;
  return ((body["messages"] ?? body["contents"]) as JsonObject[]).slice(2);
}

const FAILED = conversation([
  { text: "no rows" },
  { text: "fine", isError: false },
  { text: "" },
  { text: "Error: broken" },
  { text: "seen", images: [IMAGE] },
]);

const openAi = (texts: string[]) =>
  texts.map((content, index) => ({ role: "tool", tool_call_id: `c${index}`, content }));
const SAID = ["Error: no rows", "fine", `Error: ${NO_REASON}`, "Error: broken"];
const IMAGE_BEHIND = {
  role: "user",
  content: [
    { type: "text", text: "Image 1:" },
    { type: "image_url", image_url: { url: IMAGE.url } },
  ],
};

Deno.test("failed tools: chat completions read Error: before the text, once", () => {
  const wanted = [...openAi([...SAID, "Error: seen\n(see image 1)"]), IMAGE_BEHIND];
  const kinds = Object.entries(QUIRKS).filter(([kind, { dialect, toolCallIdLength }]) =>
    dialect === null && toolCallIdLength > 9 && kind !== "demo"
  );
  assert.ok(kinds.length > 5);
  for (const [kind] of kinds) {
    assert.deepEqual(sentTo(kind as ProviderKind, FAILED), wanted, kind);
  }
  const mistral = sentTo("mistral", FAILED);
  assert.deepEqual(mistral.slice(0, 4).map(({ content }) => content), SAID);
});

Deno.test("failed tools: Anthropic gets is_error, text alone inside, images behind the results", () => {
  const result = (index: number, content: string, failed = true) => ({
    type: "tool_result",
    tool_use_id: `c${index}`,
    content,
    ...failed ? { is_error: true } : {},
  });
  assert.deepEqual(sentTo("anthropic", FAILED), [{
    role: "user",
    content: [
      result(0, "no rows"),
      result(1, "fine", false),
      result(2, NO_REASON),
      result(3, "Error: broken"),
      result(4, "seen"),
      { type: "text", text: "Of the failed call c4:" },
      ANTHROPIC_IMAGE,
    ],
  }]);
});

Deno.test("failed tools: Gemini gets the error member in place of the output", () => {
  const part = (index: number, response: JsonObject, more: JsonObject = {}) => ({
    functionResponse: { id: `c${index}`, name: "f", response, ...more },
  });
  const first = [
    part(0, { error: "no rows" }),
    part(1, { output: "fine" }),
    part(2, { error: NO_REASON }),
    part(3, { error: "Error: broken" }),
  ];
  assert.deepEqual(sentTo("google", FAILED, "gemini-3-pro-preview"), [
    { role: "user", parts: [...first, part(4, { error: "seen" }, { parts: [INLINE] })] },
  ]);
  assert.deepEqual(sentTo("google", FAILED, "gemini-2.5-flash"), [
    { role: "user", parts: [...first, part(4, { error: "seen\n(see image 1)" })] },
    { role: "user", parts: [{ text: "Image 1:" }, INLINE] },
  ]);
});

Deno.test("failed tools: Ollama reads Error: before the text, once", () => {
  const sent = sentTo("ollama", FAILED);
  const texts = sent.slice(0, 5).map(({ content }) => content);
  assert.deepEqual(texts, [...SAID, "Error: seen\n(see image 1)"]);
  assert.deepEqual(sent.at(-1), {
    role: "user",
    content: "Image 1:",
    images: ["iVBORw0KGgo="],
  });
});

Deno.test("failed tools: what a client of Anthropic's dialect marks reaches every dialect", async () => {
  const request = {
    model: "m",
    max_tokens: 9,
    messages: [
      { role: "user", content: "Go" },
      { role: "assistant", content: [{ type: "tool_use", id: "c0", name: "f", input: {} }] },
      {
        role: "user",
        content: [{ type: "tool_result", tool_use_id: "c0", content: "broken", is_error: true }],
      },
    ],
  };
  const { messages } = await translateRequest(new TextEncoder().encode(JSON.stringify(request)));
  const sent = (kind: ProviderKind) => JSON.stringify(sentTo(kind, messages)[0]);
  assert.match(sent("openai"), /"content":"Error: broken"/);
  assert.match(sent("ollama"), /"content":"Error: broken"/);
  assert.match(sent("google"), /"response":\{"error":"broken"\}/);
  assert.match(sent("anthropic"), /"content":"broken","is_error":true/);
});

Deno.test("failed tools: a chat client's is_error reaches dialects of their own", () => {
  const call = { id: "c0", type: "function", function: { name: "f", arguments: "{}" } };
  const chat = (content: string | JsonObject[]): JsonObject => ({
    model: "m",
    max_tokens: 9,
    messages: [
      { role: "user", content: "Go" },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "c0", content, is_error: true },
    ],
  });
  const image = { type: "image_url", image_url: { url: IMAGE.url } };
  const cases: [string | JsonObject[], RegExp, RegExp, RegExp][] = [
    ["bad", /"content":"bad","is_error":true/, /\{"error":"bad"\}/, /"content":"Error: bad"/],
    [
      [{ type: "text", text: "bad" }, image],
      /"content":"bad","is_error":true\}.*"type":"image"/,
      /\{"error":"bad"\}.*"inlineData"/,
      /"content":"Error: bad","images"/,
    ],
  ];
  for (const [content, anthropic, google, ollama] of cases) {
    const sent = (kind: ProviderKind) => JSON.stringify(sentFor(kind, chat(content)));
    assert.match(sent("anthropic"), anthropic);
    assert.match(sent("google"), google);
    assert.match(sent("ollama"), ollama);
  }
});

Deno.test("failed tools: a patch that did not apply is a failure for Responses", () => {
  const patch = (status: string) => [
    { type: "message", role: "user", content: "Go" },
    { type: "apply_patch_call", call_id: "c0", operation: { type: "delete_file", path: "a" } },
    { type: "apply_patch_call_output", call_id: "c0", status, output: "no such file" },
  ];
  const sent = (status: string) => sentTo("openai", decodeInput(patch(status)).messages)[0];
  assert.equal(sent("failed")?.["content"], "Error: failed\nno such file");
  assert.equal(sent("completed")?.["content"], "completed\nno such file");
});
