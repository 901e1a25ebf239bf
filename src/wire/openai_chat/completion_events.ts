import { HubError } from "../../core/error.ts";
import { MAX_SSE_EVENT_BYTES } from "../../core/limits.ts";
import { joinBytes } from "../../core/join_bytes.ts";
import { isJsonObject, type JsonObject } from "../../core/json.ts";
import { encodeJsonInSteps } from "../../core/large_json/encode_json.ts";
import type { ModelEvent } from "../../core/model.ts";
import { parseAnswer, TRANSLATED_BOUNDS } from "../read_members.ts";
import { createChatDecoder } from "./decode_stream.ts";

const encoder = new TextEncoder();
const DATA = encoder.encode("data: ");
const BLANK = encoder.encode("\n\n");

/** A whole completion as the events that its stream would have had. Rejects `upstream_malformed` for what is none. */
export async function completionEvents(bytes: Uint8Array): Promise<ModelEvent[]> {
  const completion = await parseAnswer(bytes, TRANSLATED_BOUNDS);
  const { choices } = completion;
  const choice = Array.isArray(choices) ? choices[0] : null;
  if (!isJsonObject(choice) || !isJsonObject(choice["message"])) {
    throw new HubError("upstream_malformed", "The provider's answer has no message in it");
  }
  const { message, ...rest } = choice;
  const chunk = { choices: [{ ...rest, index: 0, delta: numbered(message) }] };
  const decoder = createChatDecoder();
  const events: ModelEvent[] = [];
  for (const value of [chunk, { choices: [], usage: completion["usage"] ?? null }]) {
    const json = await encodeJsonInSteps(value);
    if (json.length > MAX_SSE_EVENT_BYTES) {
      throw new HubError(
        "upstream_malformed",
        `The provider's answer has a message of more than ${MAX_SSE_EVENT_BYTES} bytes`,
      );
    }
    events.push(...decoder.push(joinBytes([DATA, json, BLANK])));
  }
  return [...events, ...decoder.end()];
}

/** The message as the one delta of a stream. */
function numbered(message: JsonObject): JsonObject {
  const calls = message["tool_calls"];
  if (!Array.isArray(calls)) return message;
  return {
    ...message,
    tool_calls: calls.map((call, index) => isJsonObject(call) ? { ...call, index } : call),
  };
}
