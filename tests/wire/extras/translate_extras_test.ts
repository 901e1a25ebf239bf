import assert from "node:assert/strict";
import type { JsonObject } from "../../../src/core/json.ts";
import {
  translateStream as toMessages,
  translateWhole as toMessage,
} from "../../../src/wire/messages/translate_answer.ts";
import { withoutPacked } from "../../../src/wire/messages/messages_request.ts";
import { newResponse } from "../../../src/wire/openai_responses/response_object.ts";
import {
  translateStream as toResponses,
  translateWhole as toResponse,
} from "../../../src/wire/openai_responses/translate_answer.ts";
import { chatCompletion } from "../../support/chat_replies.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const PNG = "data:image/png;base64,iVBORw0KGgo=";
const citation = (url: string, start: number, end: number): JsonObject => ({
  type: "url_citation",
  url_citation: { url, title: "T", start_index: start, end_index: end },
});
const chunk = (delta: JsonObject, finish_reason: string | null = null) =>
  encoder.encode(`data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
/** A source before all text, one in it, an image, more text and a source of that. */
const CHUNKS = [
  chunk({ annotations: [citation("https://early.example/", 0, 0)] }),
  chunk({ content: "Hello " }),
  chunk({ content: "you" }),
  chunk({ annotations: [citation("https://a.example/", 6, 9)] }),
  chunk({ images: [{ type: "image_url", image_url: { url: PNG } }] }),
  chunk({ content: "More" }),
  chunk({ annotations: [citation("https://b.example/", 9, 13)] }),
  chunk({}, "stop"),
];
const readOf = (pieces: Uint8Array[]) => {
  const left = [...pieces];
  return () => Promise.resolve(left.shift() ?? null);
};
const COMPLETION = JSON.stringify({
  choices: [{
    index: 0,
    finish_reason: "stop",
    message: {
      role: "assistant",
      content: "Hello",
      images: [{ type: "image_url", image_url: { url: PNG } }],
      annotations: [citation("https://a.example/", 0, 5)],
    },
  }],
});
const responseOptions = () => ({
  response: newResponse({}, { id: `resp_${"a".repeat(32)}`, createdAt: 1, model: "m", tools: [] }),
  tools: new Map(),
  showEncrypted: false,
  provider: "up",
  model: "m",
  now: () => 2,
});
const messageOptions = () => ({
  id: "msg_1",
  model: "m",
  thinks: false,
  from: { provider: "up", model: "m" },
});
const annotation = (url: string, start: number, end: number): JsonObject => ({
  type: "url_citation",
  url,
  title: "T",
  start_index: start,
  end_index: end,
});

Deno.test("responses writer: sources are annotations, images are image_generation_call items", async () => {
  const { read } = toResponses(readOf(CHUNKS), responseOptions());
  const events: JsonObject[] = [];
  for (let next = await read(); next !== null; next = await read()) events.push(...next);
  const added = events.filter(({ type }) => type === "response.output_text.annotation.added");
  assert.deepEqual(
    added.map(({ output_index, annotation_index, annotation }) => [
      output_index,
      annotation_index,
      annotation,
    ]),
    [
      [0, 0, annotation("https://early.example/", 0, 0)],
      [0, 1, annotation("https://a.example/", 6, 9)],
      [2, 0, annotation("https://b.example/", 0, 4)],
    ],
  );
  const part = events.find(({ type }) => type === "response.content_part.added");
  assert.deepEqual((part?.["part"] as JsonObject)["annotations"], []);
  const { output } = events.at(-1)?.["response"] as { output: JsonObject[] };
  assert.deepEqual(output.map(({ type, status }) => [type, status]), [
    ["message", "completed"],
    ["image_generation_call", "completed"],
    ["message", "completed"],
  ]);
  assert.equal(output[1]?.["result"], "iVBORw0KGgo=");
  assert.equal(output[1]?.["output_format"], "png");
  const imageEvents = events.filter((event) => event["output_index"] === 1);
  assert.deepEqual(imageEvents.map(({ type }) => type), [
    "response.output_item.added",
    "response.image_generation_call.in_progress",
    "response.image_generation_call.completed",
    "response.output_item.done",
  ]);
});

Deno.test("responses writer: a whole answer has them too", async () => {
  const { shown } = await toResponse(encoder.encode(COMPLETION), responseOptions());
  const output = shown["output"] as JsonObject[];
  assert.deepEqual(output.map(({ type }) => type), ["message", "image_generation_call"]);
});

Deno.test("messages writer: sources are citations of the text, an image is told in words", async () => {
  const read = toMessages(readOf(CHUNKS), messageOptions());
  let text = "";
  for (let bytes = await read(); bytes !== null; bytes = await read()) {
    text += decoder.decode(bytes);
  }
  const events = [...text.matchAll(/^data: (.*)$/gm)].map(([, json = ""]) => JSON.parse(json));
  const deltas = events.flatMap(({ delta }) => delta?.type === "citations_delta" ? [delta] : []);
  assert.deepEqual(deltas.map(({ citation: { type, url, title } }) => [type, url, title]), [
    ["web_search_result_location", "https://early.example/", "T"],
    ["web_search_result_location", "https://a.example/", "T"],
    ["web_search_result_location", "https://b.example/", "T"],
  ]);
  assert.match(text, /file of type image\/png, which this API cannot carry/);
});

Deno.test("messages writer: the hub's own citations do not go back to Anthropic", async () => {
  const message = await toMessage(encoder.encode(COMPLETION), messageOptions());
  const { content } = JSON.parse(decoder.decode(message));
  assert.equal(content[0].citations.length, 1);
  const foreign = { type: "web_search_result_location", encrypted_index: "E", url: "u" };
  const sent = async (blocks: JsonObject[]) => {
    const body = { messages: [{ role: "assistant", content: blocks }] };
    const bytes = await withoutPacked(encoder.encode(JSON.stringify(body)));
    return JSON.parse(decoder.decode(bytes)).messages[0].content[0];
  };
  assert.deepEqual(await sent([content[0]]), { type: "text", text: "Hello" });
  const mixed = { ...content[0], citations: [...content[0].citations, foreign] };
  assert.deepEqual((await sent([mixed])).citations, [foreign]);
});

Deno.test("messages writer: an answer without sources has no citations", async () => {
  const { body } = chatCompletion({ text: "Hi" });
  const bytes = await toMessage(encoder.encode(JSON.stringify(body)), messageOptions());
  assert.deepEqual(JSON.parse(decoder.decode(bytes)).content, [{ type: "text", text: "Hi" }]);
});
