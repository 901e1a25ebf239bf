import type { JsonObject } from "../../core/json.ts";
import { completionEvents } from "../openai_chat/completion_events.ts";
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
  const writer = new ResponseWriter(options);
  writer.push(completionEvents(bytes));
  const { response } = writer;
  return { response, shown: options.showEncrypted ? response : withoutEncrypted(response) };
}
