import type { JsonObject } from "../../core/json.ts";
import { completionEvents } from "../openai_chat/completion_events.ts";
import { createChatDecoder } from "../openai_chat/decode_stream.ts";
import { MessageWriter, type MessageWriterOptions } from "./message_writer.ts";

/** Gives bytes of an answer until there are no more. */
export type Read = () => Promise<Uint8Array | null>;

const encoder = new TextEncoder();

/** An event of a stream as a frame. */
export function toFrame(event: JsonObject): string {
  return `event: ${event["type"]}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** A streamed chat answer as frames of a Messages stream; reads as what it is given does. */
export function translateStream(read: Read, options: MessageWriterOptions): Read {
  const writer = new MessageWriter(options);
  const decoder = createChatDecoder();
  let state: "new" | "open" | "ended" = "new";
  return async () => {
    const events = state === "new" ? writer.begin() : [];
    if (state === "new") state = "open";
    while (events.length === 0 && state === "open") {
      const bytes = await read();
      if (bytes === null) state = "ended";
      events.push(...writer.push(bytes === null ? decoder.end() : decoder.push(bytes)));
    }
    return events.length === 0 ? null : encoder.encode(events.map(toFrame).join(""));
  };
}

/** A whole chat answer as a message. Throws `upstream_malformed` for what is none. */
export function translateWhole(bytes: Uint8Array, options: MessageWriterOptions): Uint8Array {
  const writer = new MessageWriter(options);
  writer.push(completionEvents(bytes));
  return encoder.encode(JSON.stringify(writer.message));
}
