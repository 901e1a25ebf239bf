import { HubError } from "../core/error.ts";
import { isJsonObject, type JsonObject } from "../core/json.ts";
import { JsonShape } from "../core/large_json/json_shape.ts";
import { MAX_CALL_INPUT_LENGTH, MAX_JSON_DEPTH } from "../core/limits.ts";
import { WorkStretch } from "../core/next_turn.ts";
import { refusal } from "./chat_fields.ts";

/** Bounds of the arguments of all calls in one request, which are JSON inside of JSON and read at once. */
const BOUNDS = { maxDepth: MAX_JSON_DEPTH, maxKeys: 50_000, maxValues: 100_000 } as const;
const MAX_ALL_LENGTH = 4 * MAX_CALL_INPUT_LENGTH;
const STRETCH_CHARACTERS = 256 * 1024;
const encoder = new TextEncoder();

/**
 * Checks the arguments of the calls in a chat's history before a dialect reads them: what a request's own bounds say
 * does not hold for JSON inside of its strings. Rejects `invalid_request` with the `param`.
 */
export async function checkCalls({ messages }: JsonObject): Promise<void> {
  if (!Array.isArray(messages)) return;
  const stretch = new WorkStretch(STRETCH_CHARACTERS);
  const shape = new JsonShape(BOUNDS, "arguments of the calls");
  let length = 0;
  for (const [at, message] of messages.entries()) {
    const calls = isJsonObject(message) ? message["tool_calls"] : null;
    if (!Array.isArray(calls)) continue;
    for (const [index, call] of calls.entries()) {
      const fn = isJsonObject(call) ? call["function"] : null;
      const text = isJsonObject(fn) ? fn["arguments"] : null;
      if (typeof text !== "string") continue;
      const param = `messages[${at}].tool_calls[${index}].function.arguments`;
      length += text.length;
      if (text.length > MAX_CALL_INPUT_LENGTH || length > MAX_ALL_LENGTH) {
        throw refusal(
          param,
          `${param}: arguments may have ${MAX_CALL_INPUT_LENGTH} characters, those of all calls ${MAX_ALL_LENGTH}`,
        );
      }
      measure(text, { shape, param });
      await stretch.spend(text.length);
    }
  }
}

function measure(text: string, { shape, param }: { shape: JsonShape; param: string }): void {
  try {
    shape.push(encoder.encode(text));
    shape.endDocument();
  } catch (error) {
    if (!(error instanceof HubError)) throw error;
    throw refusal(param, `${param}: ${error.message}`);
  }
}
