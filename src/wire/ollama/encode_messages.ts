import type { Json, JsonObject } from "../../core/json.ts";
import {
  callsOf,
  mediaOf,
  partsOf,
  readDataUrl,
  refusal,
  textOfPart,
  textOnly,
} from "../chat_fields.ts";
import { isFailure, markedFailure } from "../tool_failure.ts";

/** Messages as `/api/chat` takes them: text apart from images, which are base64; calls with their arguments as objects. */
export function encodeMessages(messages: readonly JsonObject[]): JsonObject[] {
  const names = new Map<string, string>();
  return messages.map((message, index): JsonObject => {
    const at = `messages[${index}]`;
    switch (message["role"]) {
      case "system":
      case "developer":
        return { role: "system", content: textOnly(message["content"], `${at}.content`) };
      case "user":
        return { role: "user", ...contentOf(message["content"], `${at}.content`) };
      case "assistant": {
        const calls = callsOf(message, `${at}.tool_calls`);
        for (const { id, name } of calls) names.set(id, name);
        const thinking = message["reasoning_content"] ?? message["reasoning"];
        const refused = message["refusal"];
        const { content, images } = contentOf(message["content"], `${at}.content`);
        return {
          role: "assistant",
          content: typeof refused === "string" && content === "" ? refused : content,
          ...(images === undefined ? {} : { images }),
          ...(typeof thinking === "string" && thinking !== "" ? { thinking } : {}),
          ...(calls.length === 0 ? {} : {
            tool_calls: calls.map((call) => ({
              ...(call.id === "" ? {} : { id: call.id }),
              function: { name: call.name, arguments: call.arguments },
            })),
          }),
        };
      }
      case "tool": {
        const id = String(message["tool_call_id"] ?? "");
        const name = names.get(id) ?? message["name"];
        if (typeof name !== "string") {
          throw refusal(`${at}.tool_call_id`, `${at} answers a call that was not made: ${id}`);
        }
        const { content, ...images } = contentOf(message["content"], `${at}.content`);
        return {
          role: "tool",
          content: isFailure(message) ? markedFailure(content) : content,
          ...images,
          tool_name: name,
          tool_call_id: id,
        };
      }
      default:
        throw refusal(`${at}.role`, `${at}.role is none that Ollama knows`);
    }
  });
}

function contentOf(
  content: Json | undefined,
  param: string,
): { content: string; images?: string[] } {
  const texts: string[] = [];
  const images: string[] = [];
  partsOf(content, param).forEach((part, index) => {
    const text = textOfPart(part);
    if (text === null) images.push(imageOf(part, `${param}[${index}]`));
    else if (text !== "") texts.push(text);
  });
  return { content: texts.join("\n"), ...(images.length === 0 ? {} : { images }) };
}

/** The bytes of an image, or of audio for models that hear, as base64. */
function imageOf(part: JsonObject, param: string): string {
  if (part["type"] !== "image_url" && part["type"] !== "input_audio") {
    throw refusal(`${param}.type`, `Ollama has no equivalent of a part of type ${part["type"]}`);
  }
  const inline = readDataUrl(mediaOf(part, param).url);
  if (inline !== null) return inline.data;
  throw refusal(param, `${param} must be a base64 data: URL, as Ollama fetches no addresses`);
}
