import assert from "node:assert/strict";
import fc from "fast-check";
import type { Json, JsonObject } from "../../../src/core/json.ts";
import type { ModelEvent } from "../../../src/core/model.ts";
import { MESSAGES } from "../../../src/wire/anthropic/messages_dialect.ts";
import { GEMINI } from "../../../src/wire/gemini/gemini_dialect.ts";
import { completionEvents } from "../../../src/wire/openai_chat/completion_events.ts";
import { createChatDecoder } from "../../../src/wire/openai_chat/decode_stream.ts";
import { MAX_SOURCES } from "../../../src/wire/source_links.ts";
import { property } from "../../support/property.ts";
import { choicesOf, chunksOf, FACTS } from "../dialect_answers.ts";

const encoder = new TextEncoder();
const frame = (value: Json) => `data: ${JSON.stringify(value)}\n\n`;
const PNG = "data:image/png;base64,iVBORw0KGgo=";
const citation = (url: string, start = 0, end = 5, title: Json = "Example"): JsonObject => ({
  type: "url_citation",
  url_citation: { url, title, start_index: start, end_index: end },
});

/** The sources, files and left-out files of a chat stream with these chunks. */
function decode(chunks: readonly JsonObject[]): ModelEvent[] {
  const decoder = createChatDecoder();
  const all = [...chunks, { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }];
  const events = all.flatMap((chunk) => decoder.push(encoder.encode(frame(chunk))));
  return [...events, ...decoder.end()].filter(({ type }) => /source|file/.test(type));
}

const delta = (value: JsonObject): JsonObject => ({ choices: [{ index: 0, delta: value }] });
const linksOf = (events: readonly ModelEvent[]) =>
  events.map((event) => event.type === "source-url" ? event.url : event.type);

Deno.test("chat decoder: annotations become sources, images become files", () => {
  const annotations = [citation("https://example.com/a"), { type: "file_citation", file_id: "f" }];
  const events = decode([
    delta({ content: "Hello" }),
    delta({ annotations }),
    delta({ annotations, images: [{ type: "image_url", image_url: { url: PNG }, index: 0 }] }),
  ]);
  assert.deepEqual(events, [
    {
      type: "source-url",
      url: "https://example.com/a",
      title: "Example",
      cited: { start: 0, end: 5 },
    },
    { type: "file", mediaType: "image/png", url: PNG },
  ]);
});

Deno.test("chat decoder: a whole answer gives what its stream would", async () => {
  const message = {
    role: "assistant",
    content: "Hello",
    annotations: [citation("https://example.com/a")],
    images: [{ type: "image_url", image_url: { url: PNG } }],
  };
  const bytes = encoder.encode(JSON.stringify({ choices: [{ message, finish_reason: "stop" }] }));
  const types = (await completionEvents(bytes)).map(({ type }) => type);
  assert.deepEqual(types, ["text-delta", "source-url", "file", "finish"]);
});

Deno.test("chat decoder: sources beside the choices, as Perplexity and xAI send them", () => {
  const results = [{ title: "One", url: "https://one.example/" }];
  const perplexity = { ...delta({ content: "a" }), search_results: results, citations: ["x"] };
  assert.deepEqual(decode([perplexity, perplexity]), [
    { type: "source-url", url: "https://one.example/", title: "One" },
  ]);
  const xai = { choices: [], citations: ["https://x.example/1", "https://x.example/2"] };
  assert.deepEqual(linksOf(decode([xai])), ["https://x.example/1", "https://x.example/2"]);
});

Deno.test("chat decoder: an image part of the content is a file", () => {
  const content = [{ type: "text", text: "See" }, { type: "image_url", image_url: { url: PNG } }];
  assert.deepEqual(linksOf(decode([delta({ content })])), ["file"]);
});

Deno.test("chat decoder: no scheme but http and https passes, and no more sources than the bound", () => {
  const hostile = [
    "javascript:alert(1)",
    "data:text/html,x",
    "https://",
    "https://a b",
    "https://a\nb",
    `https://a/${"x".repeat(5000)}`,
    7,
    null,
  ];
  for (const url of hostile) {
    assert.deepEqual(decode([delta({ annotations: [citation(url as string)] })]), []);
    const image = decode([delta({ images: [{ image_url: { url } }] })]);
    assert.ok(image.every(({ type }) => type === "file-left-out"), `${url}`);
  }
  const many = Array.from({ length: 5000 }, (_, index) => citation(`https://a.example/${index}`));
  assert.equal(
    decode([delta({ annotations: many }), delta({ annotations: many })]).length,
    MAX_SOURCES,
  );
});

property(
  "chat decoder: whatever stands in the members, it gives http(s) links only",
  fc.tuple(fc.jsonValue(), fc.jsonValue(), fc.jsonValue()),
  ([one, two, three]) => {
    const events = decode([
      delta({ annotations: [one as Json, citation("https://a.example", 0, 1, two as Json)] }),
      delta({ annotations: three as Json, images: [two as Json, { image_url: one as Json }] }),
      { choices: [], citations: [three as Json], search_results: two as Json },
    ]);
    for (const event of events) {
      if (event.type === "source-url") assert.match(event.url, /^https?:/);
    }
  },
);

const block = (index: number, start: JsonObject, ...deltas: JsonObject[]) => [
  frame({ type: "content_block_start", index, content_block: start }),
  ...deltas.map((delta) => frame({ type: "content_block_delta", index, delta })),
  frame({ type: "content_block_stop", index }),
];
const SEARCH = [
  { type: "web_search_result", url: "https://found.example/", title: "Found", page_age: null },
  { type: "web_search_result", url: "https://cited.example/", title: "Cited" },
];
const CITED = {
  type: "web_search_result_location",
  url: "https://cited.example/",
  title: "Cited",
  cited_text: "…",
  encrypted_index: "E",
};
const annotationsOf = (chunks: JsonObject[]) =>
  choicesOf(chunks).flatMap(({ delta }) => (delta as JsonObject)["annotations"] ?? []);
const ANNOTATIONS = [
  citation("https://found.example/", 0, 0, "Found"),
  citation("https://cited.example/", 0, 0, "Cited"),
  citation("https://cited.example/", 6, 11, "Cited"),
];

Deno.test("messages dialect: web searches and citations are annotations, streamed or whole", () => {
  const text = [
    frame({ type: "message_start", message: { id: "msg_1", model: "claude" } }),
    ...block(0, { type: "server_tool_use", id: "s", name: "web_search", input: {} }, {
      type: "input_json_delta",
      partial_json: "{}",
    }),
    ...block(1, { type: "web_search_tool_result", tool_use_id: "s", content: SEARCH }),
    ...block(2, { type: "text", text: "" }, { type: "text_delta", text: "Look: " }),
    ...block(
      3,
      { type: "text", text: "", citations: [] },
      {
        type: "citations_delta",
        citation: CITED,
      },
      { type: "text_delta", text: "Hello" },
      {
        type: "citations_delta",
        citation: { type: "char_location", document_index: 0 },
      },
    ),
    frame({ type: "message_delta", delta: { stop_reason: "end_turn" } }),
    frame({ type: "message_stop" }),
  ].join("");
  const { chunks, done } = chunksOf(MESSAGES, text);
  assert.equal(done, true);
  assert.deepEqual(annotationsOf(chunks), ANNOTATIONS);
  const whole = MESSAGES.decodeAnswer({
    stop_reason: "end_turn",
    content: [
      { type: "server_tool_use", id: "s", name: "web_search", input: {} },
      { type: "web_search_tool_result", tool_use_id: "s", content: SEARCH },
      { type: "text", text: "Look: " },
      { type: "text", text: "Hello", citations: [CITED] },
    ],
  }, FACTS);
  const [choice] = choicesOf([whole]);
  assert.deepEqual((choice?.["message"] as JsonObject)["annotations"], ANNOTATIONS);
});

Deno.test("messages dialect: a failed search and a fetched page", () => {
  const error = { type: "web_search_tool_result_error", error_code: "unavailable" };
  const fetched = {
    type: "web_fetch_result",
    url: "https://page.example/",
    content: { type: "document", title: "Page" },
  };
  const whole = MESSAGES.decodeAnswer({
    stop_reason: "end_turn",
    content: [
      { type: "web_search_tool_result", tool_use_id: "s", content: error },
      { type: "web_fetch_tool_result", tool_use_id: "f", content: fetched },
      { type: "text", text: "Hi" },
    ],
  }, FACTS);
  const [choice] = choicesOf([whole]);
  assert.deepEqual((choice?.["message"] as JsonObject)["annotations"], [
    citation("https://page.example/", 0, 0, "Page"),
  ]);
});

Deno.test("gemini dialect: grounding is annotations, its places counted in characters, each once", () => {
  const grounding = {
    groundingChunks: [
      { web: { uri: "https://one.example/", title: "one.example" } },
      { retrievedContext: { uri: "https://two.example/", title: "Two" } },
      { web: { uri: "javascript:alert(1)", title: "no" } },
    ],
    groundingSupports: [
      { segment: { startIndex: 5, endIndex: 10, text: "Hello" }, groundingChunkIndices: [0, 2, 9] },
    ],
  };
  const candidate = (more: JsonObject, text: string): JsonObject => ({
    candidates: [{ content: { parts: [{ text }] }, ...more }],
  });
  // é has two bytes.
  const text = [
    frame(candidate({}, "éa!")),
    frame(candidate({ groundingMetadata: grounding }, " Hello")),
    frame(candidate({ groundingMetadata: grounding, finishReason: "STOP" }, "")),
  ].join("");
  assert.deepEqual(annotationsOf(chunksOf(GEMINI, text).chunks), [
    citation("https://one.example/", 4, 9, "one.example"),
    citation("https://two.example/", 0, 0, "Two"),
  ]);
  const whole = GEMINI.decodeAnswer({
    candidates: [{
      content: { parts: [{ text: "Hi" }] },
      finishReason: "STOP",
      citationMetadata: { citationSources: [{ uri: "https://src.example/" }] },
    }],
  }, FACTS);
  const [choice] = choicesOf([whole]);
  assert.deepEqual((choice?.["message"] as JsonObject)["annotations"], [
    citation("https://src.example/", 0, 0, "https://src.example/"),
  ]);
});
