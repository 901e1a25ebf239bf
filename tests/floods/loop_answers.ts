import type { JsonObject } from "../../src/core/json.ts";
import type { Reply } from "../support/scripted_upstream.ts";
import { type HostileRequest, objectOf, TEXTS } from "./loop_shapes.ts";

/** A hostile answer of a provider, and the request that it is the answer to. */
export interface HostileAnswer extends Pick<HostileRequest, "status" | "upTo"> {
  name: string;
  path: string;
  request: JsonObject;
  answer: () => Reply;
}

const encoder = new TextEncoder();
const json = (text: string): Reply => ({
  headers: { "content-type": "application/json" },
  body: encoder.encode(text),
});
const stream = (text: string): Reply => ({
  headers: { "content-type": "text/event-stream" },
  frames: [encoder.encode(text), encoder.encode(END)],
});
const messages = [{ role: "user", content: "hi" }];
const asked = (model: string, more: JsonObject = {}): JsonObject => ({ model, messages, ...more });
const CHAT = "/v1/chat/completions";
const MESSAGES = "/v1/messages";
const RESPONSES = "/v1/responses";

const chat = (content: string, more = "") =>
  json(
    `{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":${content}},"finish_reason":"stop"}]${more}}`,
  );
const anthropic = (block: string) =>
  json(
    `{"type":"message","content":[${block}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`,
  );
const input = (value: string) =>
  anthropic(`{"type":"tool_use","id":"t","name":"x","input":{"a":${value}}}`);
const frame = (delta: string, more = "") =>
  `data: {"choices":[{"index":0,"delta":{${delta}}}]${more}}\n\n`;
const END = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
const TEXT = TEXTS["lines"]?.(40_000_000) ?? "";
const NESTED = "[".repeat(3_000_000) + "]".repeat(3_000_000);

/** Streams in one piece. */
const STREAMS: readonly (readonly [name: string, text: string])[] = [
  ["tiny frames", frame('"content":"a"').repeat(60_000)],
  ["comments", frame('"content":"a"') + ":\n\n".repeat(1_000_000)],
  ["a frame that nests", frame('"content":"a"', `,"x":${"[".repeat(3_900_000)}`)],
  ["a frame of many names", frame('"content":"a"', `,"x":${objectOf(400_000)}`)],
];
/** Chunks of a stream of so many calls with arguments of so many characters. */
const callsOf = (calls: number, piece: string, pieces: number) =>
  Array.from({ length: calls }, (_, index) => {
    const call = (more: string) => frame(`"tool_calls":[{"index":${index},${more}}]`);
    const said = JSON.stringify(piece);
    return call(`"id":"c${index}","type":"function","function":{"name":"hub__calculate"}`) +
      call(`"function":{"arguments":${said}}`).repeat(pieces);
  }).join("");
const CALLS: readonly (readonly [name: string, text: string])[] = [
  ["a call of 7 MB", callsOf(1, "x".repeat(64_000), 110)],
  ["a call of 7 MB in small pieces", callsOf(1, "x".repeat(100), 70_000)],
  ["15 calls of 1 MB", callsOf(15, "x".repeat(50_000), 20)],
];
const READERS: readonly (readonly [name: string, path: string, request: JsonObject])[] = [
  ["chat completions", CHAT, asked("up/m", { stream: true })],
  ["a UIMessage stream", `${CHAT}?stream_format=ui`, asked("up/m", { stream: true })],
  ["messages", MESSAGES, asked("up/m", { stream: true, max_tokens: 9 })],
  ["responses", RESPONSES, { model: "up/m", input: "hi", stream: true }],
  ["an agent", CHAT, asked("agent/default", { stream: true })],
];

/** Answers that are much work for their size. */
export const HOSTILE_ANSWERS: readonly HostileAnswer[] = [
  { name: "40 MB of text", path: CHAT, request: asked("up/m"), answer: () => chat(TEXT) },
  {
    name: "three million levels",
    path: CHAT,
    request: asked("up/m"),
    answer: () => chat('"a"', `,"x":${NESTED}`),
    status: 502,
  },
  {
    name: "500,000 names",
    path: CHAT,
    request: asked("up/m"),
    answer: () => chat('"a"', `,"x":${objectOf(500_000)}`),
  },
  {
    name: "40 MB of text from Anthropic",
    path: CHAT,
    request: asked("ant/m"),
    answer: () => anthropic(`{"type":"text","text":${TEXT}}`),
  },
  {
    name: "a call of three million levels from Anthropic",
    path: CHAT,
    request: asked("ant/m"),
    answer: () => input(NESTED),
    status: 502,
  },
  {
    name: "a call of many names from Anthropic",
    path: CHAT,
    request: asked("ant/m"),
    answer: () => input(objectOf(500_000)),
    status: 502,
  },
  {
    name: "40 MB of text for responses",
    path: RESPONSES,
    request: { model: "up/m", input: "hi" },
    answer: () => chat(TEXT),
    status: 502,
  },
  {
    name: "three million levels for messages",
    path: MESSAGES,
    request: asked("up/m", { max_tokens: 9 }),
    answer: () => chat('"a"', `,"x":${NESTED}`),
    status: 502,
  },
  ...CALLS.map(([name, text]) => ({
    name: `${name} for an agent`,
    path: CHAT,
    request: asked("agent/default", { stream: true }),
    answer: () => stream(text),
  })),
  ...STREAMS.flatMap(([name, text]) =>
    READERS.map(([reader, path, request]) => ({
      name: `${name} for ${reader}`,
      path,
      request,
      answer: () => stream(text),
    }))
  ),
];
