import { isJsonObject, type JsonObject } from "../../core/json.ts";
import { createSseParser } from "../../core/sse.ts";
import type { Read } from "../translated_events.ts";
import type { TranslatedAnswer } from "./translate_answer.ts";
import { parseFrame } from "../parse_frame.ts";

/** What of a response object is the provider's to say; all else is as the client asked for it. */
const OF_THE_PROVIDER = [
  "status",
  "completed_at",
  "error",
  "incomplete_details",
  "output",
  "usage",
] as const;

/** A provider's own stream as events of the response that the hub has promised. */
export function createEventReader(read: Read, promised: JsonObject): TranslatedAnswer {
  let response = promised;
  let events: JsonObject[] = [];
  const parser = createSseParser({
    onEvent({ data }) {
      let event: unknown;
      try {
        event = parseFrame(data);
      } catch {
        return;
      }
      if (!isJsonObject(event) || typeof event["type"] !== "string") return;
      const told = event["response"];
      if (!isJsonObject(told)) return void events.push(event);
      response = { ...response };
      for (const name of OF_THE_PROVIDER) response[name] = told[name] ?? response[name] ?? null;
      events.push({ ...event, response });
    },
  });
  return {
    get response() {
      return response;
    },
    async read() {
      events = [];
      while (events.length === 0) {
        const bytes = await read();
        if (bytes === null) return null;
        parser.push(bytes);
      }
      return events;
    },
  };
}
