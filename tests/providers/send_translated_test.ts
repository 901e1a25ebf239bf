import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { sendTranslated } from "../../src/providers/send_translated.ts";
import type { SendUpstream, UpstreamResponse } from "../../src/providers/transport.ts";
import { MESSAGES } from "../../src/wire/anthropic/messages_dialect.ts";
import { GEMINI } from "../../src/wire/gemini/gemini_dialect.ts";
import { settle } from "../support/fake_clock.ts";
import { createFakeAnswer } from "../support/fake_target.ts";

const encoder = new TextEncoder();

/** An answer of these parts in one read. */
function answerOf(status: number, headers: [string, string][], body: unknown): UpstreamResponse {
  let bytes: Uint8Array | null = encoder.encode(JSON.stringify(body));
  return {
    status,
    headers,
    header: (name) => headers.find(([field]) => field === name)?.[1] ?? null,
    headersStartingWith: (prefixes) =>
      headers.filter(([field]) => prefixes.some((prefix) => field.startsWith(prefix))),
    read() {
      const read = bytes;
      bytes = null;
      return Promise.resolve(read);
    },
    cancel() {},
  };
}

async function ask(response: UpstreamResponse) {
  const sent: { url: string; body: JsonObject }[] = [];
  const send: SendUpstream = ({ url, body }) => {
    sent.push({ url, body: JSON.parse(new TextDecoder().decode(body ?? undefined)) });
    return Promise.resolve(response);
  };
  const translated = sendTranslated({
    send,
    dialect: GEMINI,
    baseUrl: "http://g.test/v1beta",
    settingsOf: () => ({}),
    now: () => 5000,
    nextId: () => "chatcmpl-1",
  });
  const answer = await translated({
    method: "POST",
    url: "unused",
    headers: [],
    body: encoder.encode('{"model":"m","messages":[{"role":"user","content":"Hi"}]}'),
    signal: new AbortController().signal,
    connectTimeoutMs: 1,
  });
  const text = new TextDecoder().decode(await answer.read() ?? undefined);
  return { answer, sent, body: JSON.parse(text) };
}

Deno.test("frames that make no chunk keep a long silence from looking like a stall", async () => {
  let nowMs = 0;
  const ping = createFakeAnswer({ headers: { "content-type": "text/event-stream" } });
  const translated = sendTranslated({
    send: () => Promise.resolve(ping.response),
    dialect: MESSAGES,
    baseUrl: "http://a.test/v1",
    settingsOf: () => ({}),
    now: () => nowMs,
    nextId: () => "chatcmpl-1",
  });
  const answer = await translated({
    method: "POST",
    url: "unused",
    headers: [],
    body: encoder.encode('{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}'),
    signal: new AbortController().signal,
    connectTimeoutMs: 1,
  });
  const frame = 'event: ping\ndata: {"type":"ping"}\n\n';
  const read = answer.read();
  for (nowMs = 1000; nowMs < 5000; nowMs += 1000) {
    ping.push(frame);
    await settle();
  }
  assert.equal(ping.reads, 5);
  ping.push(frame);
  assert.equal(new TextDecoder().decode(await read ?? undefined), ":\n\n");
  const next = answer.read();
  ping.push(frame);
  ping.end();
  assert.equal(await next, null);
});

const limited = (retryDelay: string) => ({
  error: {
    code: 429,
    message: "Slow down",
    status: "RESOURCE_EXHAUSTED",
    details: [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay }],
  },
});

Deno.test("a wait that is in an error's body goes into its head", async () => {
  const json: [string, string] = ["content-type", "application/json"];
  const { answer, body, sent } = await ask(answerOf(429, [json, ["x-a", "1"]], limited("7s")));
  assert.equal(sent[0]?.url, "http://g.test/v1beta/models/m:generateContent");
  assert.equal(answer.status, 429);
  assert.equal(body.error.message, "Slow down");
  assert.equal(answer.header("retry-after"), "7");
  assert.deepEqual(answer.headersStartingWith(["retry-after", "x-"]), [["x-a", "1"], [
    "retry-after",
    "7",
  ]]);
  assert.deepEqual(answer.headersStartingWith(["openai-"]), []);
  assert.equal(answer.headers.filter(([name]) => name === "retry-after").length, 1);
});

Deno.test("a wait that the head has is kept", async () => {
  const { answer } = await ask(answerOf(429, [["retry-after", "3"]], limited("7s")));
  assert.equal(answer.header("retry-after"), "3");
  assert.deepEqual(answer.headersStartingWith(["retry-after"]), [["retry-after", "3"]]);
});

Deno.test("a key that is not valid is a 401, whatever status it came with", async () => {
  const details = [{ reason: "API_KEY_INVALID" }];
  const error = { code: 400, message: "API key not valid", status: "INVALID_ARGUMENT", details };
  const { answer, body } = await ask(answerOf(400, [], { error }));
  assert.equal(answer.status, 401);
  assert.equal(body.error.code, "invalid_api_key");
});

Deno.test("arguments that a provider has other names for come back under the client's", async () => {
  let sent: JsonObject = {};
  const translated = sendTranslated({
    send({ body }) {
      sent = JSON.parse(new TextDecoder().decode(body ?? undefined));
      const [tool] = sent["tools"] as { input_schema: { properties: JsonObject } }[];
      const [alias = ""] = Object.keys(tool?.input_schema.properties ?? {});
      const content = [{ type: "tool_use", id: "t", name: "find", input: { [alias]: 1 } }];
      return Promise.resolve(answerOf(200, [], { content, stop_reason: "tool_use" }));
    },
    dialect: MESSAGES,
    baseUrl: "http://a.test/v1",
    settingsOf: () => ({}),
    now: () => 5000,
    nextId: () => "chatcmpl-1",
  });
  const parameters = { type: "object", properties: { "$where": { type: "number" } } };
  const answer = await translated({
    method: "POST",
    url: "unused",
    headers: [],
    body: encoder.encode(JSON.stringify({
      model: "m",
      messages: [{ role: "user", content: "Hi" }],
      tools: [{ type: "function", function: { name: "find", parameters } }],
    })),
    signal: new AbortController().signal,
    connectTimeoutMs: 1,
  });
  const body = JSON.parse(new TextDecoder().decode(await answer.read() ?? undefined));
  assert.ok(!JSON.stringify(sent).includes('"$where":'));
  assert.equal(body.choices[0].message.tool_calls[0].function.arguments, '{"$where":1}');
});
