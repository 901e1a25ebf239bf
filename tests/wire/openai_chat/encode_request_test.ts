import assert from "node:assert/strict";
import fc from "fast-check";
import type { JsonObject } from "../../../src/core/json.ts";
import type { AssistantContent, ModelMessage, ModelRequest } from "../../../src/core/model.ts";
import { QUIRKS as QUIRKS_OF } from "../../../src/providers/quirks.ts";
import { MESSAGES } from "../../../src/wire/anthropic/messages_dialect.ts";
import { GEMINI } from "../../../src/wire/gemini/gemini_dialect.ts";
import {
  type ChatRequestQuirks,
  encodeChatRequest,
} from "../../../src/wire/openai_chat/encode_request.ts";
import { property } from "../../support/property.ts";

const QUIRKS: ChatRequestQuirks = {
  maxTokensField: "max_tokens",
  toolCallIdLength: 40,
  assistantAfterTools: false,
  reasoningAlways: false,
  parallelToolCalls: true,
  streamOptions: true,
  answerSchema: "strict",
  answerWithTools: true,
  toolImages: () => false,
  toolFailures: "text",
};
const CALL_ID = `call_${"0123456789abcdef".repeat(2)}`;
const TOOL = { name: "f", description: "Does f", parameters: { type: "object" }, strict: false };

function encode(request: Partial<ModelRequest>, quirks: Partial<ChatRequestQuirks> = {}) {
  return encodeChatRequest({ messages: [], tools: [], ...request }, {
    provider: "p",
    model: "m",
    quirks: { ...QUIRKS, ...quirks },
  });
}

const messagesOf = (messages: ModelMessage[], quirks: Partial<ChatRequestQuirks> = {}) =>
  encode({ messages }, quirks)["messages"] as JsonObject[];

const user = (text: string): ModelMessage => ({ role: "user", content: [{ type: "text", text }] });
const assistant = (...content: AssistantContent[]): ModelMessage => ({
  role: "assistant",
  content,
});
const call = (toolCallId: string): AssistantContent => ({
  type: "tool-call",
  toolCallId,
  toolName: "f",
  inputText: '{"a": 1}',
});
const result = (toolCallId: string, text = "done"): ModelMessage => ({
  role: "tool",
  results: [{ toolCallId, toolName: "f", text, images: [], isError: false }],
});

Deno.test("a request says the model, the messages, that it streams and that usage is wanted; no more", () => {
  assert.deepEqual(
    encode({ messages: [{ role: "system", text: "Be brief" }, user("Hi")] }),
    {
      model: "m",
      messages: [{ role: "system", content: "Be brief" }, { role: "user", content: "Hi" }],
      stream: true,
      stream_options: { include_usage: true },
    },
  );
});

Deno.test("settings get their wire names, and zero is a setting", () => {
  const body = encode({
    temperature: 0,
    topP: 0.5,
    maxOutputTokens: 100,
    responseFormat: { name: "answer", schema: { type: "object" } },
  });
  assert.equal(body["temperature"], 0);
  assert.equal(body["top_p"], 0.5);
  assert.equal(body["max_tokens"], 100);
  assert.deepEqual(body["response_format"], {
    type: "json_schema",
    json_schema: { name: "answer", schema: { type: "object" }, strict: true },
  });
});

Deno.test("of an answer's format a provider is asked for what it can do beside tools", () => {
  const schema = { type: "object" };
  const asked = (
    request: Partial<ModelRequest>,
    quirks: Partial<ChatRequestQuirks>,
    soft: { soft?: true } = { soft: true },
  ) => {
    const responseFormat = { name: "answer", schema, strict: true, ...soft };
    const body = encode({ responseFormat, ...request }, quirks);
    const format = body["response_format"] as JsonObject | undefined;
    const strict = (format?.["json_schema"] as JsonObject | undefined)?.["strict"];
    return [format?.["type"], strict, Array.isArray(body["tools"])];
  };
  const tools = [TOOL];
  assert.deepEqual(asked({ tools }, {}), ["json_schema", true, true]);
  assert.deepEqual(asked({ tools }, { answerSchema: "loose" }), ["json_schema", false, true]);
  assert.deepEqual(asked({ tools }, { answerSchema: "none" }), ["json_object", undefined, true]);
  const apart = { answerWithTools: false };
  assert.deepEqual(asked({ tools }, apart), [undefined, undefined, true]);
  assert.deepEqual(asked({ tools, toolChoice: "none" }, apart), ["json_schema", true, false]);
  assert.deepEqual(asked({}, apart), ["json_schema", true, false]);
  const hard = { answerSchema: "none", answerWithTools: false } as const;
  assert.deepEqual(asked({ tools }, hard, {}), ["json_schema", true, true]);
  const any = encode({ responseFormat: { name: "answer", schema: null } });
  assert.deepEqual(any["response_format"], { type: "json_object" });
});

Deno.test("further fields are copied, but never in place of the hub's own", () => {
  const body = encode({
    extra: { reasoning_effort: "low", model: "other", stream: false, messages: [], temperature: 2 },
    temperature: 1,
  });
  assert.equal(body["reasoning_effort"], "low");
  assert.equal(body["model"], "m");
  assert.equal(body["stream"], true);
  assert.equal(body["temperature"], 1);
});

Deno.test("servers that know fewer fields do not get them", () => {
  const request = { tools: [TOOL], parallelToolCalls: false, maxOutputTokens: 5 };
  const all = encode(request);
  assert.equal(all["parallel_tool_calls"], false);
  const few = encode(request, {
    streamOptions: false,
    parallelToolCalls: false,
    maxTokensField: "max_completion_tokens",
  });
  assert.equal("stream_options" in few, false);
  assert.equal("parallel_tool_calls" in few, false);
  assert.equal("max_tokens" in few, false);
  assert.equal(few["max_completion_tokens"], 5);
});

Deno.test("tools are functions; strict is said only where it holds", () => {
  const body = encode({ tools: [TOOL, { ...TOOL, name: "g", strict: true }] });
  assert.deepEqual(body["tools"], [
    {
      type: "function",
      function: { name: "f", description: "Does f", parameters: { type: "object" } },
    },
    {
      type: "function",
      function: { name: "g", description: "Does f", parameters: { type: "object" }, strict: true },
    },
  ]);
});

for (
  const [choice, wanted] of [
    [undefined, undefined],
    ["auto", undefined],
    ["none", "none"],
    ["required", "required"],
    [{ name: "f" }, { type: "function", function: { name: "f" } }],
  ] as const
) {
  Deno.test(`the tool choice ${JSON.stringify(choice)} is sent as ${JSON.stringify(wanted)}`, () => {
    const toolChoice = choice === undefined ? {} : { toolChoice: choice };
    assert.deepEqual(encode({ tools: [TOOL], ...toolChoice })["tool_choice"], wanted);
    const without = encode({ ...toolChoice, parallelToolCalls: true });
    assert.equal("tool_choice" in without || "parallel_tool_calls" in without, false);
  });
}

Deno.test("texts of a user are one text; with an image or a file they are parts", () => {
  const [plain] = messagesOf([{
    role: "user",
    content: [{ type: "text", text: "a" }, { type: "text", text: "b" }],
  }]);
  assert.equal(plain?.["content"], "a\nb");
  const [mixed] = messagesOf([{
    role: "user",
    content: [
      { type: "text", text: "see" },
      { type: "image", url: "https://x/a.png", mediaType: "image/png" },
      { type: "file", url: "data:application/pdf;base64,AA", mediaType: "application/pdf" },
      {
        type: "file",
        url: "data:text/plain;base64,AA",
        mediaType: "text/plain",
        filename: "a.txt",
      },
    ],
  }]);
  assert.deepEqual(mixed?.["content"], [
    { type: "text", text: "see" },
    { type: "image_url", image_url: { url: "https://x/a.png" } },
    { type: "file", file: { file_data: "data:application/pdf;base64,AA" } },
    { type: "file", file: { file_data: "data:text/plain;base64,AA", filename: "a.txt" } },
  ]);
});

Deno.test("calls and their results go back with the arguments as the model wrote them", () => {
  const wire = messagesOf([
    user("go"),
    assistant({ type: "text", text: "I " }, call(CALL_ID), { type: "text", text: "call" }),
    result(CALL_ID, "4"),
  ]);
  assert.deepEqual(wire.slice(1), [
    {
      role: "assistant",
      content: "I call",
      tool_calls: [{
        id: CALL_ID,
        type: "function",
        function: { name: "f", arguments: '{"a": 1}' },
      }],
    },
    { role: "tool", tool_call_id: CALL_ID, content: "4" },
  ]);
  assert.equal(messagesOf([assistant(call(CALL_ID))])[0]?.["content"], null);
});

Deno.test("encodeChatRequest: images stand inside results where the provider's dialect takes them there", () => {
  const image = { url: "data:image/png;base64,iVBORw0KGgo=", mediaType: "image/png" };
  const result = {
    toolCallId: CALL_ID,
    toolName: "f",
    text: "seen",
    images: [image],
    isError: false,
  };
  const input: ModelMessage[] = [
    { role: "user", content: [{ type: "text", text: "Look" }] },
    assistant(call(CALL_ID)),
    { role: "tool", results: [result] },
  ];
  const asked = (kind: "anthropic" | "google", model: string) =>
    encodeChatRequest(
      { messages: input, tools: [], maxOutputTokens: 10 },
      { provider: kind, model, quirks: QUIRKS_OF[kind] },
    );
  const messages = MESSAGES.encodeRequest(asked("anthropic", "claude-sonnet-4-5")).body;
  const [toolResult] = (messages["messages"] as JsonObject[]).at(-1)?.["content"] as JsonObject[];
  assert.deepEqual(toolResult?.["content"], [
    { type: "text", text: "seen" },
    { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } },
  ]);
  const partsOf = (model: string) => {
    const { contents } = GEMINI.encodeRequest(asked("google", model)).body;
    return (contents as JsonObject[]).slice(2).map(({ parts }) => parts as JsonObject[]);
  };
  const inlineData = { mimeType: "image/png", data: "iVBORw0KGgo=" };
  const [[part]] = partsOf("gemini-3-pro-preview") as [[JsonObject]];
  const { response, parts } = part["functionResponse"] as JsonObject;
  assert.deepEqual([response, parts], [{ output: "seen" }, [{ inlineData }]]);
  const [results, beside] = partsOf("gemini-2.5-flash");
  assert.equal(results?.length, 1);
  assert.deepEqual(beside, [{ text: "Image 1:" }, { inlineData }]);
  assert.equal(partsOf("gemini-3-pro-preview").length, 1);
});

Deno.test("images of results follow the results of the step, numbered through", () => {
  const image = (name: string) => ({ url: `https://x/${name}`, mediaType: "image/png" });
  const wire = messagesOf([{
    role: "tool",
    results: [
      {
        toolCallId: "c1",
        toolName: "f",
        text: "two",
        images: [image("a"), image("b")],
        isError: false,
      },
      { toolCallId: "c2", toolName: "f", text: "", images: [image("c")], isError: false },
    ],
  }]);
  assert.deepEqual(wire.map((message) => message["role"]), ["tool", "tool", "user"]);
  assert.equal(wire[0]?.["content"], "two\n(see image 1)\n(see image 2)");
  assert.equal(wire[1]?.["content"], "(see image 3)");
  const parts = wire[2]?.["content"] as JsonObject[];
  assert.deepEqual(parts.map((part) => part["text"] ?? part["image_url"]), [
    "Image 1:",
    { url: "https://x/a" },
    "Image 2:",
    { url: "https://x/b" },
    "Image 3:",
    { url: "https://x/c" },
  ]);
});

Deno.test("reasoning goes back only to the provider and model that it came from, in its field", () => {
  const from = (provider: string, model: string): AssistantContent => ({
    type: "reasoning",
    text: `by ${provider}/${model}`,
    origin: { provider, model, field: "reasoning_content" },
  });
  const [message] = messagesOf([
    assistant(from("p", "m"), from("other", "m"), from("p", "n"), { type: "text", text: "x" }),
  ]);
  assert.deepEqual(message, { role: "assistant", content: "x", reasoning_content: "by p/m" });
});

Deno.test("pieces of reasoning of one field are joined, texts and payloads alike", () => {
  const origin = { provider: "p", model: "m", field: "reasoning" };
  const details = { ...origin, field: "reasoning_details" };
  const [message] = messagesOf([assistant(
    { type: "reasoning", text: "a", origin },
    { type: "reasoning", text: "", origin: { ...details, payload: [{ signature: "1" }] } },
    { type: "reasoning", text: "b", origin },
    { type: "reasoning", text: "", origin: { ...details, payload: [{ signature: "2" }] } },
    call(CALL_ID),
  )]);
  assert.equal(message?.["reasoning"], "ab");
  assert.deepEqual(message?.["reasoning_details"], [{ signature: "1" }, { signature: "2" }]);
});

Deno.test("reasoning that came in parts of the content goes back there", () => {
  const origin = { provider: "p", model: "m", field: "content.thinking" };
  const reasoning: AssistantContent = { type: "reasoning", text: "hm", origin };
  const thinking = { type: "thinking", thinking: [{ type: "text", text: "hm" }] };
  const [said, called] = messagesOf([
    assistant(reasoning, { type: "text", text: "x" }),
    assistant(reasoning, call(CALL_ID)),
  ]);
  assert.deepEqual(said, { role: "assistant", content: [thinking, { type: "text", text: "x" }] });
  assert.deepEqual(called?.["content"], [thinking]);
  assert.equal("content.thinking" in (called ?? {}), false);
});

Deno.test("a server that wants reasoning always gets what there is, or an empty one", () => {
  const origin = { provider: "p", model: "m", field: "reasoning_content" };
  const wire = messagesOf([
    assistant({ type: "reasoning", text: "hm", origin }, { type: "text", text: "x" }),
    assistant({ type: "text", text: "y" }),
  ], { reasoningAlways: true });
  assert.deepEqual(wire.map((message) => message["reasoning_content"]), ["hm", ""]);
});

Deno.test("an assistant message with nothing but reasoning, or with nothing, is left out", () => {
  const origin = { provider: "p", model: "m", field: "reasoning" };
  const wire = messagesOf([assistant({ type: "reasoning", text: "hm", origin }), assistant()]);
  assert.deepEqual(wire, []);
});

Deno.test("where the server wants it an assistant stands between results and a user, also for images", () => {
  const history = [assistant(call(CALL_ID)), result(CALL_ID), user("and now?")];
  const rolesOf = (wire: JsonObject[]) => wire.map((message) => message["role"]).join(" ");
  assert.equal(rolesOf(messagesOf(history)), "assistant tool user");
  const strict = { assistantAfterTools: true };
  assert.equal(rolesOf(messagesOf(history, strict)), "assistant tool assistant user");
  const image: ModelMessage = {
    role: "tool",
    results: [{
      toolCallId: CALL_ID,
      toolName: "f",
      text: "x",
      images: [{ url: "https://x/a", mediaType: "image/png" }],
      isError: false,
    }],
  };
  assert.equal(
    rolesOf(messagesOf([assistant(call(CALL_ID)), image], strict)),
    [
      "assistant",
      "tool",
      "assistant",
      "user",
    ].join(" "),
  );
});

property(
  "ids of calls fit the server, stay apart, and are the same in a call and its result",
  fc.record({
    ids: fc.uniqueArray(fc.string({ unit: "grapheme", minLength: 1, maxLength: 60 }), {
      minLength: 1,
      maxLength: 5,
    }),
    length: fc.constantFrom(9, 40),
  }),
  ({ ids, length }) => {
    const wire = messagesOf([assistant(...ids.map(call)), ...ids.map((id) => result(id))], {
      toolCallIdLength: length,
    });
    const calls = wire[0]?.["tool_calls"] as JsonObject[];
    const called = calls.map((one) => String(one["id"]));
    assert.deepEqual(wire.slice(1).map((message) => message["tool_call_id"]), called);
    assert.equal(new Set(called).size, ids.length);
    for (const id of called) {
      assert.ok(id.length <= length);
      if (length === 9) assert.match(id, /^[a-z0-9]{9}$/);
    }
  },
);
