import assert from "node:assert/strict";
import { isJsonObject, type JsonObject } from "../../src/core/json.ts";
import { at, listAt } from "../support/at.ts";
import {
  nativeFrames,
  nativeReply,
  nativeResponse,
  readResponsesSamples,
} from "../support/responses.ts";
import {
  chatCompletion,
  chatStream,
  type RecordedRequest,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";

const samples = await readResponsesSamples();
const usage = { promptTokens: 5, completionTokens: 3 };

/** The events of a stream, checked for their names and numbers. */
function eventsOf(text: string): JsonObject[] {
  const frames = text.trimEnd().split("\n\n").filter((frame) => !frame.startsWith(":"));
  return frames.map((frame, index) => {
    const [name = "", data = ""] = frame.split("\n");
    const event = JSON.parse(data.slice("data: ".length));
    assert.equal(name, `event: ${event.type}`);
    assert.equal(event.sequence_number, index);
    return event;
  });
}

const post = (hub: TestHub, sent: string, headers: Record<string, string> = {}) =>
  fetch(`${hub.url}/v1/responses`, {
    method: "POST",
    headers: { ...headers, authorization: `Bearer ${hub.key}` },
    body: sent,
  });

Deno.test("every request of a real client is answered over chat completions", async (t) => {
  const upstream = await startScriptedUpstream((request) =>
    request.json.stream === true
      ? chatStream({ text: "Hello you", usage })
      : chatCompletion({ text: "Hello you", usage })
  );
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-up" } },
    defaultModel: "up/m",
  };
  try {
    await withHub(config, async (hub) => {
      for (const [index, { client, headers, body }] of samples.entries()) {
        for (const stream of [true, false]) {
          await t.step(`${client} ${index}, stream: ${stream}`, async () => {
            const answer = await post(
              hub,
              JSON.stringify({ ...body, model: `up/${body.model}`, stream }),
              headers,
            );
            const text = await answer.text();
            assert.equal(answer.status, 200, text);
            const response = stream
              ? eventsOf(text).at(-1)?.["response"] as JsonObject
              : JSON.parse(text);
            assert.equal(response["status"], "completed");
            assert.equal(JSON.stringify(response["output"]).includes("Hello you"), true);
            const isCodex = client === "codex";
            assert.equal(
              answer.headers.get("x-loophub-left-out"),
              isCodex ? "tools[8] (web_search)" : null,
            );
            checkChat(upstream.requests.at(-1), body);
          });
        }
      }
    });
  } finally {
    await upstream.stop();
  }
});

/** Nothing of the request is lost on its way into a chat. */
function checkChat(request: RecordedRequest | undefined, body: JsonObject): void {
  const chat = request?.json ?? {};
  const said = JSON.stringify(chat.messages);
  const items = (body["input"] as JsonObject[]).filter(isJsonObject);
  for (const { content, type, call_id } of items) {
    const parts = Array.isArray(content) ? content.filter(isJsonObject) : [{ text: content ?? "" }];
    for (const { text } of parts) {
      assert.ok(said.includes(JSON.stringify(text).slice(1, -1)), `${JSON.stringify(text)}`);
    }
    if (typeof call_id === "string" && type !== "web_search_call") {
      assert.ok(said.includes(`"${call_id}"`), call_id);
    }
  }
  const tools = (body["tools"] ?? []) as JsonObject[];
  const names = tools.flatMap((tool) => {
    if (tool["type"] === "web_search") return [];
    if (tool["type"] !== "namespace") return [tool["name"] ?? tool["type"]];
    return (tool["tools"] as JsonObject[]).map(({ name }) => `${tool["name"]}__${name}`);
  });
  const offered = listAt(chat, "tools").map((tool) => at(tool, "function", "name"));
  assert.deepEqual(offered, names);
  assert.equal(chat.max_tokens, body["max_output_tokens"]);
}

Deno.test("a provider of Responses gets each request as it is, and its bytes pass", async (t) => {
  const upstream = await startScriptedUpstream((request) => nativeReply(request));
  const config = {
    providers: { up: { kind: "openai", baseUrl: upstream.url, apiKey: "sk-up" } },
    defaultModel: "up/m",
  };
  try {
    await withHub(config, async (hub) => {
      for (const [index, { client, headers, body }] of samples.entries()) {
        for (const stream of [true, false]) {
          await t.step(`${client} ${index}, stream: ${stream}`, async () => {
            const sent = JSON.stringify({ ...body, model: `up/${body.model}`, stream });
            const answer = await post(hub, sent, headers);
            const text = await answer.text();
            assert.equal(answer.status, 200, text);
            const request = upstream.requests.at(-1);
            assert.equal(request?.path, "/v1/responses");
            assert.equal(
              request?.text,
              sent.replace(`"up/${body.model}"`, JSON.stringify(body.model)),
            );
            assert.equal(request?.header("authorization"), "Bearer sk-up");
            assert.equal(text, stream ? nativeFrames().join("") : JSON.stringify(nativeResponse()));
          });
        }
      }
    });
  } finally {
    await upstream.stop();
  }
});
