import assert from "node:assert/strict";
import fc from "fast-check";
import type { Json, JsonObject } from "../../../src/core/json.ts";
import { decodeTools } from "../../../src/wire/openai_responses/decode_tools.ts";
import { ResponseFailure } from "../../../src/wire/openai_responses/failure.ts";
import { newResponse } from "../../../src/wire/openai_responses/response_object.ts";
import {
  translateStream,
  translateWhole,
} from "../../../src/wire/openai_responses/translate_answer.ts";
import { toFrame } from "../../../src/wire/translated_events.ts";
import { HubError } from "../../../src/core/error.ts";
import { chatCompletion, chatFrames } from "../../support/scripted_upstream.ts";
import { property } from "../../support/property.ts";

const encoder = new TextEncoder();
const TOOLS: JsonObject[] = [
  { type: "function", name: "plain", parameters: { type: "object" } },
  { type: "custom", name: "patch" },
  { type: "local_shell" },
  { type: "shell", environment: { type: "local" } },
  { type: "apply_patch" },
  {
    type: "namespace",
    name: "agents",
    description: "Others",
    tools: [{ type: "function", name: "close" }],
  },
];

const optionsOf = (showEncrypted = true) => ({
  response: newResponse({}, { id: `resp_${"a".repeat(32)}`, createdAt: 1, model: "m", tools: [] }),
  tools: decodeTools(TOOLS).known,
  showEncrypted,
  provider: "up",
  model: "m",
  now: () => 2,
});

async function eventsOf(pieces: Uint8Array[], showEncrypted = true): Promise<JsonObject[]> {
  const left = [...pieces];
  const answer = translateStream(
    () => Promise.resolve(left.shift() ?? null),
    optionsOf(showEncrypted),
  );
  const events: JsonObject[] = [];
  for (let next = await answer.read(); next !== null; next = await answer.read()) {
    events.push(...next);
  }
  return events;
}

const chunk = (delta: JsonObject, more: JsonObject = {}) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, ...more }] })}\n\n`;
const stop = chunk({}, { finish_reason: "stop" });
const read = async (frames: string[]) => await eventsOf([encoder.encode(frames.join(""))]);
const outputOf = (events: JsonObject[]) =>
  (events.at(-1)?.["response"] as JsonObject)["output"] as JsonObject[];

Deno.test("every kind of call is the item that its tool wants", async () => {
  const calls: [string, JsonObject][] = [
    ["plain", { a: 1 }],
    ["patch", { input: "*** Begin" }],
    ["local_shell", { command: ["ls"], timeout_ms: 5 }],
    ["shell", { commands: ["ls", "pwd"] }],
    ["apply_patch", { operation: { type: "delete_file", path: "a" } }],
    ["agents__close", { target: "b" }],
    ["unknown", {}],
  ];
  const frames = chatFrames({
    toolCalls: calls.map(([name, args], index) => ({ name, arguments: args, id: `c${index}` })),
  });
  const output = outputOf(await read(frames));
  assert.deepEqual(output.map(({ id: _id, call_id: _call, status: _status, ...rest }) => rest), [
    { type: "function_call", name: "plain", arguments: '{"a":1}' },
    { type: "custom_tool_call", name: "patch", input: "*** Begin" },
    {
      type: "local_shell_call",
      action: {
        type: "exec",
        command: ["ls"],
        env: {},
        timeout_ms: 5,
        working_directory: null,
        user: null,
      },
    },
    {
      type: "shell_call",
      action: { commands: ["ls", "pwd"], timeout_ms: null, max_output_length: null },
      environment: { type: "local" },
    },
    { type: "apply_patch_call", operation: { type: "delete_file", path: "a" } },
    { type: "function_call", name: "close", namespace: "agents", arguments: '{"target":"b"}' },
    { type: "function_call", name: "unknown", arguments: "{}" },
  ]);
  assert.deepEqual(output.map(({ call_id }) => call_id), calls.map((_, index) => `c${index}`));
});

Deno.test("arguments that are no JSON reach the client as they are, or as nothing", async () => {
  const broken = ["plain", "patch", "local_shell"].map((name) => ({ name, arguments: "{oops" }));
  const [plain, patch, shell] = outputOf(await read(chatFrames({ toolCalls: broken })));
  assert.equal(plain?.["arguments"], "{oops");
  assert.equal(patch?.["input"], "{oops");
  assert.deepEqual((shell?.["action"] as JsonObject)["command"], []);
});

Deno.test("calls without an id of their own, or with another's, get one", async () => {
  const call = (index: number, id: string) =>
    chunk({ tool_calls: [{ index, id, function: { name: "plain", arguments: "{}" } }] });
  const output = outputOf(await read([call(0, "x"), call(1, "x"), call(2, ""), stop]));
  const ids = output.map(({ call_id }) => call_id);
  assert.equal(ids[0], "x");
  assert.equal(new Set(ids).size, 3);
  assert.ok(ids.slice(1).every((id) => /^call_a{32}/.test(String(id))));
});

Deno.test("text and a refusal are parts of one message; details that come late are their own item", async () => {
  const detail = { type: "reasoning.encrypted", data: "sig", index: 0 };
  const events = await read([
    chunk({ reasoning_content: "Hm" }),
    chunk({ reasoning_details: [{ type: "reasoning.text", text: "H", index: 0 }] }),
    chunk({ reasoning_details: [{ type: "reasoning.text", text: "m", index: 0, signature: "s" }] }),
    chunk({ content: "Well, " }, { logprobs: { content: [{ token: "Well", logprob: -1 }] } }),
    chunk({ refusal: "no" }),
    chunk({ reasoning_details: [detail] }),
    stop,
  ]);
  const [thought, message, late, ...more] = outputOf(events);
  assert.equal(more.length, 0);
  const content = message?.["content"] as JsonObject[];
  assert.deepEqual(content.map((part) => part["text"] ?? part["refusal"]), ["Well, ", "no"]);
  assert.deepEqual(content[0]?.["logprobs"], [{ token: "Well", logprob: -1 }]);
  assert.deepEqual(unpack(thought), [
    { provider: "up", model: "m", field: "reasoning_content", text: "Hm" },
    {
      provider: "up",
      model: "m",
      field: "reasoning_details",
      payload: [{ type: "reasoning.text", text: "Hm", index: 0, signature: "s" }],
    },
  ]);
  assert.deepEqual(unpack(late), [
    { provider: "up", model: "m", field: "reasoning_details", payload: [detail] },
  ]);
  assert.deepEqual(late?.["summary"], []);
});

function unpack(item: JsonObject | undefined): Json {
  const text = String(item?.["encrypted_content"]).slice("lh1.".length);
  return JSON.parse(
    new TextDecoder().decode(Uint8Array.fromBase64(text, { alphabet: "base64url" })),
  );
}

Deno.test("reasoning is not shown unless asked for, and kept all the same", async () => {
  const frames = encoder.encode(chatFrames({ reasoning: "Hm", text: "x" }).join(""));
  assert.ok(!JSON.stringify(await eventsOf([frames], false)).includes("lh1."));
  const left = [frames];
  const answer = translateStream(
    () => Promise.resolve(left.shift() ?? null),
    optionsOf(false),
  );
  while (await answer.read() !== null);
  assert.ok(JSON.stringify(answer.response).includes("lh1."));
});

Deno.test("an answer that says no reason for its end is no answer", async () => {
  await assert.rejects(read([chunk({ content: "x" })]), { code: "upstream_cut" });
});

Deno.test("a whole answer is the same response as a streamed one", async () => {
  const answer = {
    reasoning: "Hm",
    text: "Hello 😀",
    toolCalls: [{ id: "c1", name: "plain", arguments: { a: "é" } }],
    usage: { promptTokens: 3, completionTokens: 4, cachedTokens: 1 },
  };
  const { body } = chatCompletion(answer) as { body: JsonObject };
  const { response } = await translateWhole(encoder.encode(JSON.stringify(body)), optionsOf());
  const streamed = (await read(chatFrames(answer))).at(-1)?.["response"];
  assert.deepEqual(response, streamed);
  await assert.rejects(() => translateWhole(encoder.encode('{"choices":[]}'), optionsOf()), {
    code: "upstream_malformed",
  });
});

const answers = fc.record({
  reasoning: fc.string({ unit: "grapheme" }),
  deltas: fc.array(fc.string({ unit: "grapheme", minLength: 1 }), { maxLength: 4 }),
  toolCalls: fc.array(
    fc.record({
      name: fc.constantFrom("plain", "patch", "agents__close"),
      arguments: fc.dictionary(fc.string(), fc.string()).map((value) => ({ ...value })),
    }),
    { maxLength: 3 },
  ),
});

property(
  "however the bytes are cut, the events gather to the same response, in OpenAI's order",
  fc.tuple(answers, fc.array(fc.nat(5000), { maxLength: 8 })),
  async ([answer, cuts]) => {
    const toolCalls = answer.toolCalls.map((call, index) => ({ ...call, id: `c${index}` }));
    const bytes = encoder.encode(chatFrames({ ...answer, toolCalls }).join(""));
    const places = [0, ...cuts.map((cut) => cut % bytes.length).sort((a, b) => a - b)];
    const pieces = places.map((from, index) => bytes.subarray(from, places[index + 1]))
      .filter((piece) => piece.length > 0);
    const [whole, cut] = [await eventsOf([bytes]), await eventsOf(pieces)];
    assert.deepEqual(cut, whole);
    assert.deepEqual(
      whole.map(({ sequence_number: number }) => number),
      whole.map((_, index) => index),
    );
    checkOrder(whole);
  },
);

/** Each item is added once, then done once as it stands in the output; deltas join to what is done. */
function checkOrder(events: JsonObject[]): void {
  const output = outputOf(events);
  const open = new Map<number, string>();
  const done: JsonObject[] = [];
  const texts = new Map<string, string>();
  for (const event of events) {
    const type = String(event["type"]);
    const index = Number(event["output_index"]);
    const item = event["item"] as JsonObject | undefined;
    if (type === "response.output_item.added") {
      assert.equal(index, open.size);
      open.set(index, String(item?.["id"]));
    } else if (type === "response.output_item.done") {
      assert.equal(open.get(index), item?.["id"]);
      assert.equal(done[index], undefined);
      done[index] = item ?? {};
    } else if (event["item_id"] !== undefined) {
      assert.equal(open.get(index), event["item_id"]);
      assert.equal(done[index], undefined);
      const place = `${event["item_id"]} ${event["content_index"]}`;
      if (type.endsWith(".delta")) {
        texts.set(place, (texts.get(place) ?? "") + String(event["delta"]));
      } else if (type.endsWith(".done") && !type.endsWith("part.done")) {
        const whole = event["text"] ?? event["arguments"] ?? event["input"];
        assert.equal(texts.get(place) ?? "", whole);
      }
    }
  }
  assert.deepEqual(done, output);
}

Deno.test("a failure goes on from what was shown, however little that is known of", () => {
  const error = new HubError("upstream_cut", "It broke");
  const tell = (...shown: string[]) => {
    const failure = new ResponseFailure({ id: "resp_own", createdAt: 1, model: "m" });
    for (const text of shown) failure.shown(encoder.encode(text));
    const text = new TextDecoder().decode(failure.tell(error));
    return text.trim().split("\n\n").map((frame) =>
      JSON.parse(frame.split("\n")[1]?.slice("data: ".length) ?? "")
    );
  };
  const created = toFrame({ type: "response.created", response: { id: "r" }, sequence_number: 0 });
  const [failed, ...none] = tell(created, 'data: {"type":"x","sequence_number": 41}\n\n');
  assert.equal(none.length, 0);
  assert.equal(failed.sequence_number, 42);
  assert.deepEqual(failed.response, {
    id: "r",
    status: "failed",
    error: { code: "server_error", message: "It broke" },
  });
  assert.deepEqual(tell().map(({ type, sequence_number: number }) => [type, number]), [
    ["response.created", 0],
    ["response.failed", 1],
  ]);
  assert.equal(tell("data: {broken\n\n").at(-1).response.id, "resp_own");
});
