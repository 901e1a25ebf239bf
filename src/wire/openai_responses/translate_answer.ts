import type { JsonObject } from "../../core/json.ts";
import { completionEvents } from "../openai_chat/completion_events.ts";
import { type Read, translateEvents } from "../translated_events.ts";
import { ResponseWriter, type ResponseWriterOptions, withoutEncrypted } from "./response_writer.ts";

/** A chat answer on its way to a client of the Responses API. */
export interface TranslatedAnswer {
  /** The next events, never none; null when the answer is whole. Throws as what it reads does. */
  read(): Promise<JsonObject[] | null>;
  /** The response as it is now, reasoning packed in it. */
  readonly response: JsonObject;
}

/** A streamed chat answer as events. */
export function translateStream(read: Read, options: ResponseWriterOptions): TranslatedAnswer {
  const writer = new ResponseWriter(options);
  return {
    get response() {
      return writer.response;
    },
    read: translateEvents(read, writer),
  };
}

/** A whole chat answer as a response. Rejects `upstream_malformed` for what is none. */
export async function translateWhole(
  bytes: Uint8Array,
  options: ResponseWriterOptions,
): Promise<{ response: JsonObject; shown: JsonObject }> {
  const writer = new ResponseWriter(options);
  writer.push(await completionEvents(bytes));
  const { response } = writer;
  return { response, shown: options.showEncrypted ? response : withoutEncrypted(response) };
}
