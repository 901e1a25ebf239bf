import assert from "node:assert/strict";
import fc from "fast-check";
import { HubError } from "../../../src/core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../src/core/json.ts";
import { toOllamaSchema } from "../../../src/wire/ollama/encode_request.ts";
import { OLLAMA } from "../../../src/wire/ollama/ollama_dialect.ts";
import { readToolCorpus } from "../../operations/tool_corpus.ts";
import { at, listAt } from "../../support/at.ts";
import { property } from "../../support/property.ts";
import { choicesOf, chunksOf, FACTS } from "../dialect_answers.ts";

const HI: Json = [{ role: "user", content: "Hi" }];
const encoder = new TextEncoder();

const ask = (extra: JsonObject = {}, messages: Json = HI) =>
  OLLAMA.encodeRequest({ model: "m:1b", messages, ...extra });
const bodyOf = (extra: JsonObject = {}, messages: Json = HI) => ask(extra, messages).body;

function refused(extra: JsonObject, param: string, messages?: Json): void {
  assert.throws(() => ask(extra, messages), (error) => {
    assert.ok(error instanceof HubError);
    assert.deepEqual([error.code, error.param], ["invalid_request", param]);
    return true;
  });
}

Deno.test("a bare request asks for no cuts and sets no options", () => {
  assert.deepEqual(ask(), {
    path: "/chat",
    body: { model: "m:1b", messages: HI, stream: false, truncate: false, shift: false },
  });
});

Deno.test("settings are options, beside those that the request has itself", () => {
  const body = bodyOf({
    stream: true,
    temperature: 0,
    top_p: 0.9,
    seed: 7,
    max_completion_tokens: 10,
    stop: ["a"],
    options: { num_ctx: 8192, temperature: 1 },
    keep_alive: "1h",
    truncate: true,
    reasoning_effort: "xhigh",
    response_format: { type: "json_object" },
    logprobs: true,
    top_logprobs: 2,
    parallel_tool_calls: false,
  });
  assert.deepEqual(body, {
    model: "m:1b",
    messages: HI,
    stream: true,
    format: "json",
    think: "max",
    options: { num_ctx: 8192, temperature: 0, top_p: 0.9, seed: 7, num_predict: 10, stop: ["a"] },
    keep_alive: "1h",
    truncate: true,
    shift: false,
    logprobs: true,
    top_logprobs: 2,
  });
  assert.equal(bodyOf({ reasoning_effort: "none" })["think"], false);
  assert.equal(bodyOf({ reasoning_effort: "low", think: true })["think"], true);
  const schema = { type: "object", properties: {} };
  const format = { type: "json_schema", json_schema: { name: "n", schema } };
  assert.deepEqual(bodyOf({ response_format: format })["format"], schema);
});

Deno.test("messages: images apart, thinking, calls as objects, results by name", () => {
  const image = (url: string) => ({ type: "image_url", image_url: { url } });
  const call = { id: "c1", type: "function", function: { name: "f", arguments: '{"a":1}' } };
  const body = bodyOf({}, [
    { role: "developer", content: "Be brief" },
    {
      role: "user",
      content: [{ type: "text", text: "see" }, image("data:image/png;base64,QQ==")],
    },
    { role: "assistant", content: null, reasoning_content: "hm", tool_calls: [call] },
    { role: "tool", tool_call_id: "c1", content: [{ type: "text", text: "one" }] },
  ]);
  assert.deepEqual(body["messages"], [
    { role: "system", content: "Be brief" },
    { role: "user", content: "see", images: ["QQ=="] },
    {
      role: "assistant",
      content: "",
      thinking: "hm",
      tool_calls: [{ id: "c1", function: { name: "f", arguments: { a: 1 } } }],
    },
    { role: "tool", content: "one", tool_name: "f", tool_call_id: "c1" },
  ]);
  const of = (part: JsonObject) => [{ role: "user", content: [part] }];
  refused({}, "messages[0].content[0]", of(image("https://x.test/a.png")));
  refused({}, "messages[0].content[0].type", of({ type: "file", file: { file_data: "data:," } }));
  refused({}, "messages[0].tool_call_id", [{ role: "tool", tool_call_id: "x", content: "" }]);
});

Deno.test("tools are offered or not; a call cannot be forced", () => {
  const tools = ["f", "g"].map((name) => ({ type: "function", function: { name } }));
  const offered = (tool_choice: Json) =>
    listAt(bodyOf({ tools, tool_choice }), "tools").map((tool) => at(tool, "function", "name"));
  assert.deepEqual(offered("auto"), ["f", "g"]);
  assert.equal("tools" in bodyOf({ tools, tool_choice: "none" }), false);
  const allowed_tools = { mode: "auto", tools: [tools[1] ?? {}] };
  assert.deepEqual(offered({ type: "allowed_tools", allowed_tools }), ["g"]);
  refused({ tools, tool_choice: "required" }, "tool_choice");
  refused({ tools, tool_choice: { type: "function", function: { name: "f" } } }, "tool_choice");
});

Deno.test("what Ollama cannot do is refused by name", () => {
  const refusals: JsonObject = {
    n: 2,
    logit_bias: { 1: 1 },
    service_tier: "flex",
    made_up: 1,
    reasoning_effort: "heroic",
    options: 5,
  };
  for (const [name, value] of Object.entries(refusals)) refused({ [name]: value }, name);
});

/** Whether Ollama's server can read a schema of a tool: it knows types as texts or lists, and objects as schemas. */
function readable(schema: Json): boolean {
  if (!isJsonObject(schema)) return false;
  const { properties = {}, anyOf = [], type = "" } = schema;
  return isJsonObject(properties) && Object.values(properties).every(readable) &&
    Array.isArray(anyOf) && anyOf.every(readable) &&
    (typeof type === "string" || Array.isArray(type)) && !("$ref" in schema) &&
    !("const" in schema);
}

Deno.test("the tools of real servers are readable to Ollama", () => {
  for (const { inputSchema, name, id } of readToolCorpus()) {
    // The odd shapes are no schemas at all.
    if (!isJsonObject(inputSchema) || id !== undefined) continue;
    const made = toOllamaSchema(inputSchema, "tools[0]");
    assert.equal(made["type"], "object");
    assert.ok(readable(made), `${name}: ${JSON.stringify(made)}`);
  }
  assert.deepEqual(
    toOllamaSchema({ properties: { a: { oneOf: [{ const: 1 }, true] } } }, "tools[0]"),
    { properties: { a: { anyOf: [{ enum: [1] }, {}] } }, type: "object" },
  );
});

const line = (value: object) => `${JSON.stringify(value)}\r\n`;
const said = (message: JsonObject) => line({ message: { role: "assistant", ...message } });
const RICH = said({ thinking: "hé" }) + said({ content: "👋🏽 " }) + "{broken\n" +
  said({ content: "ok", tool_calls: [{ function: { name: "f", arguments: { a: "é" } } }] }) +
  said({ tool_calls: [{ id: "own", function: { index: 0, name: "g", arguments: {} } }] }) +
  line({ message: {}, done: true, done_reason: "stop", prompt_eval_count: 4, eval_count: 2 });

const stream = (text: string, cuts?: number[]) => chunksOf(OLLAMA, text, cuts);

Deno.test("thinking, text and calls are counted through, then the end and the usage", () => {
  const { chunks, done } = stream(RICH);
  assert.equal(done, true);
  assert.deepEqual(choicesOf(chunks).map(({ delta }) => delta), [
    { role: "assistant", content: "" },
    { reasoning_content: "hé" },
    { content: "👋🏽 " },
    { content: "ok" },
    {
      tool_calls: [{
        index: 0,
        id: "call_1_0",
        type: "function",
        function: { name: "f", arguments: '{"a":"é"}' },
      }],
    },
    {
      tool_calls: [{
        index: 1,
        id: "own",
        type: "function",
        function: { name: "g", arguments: "{}" },
      }],
    },
    {},
  ]);
  assert.equal(choicesOf(chunks).at(-1)?.["finish_reason"], "tool_calls");
  assert.deepEqual(chunks.at(-1)?.["usage"], {
    prompt_tokens: 4,
    completion_tokens: 2,
    total_tokens: 6,
  });
});

property(
  "lines cut anywhere give the same chunks",
  fc.array(fc.nat({ max: encoder.encode(RICH).length }), { maxLength: 12 }),
  (cuts) => assert.deepEqual(stream(RICH, cuts), stream(RICH)),
);

Deno.test("a stream that is not done invents no end, also without a last line feed", () => {
  const half = stream(said({ content: "a" }));
  assert.equal(half.done, false);
  assert.ok(choicesOf(half.chunks).every(({ finish_reason }) => finish_reason === null));
  assert.equal(stream(RICH.trimEnd()).done, true);
});

Deno.test("an error in the stream is the last that comes of it", () => {
  const { chunks, done } = stream(said({ content: "a" }) + line({ error: "boom" }) + RICH);
  assert.equal(done, false);
  assert.deepEqual(chunks.at(-1), {
    error: { message: "boom", type: "server_error", param: null, code: null },
  });
});

Deno.test("a line that never ends is refused past a bound", () => {
  const maker = OLLAMA.startChunks(FACTS);
  const piece = new Uint8Array(1024 * 1024).fill(0x61);
  assert.throws(
    () => {
      for (let count = 0; count < 10; count++) maker.push(piece);
    },
    (error) => error instanceof HubError && error.code === "upstream_malformed",
  );
});

Deno.test("log probabilities come with the text they are of", () => {
  const logprobs = [{ token: "a", logprob: -1, bytes: [97], top_logprobs: [] }];
  const native = { message: { content: "a" }, logprobs, done: true, done_reason: "stop" };
  const answer = OLLAMA.decodeAnswer(native, FACTS);
  assert.deepEqual(at(answer, "choices", 0, "logprobs"), { content: logprobs });
  const { chunks } = stream(line(native));
  assert.deepEqual(choicesOf(chunks)[1]?.["logprobs"], { content: logprobs });
});

Deno.test("a whole answer must be done", () => {
  assert.throws(() => OLLAMA.decodeAnswer({ message: { content: "a" } }, FACTS), /is done/);
  assert.ok("error" in OLLAMA.decodeAnswer({ error: "boom" }, FACTS));
});

Deno.test("errors keep their words and get OpenAI's codes", () => {
  const code = (error: string, status = 400) => OLLAMA.decodeError({ error }, status).code;
  assert.equal(code("model 'x' not found", 404), "model_not_found");
  assert.equal(code("the input length exceeds the context length"), "context_length_exceeded");
  assert.equal(
    code("the prompt is longer than the context length currently available to the model", 500),
    "context_length_exceeded",
  );
  assert.equal(code("could not load"), null);
  assert.equal(OLLAMA.decodeError("<html>", 502).message, "Ollama answered 502");
});
