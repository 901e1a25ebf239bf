import type { JsonObject } from "../../src/core/json.ts";
import type { Reply } from "./scripted_upstream.ts";
import { makeParseableTextFormat } from "openai/lib/parser";

/** A format as the openai package makes one of a schema library. */
export function zodlessFormat() {
  return makeParseableTextFormat({
    type: "json_schema",
    name: "answer",
    strict: true,
    schema: {
      type: "object",
      properties: { n: { type: "number" } },
      required: ["n"],
      additionalProperties: false,
    },
  }, (content) => JSON.parse(content) as { n: number });
}

/** A request of a real client. */
export interface ResponsesSample {
  client: string;
  headers: Record<string, string>;
  body: JsonObject & { model: string; stream: boolean };
}

/** The requests of real clients at `/v1/responses`. */
export async function readResponsesSamples(): Promise<ResponsesSample[]> {
  const folder = new URL("../fixtures/responses/", import.meta.url);
  const samples: ResponsesSample[] = [];
  for await (const { name } of Deno.readDir(folder)) {
    const text = await Deno.readTextFile(new URL(name, folder));
    for (const line of text.trim().split("\n")) {
      samples.push({ client: name.replace(".jsonl", ""), ...JSON.parse(line) });
    }
  }
  return samples;
}

/** What a provider of Responses answers. */
export interface NativeAnswer {
  id?: string;
  text?: string;
  /** In place of `response.completed`. */
  last?: JsonObject;
}

const itemOf = (id: string, text: string) => ({
  id: `msg_${id}`,
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text, annotations: [], logprobs: [] }],
});

/** A whole response as a provider tells it. */
export function nativeResponse({ id = "resp_native1", text = "ok" }: NativeAnswer = {}) {
  return {
    id,
    object: "response",
    created_at: 1_800_000_000,
    status: "completed",
    model: "native-model",
    output: [itemOf(id, text)],
    parallel_tool_calls: true,
    tool_choice: "auto",
    tools: [],
    error: null,
    incomplete_details: null,
    usage: {
      input_tokens: 11,
      input_tokens_details: { cached_tokens: 4 },
      output_tokens: 7,
      output_tokens_details: { reasoning_tokens: 2 },
      total_tokens: 18,
    },
  };
}

/** The frames of a streamed response as a provider sends them. */
export function nativeFrames(answer: NativeAnswer = {}): string[] {
  const { text = "ok" } = answer;
  const done = nativeResponse(answer);
  const response = { ...done, status: "in_progress", output: [], usage: null };
  const item = itemOf(done.id, text);
  const at = { item_id: item.id, output_index: 0, content_index: 0 };
  const part = { type: "output_text", text: "", annotations: [], logprobs: [] };
  const events: JsonObject[] = [
    { type: "response.created", response },
    { type: "response.in_progress", response },
    {
      type: "response.output_item.added",
      output_index: 0,
      item: { ...item, status: "in_progress", content: [] },
    },
    { type: "response.content_part.added", ...at, part },
    ...(text.match(/\S+\s*/g) ?? []).map((delta) => ({
      type: "response.output_text.delta",
      ...at,
      delta,
      logprobs: [],
    })),
    { type: "response.output_text.done", ...at, text, logprobs: [] },
    { type: "response.content_part.done", ...at, part: { ...part, text } },
    { type: "response.output_item.done", output_index: 0, item },
    answer.last ?? { type: "response.completed", response: done },
  ];
  return events.map((event, sequence_number) =>
    `event: ${event["type"]}\ndata: ${JSON.stringify({ ...event, sequence_number })}\n\n`
  );
}

/** A streamed or a whole response as the reply of a scripted upstream. */
export function nativeReply(request: { json: JsonObject }, answer: NativeAnswer = {}): Reply {
  return request.json["stream"] === true
    ? { headers: { "content-type": "text/event-stream" }, frames: nativeFrames(answer) }
    : { headers: { "content-type": "application/json" }, body: nativeResponse(answer) };
}
