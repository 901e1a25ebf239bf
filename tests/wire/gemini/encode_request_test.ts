import assert from "node:assert/strict";
import { HubError } from "../../../src/core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../src/core/json.ts";
import { GEMINI } from "../../../src/wire/gemini/gemini_dialect.ts";
import { at, listAt } from "../../support/at.ts";

const HI: Json = [{ role: "user", content: "Hi" }];
const ask = (extra: JsonObject = {}, messages: Json = HI) =>
  GEMINI.encodeRequest({ model: "gemini-3.8-flash", messages, ...extra });
const bodyOf = (extra: JsonObject = {}, messages: Json = HI) => ask(extra, messages).body;
const contents = (messages: Json, extra: JsonObject = {}) =>
  listAt(bodyOf(extra, messages), "contents");
/** The parts of one content, the first one unless said otherwise. */
const partsOf = (messages: Json, extra: JsonObject = {}, content = 0) =>
  listAt(contents(messages, extra), content, "parts").filter(isJsonObject);

function refused(extra: JsonObject, param: string, messages?: Json): void {
  assert.throws(() => ask(extra, messages), (error) => {
    assert.ok(error instanceof HubError);
    assert.deepEqual([error.code, error.param], ["invalid_request", param]);
    return true;
  });
}

const call = (id: string, name = "f", args = "{}"): JsonObject => ({
  id,
  type: "function",
  function: { name, arguments: args },
});

Deno.test("the path names the model and the method, and a name stays below its collection", () => {
  assert.equal(ask().path, "/models/gemini-3.8-flash:generateContent");
  assert.equal(
    ask({ stream: true }).path,
    "/models/gemini-3.8-flash:streamGenerateContent?alt=sse",
  );
  assert.equal(ask({ model: "models/gemini-x" }).path, "/models/gemini-x:generateContent");
  assert.equal(ask({ model: "tunedModels/a" }).path, "/tunedModels/a:generateContent");
  assert.equal(ask({ model: "../../x?y" }).path, "/models/..%2F..%2Fx%3Fy:generateContent");
});

Deno.test("a bare request has nothing but its contents", () => {
  assert.deepEqual(bodyOf(), { contents: [{ role: "user", parts: [{ text: "Hi" }] }] });
});

Deno.test("system messages at the beginning instruct, later ones are said at their place", () => {
  const body = bodyOf({}, [
    { role: "system", content: "A" },
    { role: "developer", content: [{ type: "text", text: "B" }] },
    { role: "user", content: "1" },
    { role: "system", content: "C" },
    { role: "assistant", content: "2" },
  ]);
  assert.deepEqual(body["systemInstruction"], { parts: [{ text: "A" }, { text: "B" }] });
  assert.deepEqual(body["contents"], [
    { role: "user", parts: [{ text: "1" }, { text: "C" }] },
    { role: "model", parts: [{ text: "2" }] },
  ]);
  assert.deepEqual(contents([{ role: "system", content: "alone" }]), [
    { role: "user", parts: [{ text: "alone" }] },
  ]);
});

Deno.test("media go inline or by address", () => {
  const image = (url: string) => ({ type: "image_url", image_url: { url, detail: "low" } });
  const parts = partsOf([{
    role: "user",
    content: [
      { type: "text", text: "see" },
      image("data:image/png;base64,QUJD"),
      image("https://x.test/a.webp?s=1"),
      image("https://x.test/picture"),
      { type: "input_audio", input_audio: { data: "QQ==", format: "mp3" } },
      { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,QQ==" } },
    ],
  }]);
  assert.deepEqual(parts, [
    { text: "see" },
    { inlineData: { mimeType: "image/png", data: "QUJD" } },
    { fileData: { mimeType: "image/webp", fileUri: "https://x.test/a.webp?s=1" } },
    { fileData: { fileUri: "https://x.test/picture" } },
    { inlineData: { mimeType: "audio/mpeg", data: "QQ==" } },
    { inlineData: { mimeType: "application/pdf", data: "QQ==" } },
  ]);
  const of = (part: JsonObject) => [{ role: "user", content: [part] }];
  refused({}, "messages[0].content[0]", of({ type: "file", file: { file_id: "file-1" } }));
  refused({}, "messages[0].content[0]", of(image("ftp://x/y")));
  refused({}, "messages[0].content[0].type", of({ type: "hologram" }));
});

Deno.test("results are one content in the order of their calls, before what the user says next", () => {
  const turns = contents([
    { role: "user", content: "go" },
    { role: "assistant", content: null, tool_calls: [call("a", "f", '{"x":1}'), call("b", "g")] },
    { role: "tool", tool_call_id: "b", content: [{ type: "text", text: "two" }] },
    { role: "tool", tool_call_id: "a", content: '{"$ref":"#/x"}' },
    { role: "user", content: "and?" },
  ], { model: "gemini-2.5-flash" });
  assert.deepEqual(turns.slice(1), [
    {
      role: "model",
      parts: [
        { functionCall: { id: "a", name: "f", args: { x: 1 } } },
        { functionCall: { id: "b", name: "g", args: {} } },
      ],
    },
    {
      role: "user",
      parts: [
        { functionResponse: { id: "a", name: "f", response: { output: '{"$ref":"#/x"}' } } },
        { functionResponse: { id: "b", name: "g", response: { output: "two" } } },
      ],
    },
    { role: "user", parts: [{ text: "and?" }] },
  ]);
  refused({}, "messages[0].tool_call_id", [{ role: "tool", tool_call_id: "x", content: "" }]);
  refused({}, "messages[0].role", [{ role: "function", name: "f", content: "" }]);
});

Deno.test("images in results are inside them where the model can read them there", () => {
  const messages = [
    { role: "assistant", tool_calls: [call("a")] },
    {
      role: "tool",
      tool_call_id: "a",
      content: [{ type: "image_url", image_url: { url: "data:image/png;base64,QQ==" } }],
    },
  ];
  const image = { inlineData: { mimeType: "image/png", data: "QQ==" } };
  assert.deepEqual(at(contents(messages), 1, "parts", 0, "functionResponse", "parts"), [image]);
  assert.deepEqual(partsOf(messages, { model: "gemini-2.5-pro" }, 1)[1], image);
});

Deno.test("arguments that are no object stand in one", () => {
  const messages = [{
    role: "assistant",
    tool_calls: [call("a", "f", '{"x":'), call("b", "f", "")],
  }];
  const parts = partsOf(messages);
  assert.deepEqual(at(parts, 0, "functionCall", "args"), { invalid_arguments: '{"x":' });
  assert.deepEqual(at(parts, 1, "functionCall", "args"), {});
});

Deno.test("signatures come back with their parts, whichever field the client kept", () => {
  const detail = (members: JsonObject) => ({ format: "google-gemini-v1", ...members });
  const said = (members: JsonObject) =>
    partsOf([{
      role: "assistant",
      content: null,
      tool_calls: [call("a"), call("b")],
      ...members,
    }]);
  const signed = (parts: JsonObject[]) => parts.map(({ thoughtSignature }) => thoughtSignature);
  const byField = said({
    tool_calls: [
      { ...call("a"), extra_content: { google: { thought_signature: "S" } } },
      call("b"),
    ],
  });
  assert.deepEqual(signed(byField), ["S", undefined]);
  const byId = said({
    reasoning_details: [
      detail({ type: "reasoning.encrypted", data: "T", id: "b", tool_call_index: 0 }),
      detail({ type: "reasoning.encrypted", data: "S", id: "a" }),
    ],
  });
  assert.deepEqual(signed(byId), ["S", "T"]);
  const byPlace = said({
    reasoning_details: [
      detail({ type: "reasoning.encrypted", data: "S", id: "gone", tool_call_index: 1 }),
    ],
  });
  assert.deepEqual(signed(byPlace), ["skip_thought_signature_validator", "S"]);
  const foreign = said({
    reasoning_details: [
      { type: "reasoning.text", text: "x", signature: "z", format: "anthropic-claude-v1" },
    ],
    reasoning_content: "unsigned thoughts stay here",
  });
  assert.deepEqual(signed(foreign), ["skip_thought_signature_validator", undefined]);
  const [thought, text] = partsOf([{
    role: "assistant",
    content: "Well",
    reasoning_details: [
      detail({ type: "reasoning.text", text: "hm", signature: "A" }),
      detail({ type: "reasoning.encrypted", data: "B" }),
    ],
  }]);
  assert.deepEqual(thought, { text: "hm", thought: true, thoughtSignature: "A" });
  assert.deepEqual(text, { text: "Well", thoughtSignature: "B" });
});

Deno.test("models that sign nothing are sent no stand-in", () => {
  for (const model of ["gemini-2.5-pro", "gemma-3-27b-it"]) {
    const [part] = partsOf([{ role: "assistant", tool_calls: [call("a")] }], { model });
    assert.ok(part !== undefined && !("thoughtSignature" in part));
  }
});

Deno.test("empty contents are left out, and nothing at all is refused", () => {
  const turns = contents([{ role: "user", content: "" }, { role: "user", content: "x" }, {
    role: "assistant",
    content: "",
  }]);
  assert.deepEqual(turns, [{ role: "user", parts: [{ text: "x" }] }]);
  refused({}, "messages", [{ role: "user", content: "" }]);
  refused({}, "messages", []);
});

Deno.test("settings have their places", () => {
  const body = bodyOf({
    temperature: 0.5,
    top_p: 0.9,
    top_k: 5,
    seed: 7,
    max_tokens: 1,
    max_completion_tokens: 10,
    stop: "END",
    presence_penalty: 0.1,
    frequency_penalty: 0.2,
    service_tier: "flex",
    response_format: {
      type: "json_schema",
      json_schema: { name: "n", schema: { type: "object", $schema: "x" } },
    },
    extra_body: { google: { cached_content: "cachedContents/1", safety_settings: [] } },
  });
  assert.deepEqual(body["generationConfig"], {
    temperature: 0.5,
    topP: 0.9,
    topK: 5,
    seed: 7,
    maxOutputTokens: 10,
    stopSequences: ["END"],
    presencePenalty: 0.1,
    frequencyPenalty: 0.2,
    responseMimeType: "application/json",
    responseJsonSchema: { type: "object" },
  });
  assert.equal(body["serviceTier"], "flex");
  assert.equal(body["cachedContent"], "cachedContents/1");
  assert.deepEqual(bodyOf({ response_format: { type: "json_object" } })["generationConfig"], {
    responseMimeType: "application/json",
  });
});

Deno.test("effort is a level, or a budget for models before levels", () => {
  const thinking = (model: string, reasoning_effort: string) =>
    at(bodyOf({ model, reasoning_effort }), "generationConfig", "thinkingConfig");
  const includeThoughts = true;
  assert.deepEqual(thinking("gemini-3.8-flash", "high"), {
    thinkingLevel: "HIGH",
    includeThoughts,
  });
  assert.deepEqual(thinking("gemini-3.8-flash", "minimal"), {
    thinkingLevel: "LOW",
    includeThoughts,
  });
  assert.deepEqual(thinking("gemini-3.6-flash", "none"), { thinkingLevel: "MINIMAL" });
  assert.deepEqual(thinking("gemini-flash-latest", "xhigh"), {
    thinkingLevel: "HIGH",
    includeThoughts,
  });
  assert.deepEqual(thinking("gemini-2.5-flash", "medium"), {
    thinkingBudget: 8192,
    includeThoughts,
  });
  assert.deepEqual(thinking("gemini-2.5-flash", "none"), { thinkingBudget: 0 });
  assert.deepEqual(thinking("gemini-2.5-pro", "none"), { thinkingBudget: 128 });
  const own = bodyOf({ extra_body: { google: { thinking_config: { thinking_budget: 5 } } } });
  assert.deepEqual(at(own, "generationConfig", "thinkingConfig"), { thinkingBudget: 5 });
  refused({ reasoning_effort: "heroic" }, "reasoning_effort");
});

Deno.test("every form of tool_choice has its mode", () => {
  const tools = ["f", "g"].map((name) => ({ type: "function", function: { name } }));
  const config = (tool_choice: Json, extra: JsonObject = {}) =>
    at(bodyOf({ tools, tool_choice, ...extra }), "toolConfig", "functionCallingConfig");
  assert.equal(config("auto"), undefined);
  assert.deepEqual(config("none"), { mode: "NONE" });
  assert.deepEqual(config("required"), { mode: "ANY" });
  assert.deepEqual(config({ type: "function", function: { name: "g" } }), {
    mode: "ANY",
    allowedFunctionNames: ["g"],
  });
  const allowed = (mode: string) => ({
    type: "allowed_tools",
    allowed_tools: { mode, tools: [{ type: "function", function: { name: "f" } }] },
  });
  assert.deepEqual(config(allowed("auto")), { mode: "VALIDATED", allowedFunctionNames: ["f"] });
  assert.deepEqual(config(allowed("required")), { mode: "ANY", allowedFunctionNames: ["f"] });
  const strict = [{ type: "function", function: { name: "f", strict: true } }];
  assert.deepEqual(config("auto", { tools: strict }), { mode: "VALIDATED" });
  refused({ tools, tool_choice: { type: "custom" } }, "tool_choice");
  refused({ tools: [{ type: "web_search" }] }, "tools[0]");
});

Deno.test("what Gemini cannot do is refused by name, what changes nothing is not", () => {
  const refusals: JsonObject = {
    n: 2,
    logprobs: true,
    top_logprobs: 3,
    logit_bias: { 1: 1 },
    audio: { voice: "x" },
    functions: [{ name: "f" }],
    web_search_options: { a: 1 },
    verbosity: "low",
    modalities: ["text", "audio"],
    made_up: 1,
  };
  for (const [name, value] of Object.entries(refusals)) refused({ [name]: value }, name);
  refused({ extra_body: { google: { made_up: 1 } } }, "extra_body.google.made_up");
  const neutral = bodyOf({
    n: 1,
    logprobs: false,
    logit_bias: {},
    store: true,
    user: "u",
    metadata: { a: "b" },
    parallel_tool_calls: true,
    prompt_cache_key: "k",
    safety_identifier: "s",
    service_tier: "auto",
    stream_options: { include_usage: true },
    modalities: ["text"],
    tools: [],
    made_up: null,
  });
  assert.deepEqual(Object.keys(neutral), ["contents"]);
});
