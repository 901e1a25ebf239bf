import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { listAt } from "../support/at.ts";
import {
  chatCompletion,
  chatStream,
  type RecordedRequest,
  type Reply,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";

/** The second request of a task: the client's tools, a call and what it gave. */
interface Sample {
  path: string;
  headers: Record<string, string>;
  body: JsonObject;
}

const folder = new URL("../fixtures/clients/", import.meta.url);
const RESULT = "The code word is MAGIC-4711.";
const MODELS = ["chat/m", "anthropic/claude-sonnet-5-5", "google/gemini-3.8-flash", "ollama/m"];
const LAST: Record<string, string> = {
  "/v1/chat/completions": "data: [DONE]",
  "/v1/messages": "event: message_stop",
  "/v1/responses": "event: response.completed",
};

async function readSamples(): Promise<{ name: string; sample: Sample }[]> {
  const all = [];
  for await (const { name } of Deno.readDir(folder)) {
    const lines = (await Deno.readTextFile(new URL(name, folder))).trim().split("\n");
    for (const line of lines) {
      const sample: Sample = JSON.parse(line);
      all.push({ name: `${name.replace(".jsonl", "")} ${sample.path}`, sample });
    }
  }
  return all;
}

const events = (list: JsonObject[]): Reply => ({
  headers: { "content-type": "text/event-stream" },
  frames: list.map((event) =>
    `${event["type"] === undefined ? "" : `event: ${event["type"]}\n`}data: ${
      JSON.stringify(event)
    }\n\n`
  ),
});

const json = (body: JsonObject): Reply => ({
  headers: { "content-type": "application/json" },
  body,
});

/** "All right" of a model, in the dialect of the path that was asked. */
function answer(request: RecordedRequest): Reply {
  const text = "All right";
  const stream = request.json.stream === true;
  if (request.path.endsWith("/v1/messages")) {
    const message = {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "m",
      content: [{ type: "text", text }],
      stop_reason: "end_turn",
      usage: { input_tokens: 5, output_tokens: 2 },
    };
    return stream
      ? events([
        { type: "message_start", message: { ...message, content: [], stop_reason: null } },
        { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index: 0, delta: { type: "text_delta", text } },
        { type: "content_block_stop", index: 0 },
        { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 2 } },
        { type: "message_stop" },
      ])
      : json(message);
  }
  if (request.path.includes("enerateContent")) {
    const content = { role: "model", parts: [{ text }] };
    const whole = { candidates: [{ content, finishReason: "STOP", index: 0 }] };
    return request.path.includes("stream") ? events([whole]) : json(whole);
  }
  if (request.path.endsWith("/api/chat")) {
    const whole = {
      model: "m",
      message: { role: "assistant", content: text },
      done: true,
      done_reason: "stop",
    };
    return stream
      ? {
        headers: { "content-type": "application/x-ndjson" },
        frames: [`${JSON.stringify(whole)}\n`],
      }
      : json(whole);
  }
  return stream ? chatStream({ deltas: [text] }) : chatCompletion({ text });
}

const namesOf = (tools: JsonObject[]): unknown[] =>
  tools.flatMap((tool) => {
    const { functionDeclarations, function: inner } = tool;
    if (Array.isArray(functionDeclarations)) return namesOf(functionDeclarations as JsonObject[]);
    return [(inner as JsonObject | undefined)?.["name"] ?? tool["name"]];
  });

async function ask(hub: TestHub, sample: Sample, model: string, stream: boolean): Promise<string> {
  const { stream_options, ...rest } = sample.body;
  const options = stream && stream_options !== undefined ? { stream_options } : {};
  const response = await hub.call(sample.path, {
    body: { ...rest, ...options, model, stream },
    headers: sample.headers,
  });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return text;
}

Deno.test("a task of each client goes on over each dialect, streamed and not", async (t) => {
  const upstream = await startScriptedUpstream(answer);
  const origin = new URL(upstream.url).origin;
  const config = {
    providers: {
      chat: { baseUrl: upstream.url, apiKey: "sk-up" },
      anthropic: { kind: "anthropic", baseUrl: origin, apiKey: "sk-up" },
      google: { kind: "google", baseUrl: `${origin}/v1beta`, apiKey: "sk-up" },
      ollama: { kind: "ollama", baseUrl: origin },
    },
    defaultModel: "chat/m",
  };
  const samples = await readSamples();
  assert.equal(samples.length, 11);
  try {
    await withHub(config, async (hub) => {
      for (const { name, sample } of samples) {
        for (const model of MODELS) {
          for (const stream of [true, false]) {
            await t.step(`${name} over ${model}, stream: ${stream}`, async () => {
              const before = upstream.requests.length;
              const text = await ask(hub, sample, model, stream);
              assert.ok(text.includes("All right"), text);
              const last = LAST[new URL(sample.path, hub.url).pathname] ?? "";
              if (stream) assert.ok(text.includes(last), text);
              assert.equal(upstream.requests.length, before + 1);
              const sent = upstream.requests.at(-1);
              assert.ok(sent?.text.includes(RESULT), sent?.text);
              assert.ok(sent?.text.includes("What is the code word in note.txt?"), sent?.text);
              assert.deepEqual(
                namesOf(listAt(sent?.json, "tools") as JsonObject[]),
                namesOf(sample.body["tools"] as JsonObject[]),
              );
            });
          }
        }
      }
    });
  } finally {
    await upstream.stop();
  }
});
