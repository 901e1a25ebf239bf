import { encodeJsonInSteps } from "../../core/large_json/encode_json.ts";
import { completionEvents } from "../openai_chat/completion_events.ts";
import { type Read, toFrame, translateEvents } from "../translated_events.ts";
import { MessageWriter, type MessageWriterOptions } from "./message_writer.ts";

const encoder = new TextEncoder();

/** A streamed chat answer as frames of a Messages stream; reads as what it is given does. */
export function translateStream(read: Read, options: MessageWriterOptions): Read {
  const next = translateEvents(read, new MessageWriter(options));
  return async () => {
    const events = await next();
    return events === null ? null : encoder.encode(events.map(toFrame).join(""));
  };
}

/** A whole chat answer as a message. Rejects `upstream_malformed` for what is none. */
export async function translateWhole(
  bytes: Uint8Array,
  options: MessageWriterOptions,
): Promise<Uint8Array> {
  const writer = new MessageWriter(options);
  writer.push(await completionEvents(bytes));
  return await encodeJsonInSteps(writer.message);
}
