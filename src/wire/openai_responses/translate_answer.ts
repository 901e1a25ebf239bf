import { HubError } from "../../core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { createChatDecoder } from "../openai_chat/decode_stream.ts";
import { ResponseWriter, type ResponseWriterOptions, withoutEncrypted } from "./response_writer.ts";

/** Gives bytes of an answer until there are no more. */
export type Read = () => Promise<Uint8Array | null>;

/** A chat answer on its way to a client of the Responses API. */
export interface TranslatedAnswer {
  /** The next events, never none; null when the answer is whole. Throws as what it reads does. */
  read(): Promise<JsonObject[] | null>;
  /** The response as it is now, reasoning packed in it. */
  readonly response: JsonObject;
}

const encoder = new TextEncoder();

/** An event of a stream as a frame. */
export function toFrame(event: JsonObject): string {
  return `event: ${event["type"]}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** A streamed chat answer as events. */
export function translateStream(read: Read, options: ResponseWriterOptions): TranslatedAnswer {
  const writer = new ResponseWriter(options);
  const decoder = createChatDecoder();
  let state: "new" | "open" | "ended" = "new";
  return {
    get response() {
      return writer.response;
    },
    async read() {
      const events = state === "new" ? writer.begin() : [];
      if (state === "new") state = "open";
      while (events.length === 0 && state === "open") {
        const bytes = await read();
        if (bytes === null) state = "ended";
        events.push(...writer.push(bytes === null ? decoder.end() : decoder.push(bytes)));
      }
      return events.length === 0 ? null : events;
    },
  };
}

/** A whole chat answer as a response. Throws `upstream_malformed` for what is none. */
export function translateWhole(
  bytes: Uint8Array,
  options: ResponseWriterOptions,
): { response: JsonObject; shown: JsonObject } {
  const completion: unknown = JSON.parse(new TextDecoder().decode(bytes));
  const choices = isJsonObject(completion) ? completion["choices"] : null;
  const choice = Array.isArray(choices) ? choices[0] : null;
  if (!isJsonObject(completion) || !isJsonObject(choice) || !isJsonObject(choice["message"])) {
    throw new HubError("upstream_malformed", "The provider's answer has no message in it");
  }
  const { message, ...rest } = choice;
  const chunk = { choices: [{ ...rest, index: 0, delta: toDelta(message) }] };
  const decoder = createChatDecoder();
  const writer = new ResponseWriter(options);
  const frame = (value: JsonObject) => encoder.encode(`data: ${JSON.stringify(value)}\n\n`);
  writer.push(decoder.push(frame(chunk)));
  writer.push(decoder.push(frame({ choices: [], usage: completion["usage"] ?? null })));
  writer.push(decoder.end());
  const { response } = writer;
  return { response, shown: options.showEncrypted ? response : withoutEncrypted(response) };
}

/** The message as the one delta of a stream: its calls numbered. */
function toDelta(message: JsonObject): JsonObject {
  const calls = message["tool_calls"];
  if (!Array.isArray(calls)) return message;
  const tool_calls = calls.map((call: Json, index) =>
    isJsonObject(call) ? { ...call, index } : call
  );
  return { ...message, tool_calls };
}
