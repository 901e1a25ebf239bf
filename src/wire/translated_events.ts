import type { JsonObject } from "../core/json.ts";
import type { ModelEvent } from "../core/model.ts";
import { createChatDecoder } from "./openai_chat/decode_stream.ts";

/** Gives bytes of an answer until there are no more. */
export type Read = () => Promise<Uint8Array | null>;

/** Writes what a model said as events of another dialect. */
export interface EventWriter {
  begin(): JsonObject[];
  push(events: readonly ModelEvent[]): JsonObject[];
}

/** An event of a stream as a frame. */
export function toFrame(event: JsonObject): string {
  return `event: ${event["type"]}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** Reads a streamed chat answer as a writer's events: the next ones, never none; null when the answer is whole. */
export function translateEvents(
  read: Read,
  writer: EventWriter,
): () => Promise<JsonObject[] | null> {
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
    return events.length === 0 ? null : events;
  };
}
