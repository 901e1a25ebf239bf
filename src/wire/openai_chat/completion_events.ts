import { HubError } from "../../core/error.ts";
import { isJsonObject, type JsonObject } from "../../core/json.ts";
import type { ModelEvent } from "../../core/model.ts";
import { createChatDecoder } from "./decode_stream.ts";

const encoder = new TextEncoder();

/** A whole completion as the events that its stream would have had. Throws `upstream_malformed` for what is none. */
export function completionEvents(bytes: Uint8Array): ModelEvent[] {
  const completion: unknown = JSON.parse(new TextDecoder().decode(bytes));
  const choices = isJsonObject(completion) ? completion["choices"] : null;
  const choice = Array.isArray(choices) ? choices[0] : null;
  if (!isJsonObject(completion) || !isJsonObject(choice) || !isJsonObject(choice["message"])) {
    throw new HubError("upstream_malformed", "The provider's answer has no message in it");
  }
  const { message, ...rest } = choice;
  const chunk = { choices: [{ ...rest, index: 0, delta: numbered(message) }] };
  const decoder = createChatDecoder();
  const frame = (value: JsonObject) => encoder.encode(`data: ${JSON.stringify(value)}\n\n`);
  return [
    ...decoder.push(frame(chunk)),
    ...decoder.push(frame({ choices: [], usage: completion["usage"] ?? null })),
    ...decoder.end(),
  ];
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
