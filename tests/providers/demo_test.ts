import assert from "node:assert/strict";
import fc from "fast-check";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { sendToDemo } from "../../src/providers/demo.ts";
import { sampleInput } from "../../src/providers/demo_input.ts";
import type { UpstreamRequest } from "../../src/providers/transport.ts";
import { createChatDecoder } from "../../src/wire/openai_chat/decode_stream.ts";
import { property } from "../support/property.ts";

const requestOf = (body: unknown, signal = new AbortController().signal): UpstreamRequest => ({
  method: "POST",
  url: "http://demo.invalid/v1/chat/completions",
  headers: [],
  body: new TextEncoder().encode(JSON.stringify(body)),
  signal,
  connectTimeoutMs: 1000,
});

/** Asks the demo and reads its answer to the end. */
async function ask(body: unknown) {
  const { status, header, read } = await sendToDemo(requestOf(body));
  let text = "";
  for (let bytes = await read(); bytes !== null; bytes = await read()) {
    text += new TextDecoder().decode(bytes);
  }
  return { status, type: header("content-type"), text };
}

interface Message {
  content: string | null;
  tool_calls?: { id: string; type: string; function: { name: string; arguments: string } }[];
}

/** The first message of a whole answer. */
async function messageOf(body: object): Promise<Message> {
  return JSON.parse((await ask(body)).text).choices[0].message;
}

/** The same message out of a streamed answer. */
async function streamedMessage(body: object): Promise<Message> {
  const { text } = await ask({ ...body, stream: true });
  const decoder = createChatDecoder();
  const events = [...decoder.push(new TextEncoder().encode(text)), ...decoder.end()];
  assert.equal(decoder.malformedFrames, 0);
  const message: Message = { content: "" };
  const calls: NonNullable<Message["tool_calls"]> = [];
  for (const event of events) {
    if (event.type === "text-delta") message.content += event.delta;
    else if (event.type === "tool-call-start") {
      const { providerCallId: id, toolName: name } = event;
      calls.push({ id, type: "function", function: { name, arguments: "" } });
    } else if (event.type === "tool-call-delta") {
      const called = calls[event.index];
      assert.ok(called !== undefined);
      called.function.arguments += event.delta;
    }
  }
  if (message.content === "") message.content = null;
  return calls.length > 0 ? { ...message, tool_calls: calls } : message;
}

const toolOf = (name: string, parameters: JsonObject = { type: "object" }) => ({
  type: "function",
  function: { name, description: name, parameters },
});
const ADD = toolOf("math_add", {
  type: "object",
  properties: { a: { type: "number" }, b: { type: "number" } },
  required: ["a", "b"],
});
const say = (content: Json, more: object = {}) => ({
  model: "tools",
  messages: [{ role: "user", content }],
  ...more,
});

Deno.test("talk says that it is no model, and repeats the prompt", async () => {
  const { status, type, text } = await ask({ ...say("Hi"), model: "talk" });
  assert.equal(status, 200);
  assert.equal(type, "application/json");
  const answer = JSON.parse(text);
  assert.equal(answer.object, "chat.completion");
  assert.equal(answer.model, "talk");
  assert.match(answer.choices[0].message.content, /not a language model\. You said: "Hi"\./);
  assert.equal(answer.choices[0].finish_reason, "stop");
  const { prompt_tokens, completion_tokens, total_tokens } = answer.usage;
  assert.ok(prompt_tokens > 0 && completion_tokens > 0);
  assert.equal(total_tokens, prompt_tokens + completion_tokens);
});

Deno.test("the same request gives the same bytes, streamed too", async () => {
  for (const stream of [false, true]) {
    const body = say('math.add 2 and 3, "ok"', { tools: [ADD], stream });
    assert.deepEqual(await ask(body), await ask(body));
  }
});

Deno.test("a stream is frames that end with [DONE]; usage comes when it is asked for", async () => {
  const body = { ...say("Hi"), model: "talk", stream: true };
  const plain = await ask(body);
  assert.equal(plain.type, "text/event-stream");
  assert.match(plain.text, /^data: \{.*"role":"assistant"/);
  assert.ok(plain.text.endsWith("data: [DONE]\n\n"));
  assert.doesNotMatch(plain.text, /"usage"/);
  const counted = await ask({ ...body, stream_options: { include_usage: true } });
  assert.equal(counted.text.match(/"usage"/g)?.length, 1);
  assert.match(counted.text, /"choices":\[\],"usage":\{[^}]+\}\}\n\ndata: \[DONE\]\n\n$/);
});

Deno.test("another model is told apart with OpenAI's error", async () => {
  const { status, text } = await ask({ ...say("Hi"), model: "gpt-4o" });
  assert.equal(status, 404);
  const { error } = JSON.parse(text);
  assert.equal(error.code, "model_not_found");
  assert.match(error.message, /talk and tools, not gpt-4o/);
});

Deno.test("n answers are alike; eight are the most", async () => {
  const count = async (n: Json) => JSON.parse((await ask(say("Hi", { n }))).text).choices.length;
  assert.deepEqual(await Promise.all([3, 1, 100, 0, -1, "x", null].map(count)), [
    3,
    1,
    8,
    1,
    1,
    1,
    1,
  ]);
});

for (
  const [form, prompt] of [
    ["its wire name", "call math_add 2 3"],
    ["its dotted name", "Call Math.Add with 2 and 3"],
    ["its last part", "please add 2 to 3"],
  ] as const
) {
  Deno.test(`a tool is called by ${form}`, async () => {
    const body = say(prompt, { tools: [ADD] });
    const message = await messageOf(body);
    assert.equal(message.content, null);
    assert.deepEqual(message.tool_calls, [{
      id: "call_demo_0",
      type: "function",
      function: { name: "math_add", arguments: '{"a":2,"b":3}' },
    }]);
    assert.equal(JSON.parse((await ask(body)).text).choices[0].finish_reason, "tool_calls");
  });
}

Deno.test("several tools in one prompt are called together, each with an id of its own", async () => {
  const { tool_calls: calls } = await messageOf(
    say("add 1 2 and then wait", { tools: [ADD, toolOf("wait"), toolOf("other")] }),
  );
  assert.deepEqual(calls?.map((call) => `${call.id} ${call.function.name}`), [
    "call_demo_0 math_add",
    "call_demo_1 wait",
  ]);
});

Deno.test("no tool is called when none is named, none is offered or none is allowed", async () => {
  assert.match((await messageOf(say("Hi", { tools: [ADD] }))).content ?? "", /: math_add\.$/);
  assert.match((await messageOf(say("add 1 2"))).content ?? "", /No tools were offered\.$/);
  const forbidden = await messageOf(say("add 1 2", { tools: [ADD], tool_choice: "none" }));
  assert.equal(forbidden.tool_calls, undefined);
});

const force = (name: string) => ({ tool_choice: { type: "function", function: { name } } });
const PLAN = toolOf("hub_propose_plan");
const CLOCK = toolOf("hub_current_time");
const namesOf = ({ tool_calls: calls }: Message) => (calls ?? []).map((one) => one.function.name);

Deno.test("a call that the request forces is made, whatever the prompt says", async () => {
  const tools = [ADD, CLOCK];
  assert.deepEqual(namesOf(await messageOf(say("Hi", { tools, ...force("math_add") }))), [
    "math_add",
  ]);
  const other = say("what is the current time?", { tools, ...force("math_add") });
  assert.deepEqual(namesOf(await messageOf(other)), ["math_add"]);
  assert.deepEqual(namesOf(await messageOf(say("Hi", { tools, tool_choice: "required" }))), [
    "hub_current_time",
  ]);
});

Deno.test("a plan that the request forces is proposed, and what was agreed on is done", async () => {
  const tools = [ADD, CLOCK, PLAN];
  const first = say("Tidy up", { tools, ...force("hub_propose_plan") });
  const { tool_calls: [proposed] = [] } = await messageOf(first);
  assert.equal(proposed?.function.name, "hub_propose_plan");
  const { steps } = JSON.parse(proposed?.function.arguments ?? "");
  assert.deepEqual(steps, [{ tool: "hub_current_time", purpose: "The prompt names no tool" }]);
  const after = (content: string) =>
    messageOf({
      ...say("", { tools }),
      messages: [
        { role: "user", content: "Tidy up" },
        { role: "assistant", content: null, tool_calls: [proposed] },
        { role: "tool", tool_call_id: "c", content },
      ],
    });
  assert.deepEqual(namesOf(await after('{"outcome":"approved"}')), ["hub_current_time"]);
  for (const refusal of ["Not executed: a person denied it", "Error: Not executed: too late"]) {
    const denied = await after(refusal);
    assert.deepEqual([namesOf(denied), denied.content], [[], `The tools answered:\n- ${refusal}`]);
  }
  const alone = say("Tidy up", { tools: [PLAN], ...force("hub_propose_plan") });
  assert.match((await messageOf(alone)).content ?? "", /Name a tool/);
});

Deno.test("results of the step are repeated, older ones are not", async () => {
  const tool = (content: Json) => ({ role: "tool", tool_call_id: "c", content });
  const { content } = await messageOf({
    model: "tools",
    tools: [ADD],
    messages: [
      { role: "user", content: "add 1 2" },
      { role: "assistant", content: null, tool_calls: [] },
      tool("old"),
      { role: "assistant", content: null, tool_calls: [] },
      tool("3"),
      tool([{ type: "text", text: "four" }, { type: "image_url" }]),
    ],
  });
  assert.equal(content, "The tools answered:\n- 3\n- four ");
});

Deno.test("the prompt is the user's last message, whatever its form; a request without one is answered", async () => {
  const { content } = await messageOf({
    model: "talk",
    messages: [
      { role: "user", content: "first" },
      { role: "user", content: [{ type: "text", text: "a" }, 7, { type: "text", text: "b" }] },
      { role: "assistant", content: "no" },
    ],
  });
  assert.match(content ?? "", /You said: "a b"/);
  for (const body of [{ model: "tools" }, { model: "tools", messages: 7, tools: [7, {}] }]) {
    assert.match((await messageOf(body)).content ?? "", /not a language model/);
  }
});

Deno.test("a signal stops the answer before it and in the middle of it", async () => {
  const body = { ...say("Hi"), model: "talk", stream: true };
  const aborted = { code: "aborted" };
  await assert.rejects(sendToDemo(requestOf(body, AbortSignal.abort())), aborted);
  const abort = new AbortController();
  const response = await sendToDemo(requestOf(body, abort.signal));
  assert.notEqual(await response.read(), null);
  abort.abort();
  await assert.rejects(response.read(), aborted);
});

Deno.test("a cancel makes a pending read and later ones reject", async () => {
  const response = await sendToDemo(requestOf({ ...say("Hi"), stream: true }));
  const pending = response.read();
  response.cancel();
  response.cancel();
  await assert.rejects(pending, { code: "aborted" });
  await assert.rejects(response.read(), { code: "aborted" });
});

Deno.test("examples of input follow the schema: texts and numbers of the prompt first, then defaults", () => {
  const schema: JsonObject = {
    type: "object",
    properties: {
      text: { type: "string" },
      other: { type: "string" },
      count: { type: "integer" },
      size: { type: "number" },
      flag: { type: "boolean" },
      kind: { enum: ["x", "y"] },
      fixed: { const: 7 },
      none: { type: ["string", "null"] },
      list: { type: "array", items: { type: "integer" } },
      nested: { type: "object", properties: { a: { type: "string" } }, required: ["a"] },
      either: { anyOf: [{ type: "boolean" }, { type: "string" }] },
      unused: { type: "string" },
    },
    required: [
      "text",
      "other",
      "count",
      "size",
      "flag",
      "kind",
      "fixed",
      "none",
      "list",
      "nested",
      "either",
    ],
  };
  assert.deepEqual(sampleInput(schema, 'with "one" and 2.6, -3.5'), {
    text: "one",
    other: "example",
    count: 3,
    size: -3.5,
    flag: true,
    kind: "x",
    fixed: 7,
    none: null,
    list: [1],
    nested: { a: "example" },
    either: true,
  });
  assert.deepEqual(sampleInput(schema, 'with {"text": {"a": "}"}} or "one"'), {
    text: { a: "}" },
  });
  assert.deepEqual(sampleInput({}, "{broken"), {});
});

Deno.test("a schema that leads back to itself ends", () => {
  const schema: JsonObject = { type: "object", required: ["a"] };
  schema["properties"] = { a: schema };
  assert.ok(JSON.stringify(sampleInput(schema, "")).length < 200);
});

Deno.test("a long prompt of quotes and braces is looked at in a bound", () => {
  // Without the bound each of these takes minutes.
  for (const prompt of [`{"a":"${"}".repeat(1_000_000)}`, "“".repeat(1_000_000)]) {
    assert.deepEqual(sampleInput({ type: "object" }, prompt), {});
  }
});

Deno.test("no character is cut in two", async () => {
  for (const model of ["talk", "tools"]) {
    for (const pad of ["", "x"]) {
      const prompt = `say ${pad}"${"🌍".repeat(150)}"`;
      const tool = toolOf("say", {
        type: "object",
        properties: { text: { type: "string" } },
        required: ["text"],
      });
      for (const stream of [false, true]) {
        const { text } = await ask(say(prompt, { model, tools: [tool], stream }));
        assert.doesNotMatch(text, /\\ud[89a-f]/, `${model} ${stream}`);
      }
    }
  }
});

property(
  "an answer is the same streamed and whole",
  fc.record({
    prompt: fc.string({ unit: fc.constantFrom(..."add wait{}\"“”'12.:- \n🌍é") }),
    results: fc.array(fc.string({ unit: "grapheme" }), { maxLength: 2 }),
    model: fc.constantFrom("talk", "tools"),
  }),
  async ({ prompt, results, model }) => {
    const body = {
      model,
      messages: [
        { role: "user", content: prompt },
        ...results.map((content) => ({ role: "tool", tool_call_id: "c", content })),
      ],
      tools: [ADD, toolOf("wait")],
    };
    const whole = await messageOf(body);
    const streamed = await streamedMessage(body);
    assert.equal(streamed.content, whole.content);
    assert.deepEqual(streamed.tool_calls, whole.tool_calls);
    for (const call of whole.tool_calls ?? []) {
      assert.equal(typeof JSON.parse(call.function.arguments), "object");
    }
  },
  { runs: 60 },
);
