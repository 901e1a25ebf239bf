import type { AbortLike } from "../core/abort.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { HubError } from "../core/error.ts";
import { nextTurn } from "../core/next_turn.ts";
import { chooseCalls, type DemoCall, listOf, offeredTools, plannedTools } from "./demo_calls.ts";
import type { SendUpstream, UpstreamResponse } from "./transport.ts";

interface DemoAnswer {
  text: string;
  calls: DemoCall[];
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * A provider without a model behind it, so that the hub can be seen working without a key. It speaks the OpenAI
 * dialect: `talk` says what it is, `tools` calls the tools that the prompt names and answers from their results. The
 * same request gives the same bytes. Tokens are counted as a quarter of the UTF-8 bytes.
 */
export const sendToDemo: SendUpstream = (request) => {
  if (request.signal.aborted) return Promise.reject(stopped());
  const body = JSON.parse(decoder.decode(request.body ?? encoder.encode("{}"))) as JsonObject;
  const model = String(body["model"]);
  if (model !== "talk" && model !== "tools") {
    const message = `The demo provider has the models talk and tools, not ${model}`;
    const error = {
      message,
      type: "invalid_request_error",
      param: "model",
      code: "model_not_found",
    };
    return Promise.resolve(toResponse(404, [JSON.stringify({ error })], request.signal));
  }
  const answer = model === "tools" ? answerWithTools(body) : { text: introduce(body), calls: [] };
  const frames = body["stream"] === true ? streamed(body, answer) : [whole(body, answer)];
  return Promise.resolve(toResponse(200, frames, request.signal));
};

function introduce(body: JsonObject): string {
  const prompt = lastUserText(body).trim();
  const said = prompt === "" ? "" : ` You said: "${cut(prompt, 200)}".`;
  return `I am Loophub's demo: a fixed program, not a language model.${said} ` +
    "Set OPENAI_API_KEY or another provider's key, and a real model answers here.";
}

function answerWithTools(body: JsonObject): DemoAnswer {
  const messages = listOf(body["messages"]);
  const results = [];
  let at = messages.length - 1;
  for (; at >= 0 && messages[at]?.["role"] === "tool"; at--) {
    results.unshift(`- ${cut(textOf(messages[at]?.["content"]), 2000)}`);
  }
  const planned = plannedTools(messages[at]);
  const isRefused = results.some((text) => /^- (?:Error: )?Not executed/.test(text));
  if (results.length > 0 && (planned === null || isRefused)) {
    return { text: `The tools answered:\n${results.join("\n")}`, calls: [] };
  }
  const calls = chooseCalls(body, { prompt: lastUserText(body), planned });
  if (calls.length > 0) return { text: "", calls };
  const names = offeredTools(body).map((tool) => String(tool["name"]));
  const list = names.length === 0
    ? "No tools were offered."
    : `Tools offered: ${names.join(", ")}.`;
  return { text: `${introduce(body)} Name a tool and I call it. ${list}`, calls };
}

function streamed(body: JsonObject, answer: DemoAnswer): string[] {
  const frame = (choices: Json[], more: JsonObject = {}) =>
    `data: ${JSON.stringify({ ...head(body, "chat.completion.chunk"), choices, ...more })}\n\n`;
  const deltaFrame = (delta: JsonObject, finish: string | null = null) =>
    frame([{ index: 0, delta, finish_reason: finish }]);
  const frames = [deltaFrame({ role: "assistant", content: "" })];
  for (const word of answer.text.match(/\s*\S+|\s+$/g) ?? []) {
    frames.push(deltaFrame({ content: word }));
  }
  answer.calls.forEach((call, index) => {
    const start = {
      index,
      id: `call_demo_${index}`,
      type: "function",
      function: { name: call.name, arguments: "" },
    };
    frames.push(deltaFrame({ tool_calls: [start] }));
    const text = JSON.stringify(call.input);
    for (const letters of text.match(/.{1,16}/gsu) ?? []) {
      const piece = { index, function: { arguments: letters } };
      frames.push(deltaFrame({ tool_calls: [piece] }));
    }
  });
  frames.push(deltaFrame({}, finishOf(answer)));
  const options = body["stream_options"];
  if (isJsonObject(options) && options["include_usage"] === true) {
    frames.push(frame([], { usage: usageOf(body, answer) }));
  }
  frames.push("data: [DONE]\n\n");
  return frames;
}

function whole(body: JsonObject, answer: DemoAnswer): string {
  const message: JsonObject = {
    role: "assistant",
    content: answer.text === "" ? null : answer.text,
  };
  if (answer.calls.length > 0) {
    message["tool_calls"] = answer.calls.map((call, index) => ({
      id: `call_demo_${index}`,
      type: "function",
      function: { name: call.name, arguments: JSON.stringify(call.input) },
    }));
  }
  const count = typeof body["n"] === "number" ? Math.min(Math.max(1, body["n"]), 8) : 1;
  const choices = Array.from({ length: count }, (_, index) => ({
    index,
    message,
    logprobs: null,
    finish_reason: finishOf(answer),
  }));
  return JSON.stringify({
    ...head(body, "chat.completion"),
    choices,
    usage: usageOf(body, answer),
  });
}

const finishOf = (answer: DemoAnswer) => answer.calls.length > 0 ? "tool_calls" : "stop";

function head(body: JsonObject, object: string): JsonObject {
  return { id: "chatcmpl-demo", object, created: 1_760_000_000, model: String(body["model"]) };
}

function usageOf(body: JsonObject, answer: DemoAnswer): JsonObject {
  const quarter = (value: Json) => Math.ceil(encoder.encode(JSON.stringify(value)).length / 4);
  const prompt = quarter(body["messages"] ?? []);
  const completion = quarter([answer.text, ...answer.calls.map((call) => call.input)]);
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
  };
}

function lastUserText(body: JsonObject): string {
  const messages = listOf(body["messages"]).filter((message) => message["role"] === "user");
  return textOf(messages.at(-1)?.["content"]);
}

function textOf(content: Json | undefined): string {
  if (typeof content === "string") return content;
  return listOf(content).map((part) => typeof part["text"] === "string" ? part["text"] : "").join(
    " ",
  );
}

/** The beginning of a text, without half a surrogate pair at its end. */
function cut(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, "");
}

function toResponse(status: number, frames: string[], signal: AbortLike): UpstreamResponse {
  let at = 0;
  let cancelled = false;
  const type = frames.length > 1 ? "text/event-stream" : "application/json";
  return {
    status,
    header: (name) => name === "content-type" ? type : null,
    headers: [["content-type", type]],
    headersStartingWith: (prefixes) =>
      prefixes.some((prefix) => "content-type".startsWith(prefix)) ? [["content-type", type]] : [],
    async read() {
      // A turn of the event loop between frames, so that the stream is seen as one.
      await nextTurn();
      if (cancelled || signal.aborted) throw stopped();
      const frame = frames[at++];
      return frame === undefined ? null : encoder.encode(frame);
    },
    cancel() {
      cancelled = true;
    },
  };
}

function stopped(): HubError {
  return new HubError("aborted", "The call to the demo provider was stopped");
}
