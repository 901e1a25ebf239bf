import assert from "node:assert/strict";
import fc from "fast-check";
import { rewriteChatRequest } from "../../../src/wire/openai_chat/rewrite_request.ts";
import { scanChatRequest } from "../../../src/wire/openai_chat/scan_request.ts";
import { property } from "../../support/property.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const request = fc.record({
  model: fc.string({ minLength: 1 }),
  stream: fc.boolean(),
  more: fc.jsonValue({ maxDepth: 5 }),
  messages: fc.array(fc.jsonValue({ maxDepth: 4 })),
});

/** Whether this is a whole JSON text, by the runtime's own parser. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

property("the scan reads what JSON.parse reads", request, (value) => {
  const scan = scanChatRequest(encoder.encode(JSON.stringify(value, null, 2)));
  assert.equal(scan.model, value.model);
  assert.equal(scan.stream, value.stream);
});

property(
  "a changed byte is refused exactly when JSON.parse refuses it",
  fc.tuple(request, fc.nat(), fc.constantFrom(...'{}[]",:0-.eE+\\u tfn\n\u0001a')),
  ([value, place, letter]) => {
    const text = JSON.stringify({ ...value, stream: false });
    const at = place % text.length;
    const changed = text.slice(0, at) + letter + text.slice(at + 1);
    let refused = false;
    try {
      scanChatRequest(encoder.encode(changed));
    } catch (error) {
      refused = (error as { code?: string }).code === "invalid_json";
    }
    if (isJson(changed) && JSON.parse(changed) !== null) assert.equal(refused, false, changed);
    if (!isJson(changed)) assert.equal(refused, true, changed);
  },
  { runs: 1000 },
);

property("a rewrite changes the model and adds usage, and nothing else", request, (value) => {
  const body = encoder.encode(JSON.stringify(value));
  const scan = scanChatRequest(body);
  const { body: sent, hideUsage } = rewriteChatRequest(body, {
    scan,
    model: "other",
    streamOptions: true,
  });
  assert.equal(hideUsage, value.stream);
  const wanted = { ...value, model: "other" };
  const got = JSON.parse(decoder.decode(sent));
  const { stream_options: options, ...rest } = got;
  assert.deepEqual(rest, JSON.parse(JSON.stringify(wanted)));
  assert.deepEqual(options, value.stream ? { include_usage: true } : undefined);
});

Deno.test("stream options of the client stay, and get what they lack", () => {
  const sent = (options: string, streamOptions = true) => {
    const body = encoder.encode(`{"model":"m","stream":true,"stream_options":${options}}`);
    const scan = scanChatRequest(body);
    const rewritten = rewriteChatRequest(body, { scan, model: "m", streamOptions });
    return [decoder.decode(rewritten.body).slice(44), rewritten.hideUsage];
  };
  assert.deepEqual(sent('{"include_usage":true}'), ['{"include_usage":true}}', false]);
  assert.deepEqual(sent('{"include_usage":false}'), ['{"include_usage":false}}', false]);
  assert.deepEqual(sent('{"include_usage":null}'), ['{"include_usage":null}}', false]);
  assert.deepEqual(sent("{ }"), ['{"include_usage":true }}', true]);
  assert.deepEqual(sent('{"x":1}'), ['{"include_usage":true,"x":1}}', true]);
  assert.deepEqual(sent("null"), ['{"include_usage":true}}', true]);
  for (const options of ['{"include_usage":true}', "{ }", "null"]) {
    assert.deepEqual(sent(options, false), [`${options}}`, false]);
  }
});

Deno.test("the number of choices is read, and 1 when it is none", () => {
  const choices = (n: string) => scanChatRequest(encoder.encode(`{"model":"m","n":${n}}`)).choices;
  assert.deepEqual(["3", "1", "0", "-2", "1.5", "1e999", '"4"', "null"].map(choices), [
    3,
    ...Array.from({ length: 7 }, () => 1),
  ]);
});

Deno.test("names that come twice, other types and depth are told", () => {
  const scan = (text: string) => () => scanChatRequest(encoder.encode(text));
  assert.throws(scan('{"model":"a","model":"b"}'), /twice/);
  assert.throws(scan('{"model":"a","\\u006dodel":"b"}'), /twice/);
  assert.throws(scan('{"model":""}'), /name of a model/);
  assert.throws(scan('{"model":"a","stream":"yes"}'), /a boolean/);
  assert.throws(scan(`{"model":"a","x":${"[".repeat(64)}${"]".repeat(64)}}`), /levels deep/);
  assert.throws(scan('{"model":"a"} x'), /at byte 14/);
  assert.throws(scan("\ufeff{}"), { code: "invalid_json" });
});
