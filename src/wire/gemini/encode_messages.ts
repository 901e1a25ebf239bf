import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import {
  callsOf,
  type ChatCall,
  mediaOf,
  partsOf,
  readDataUrl,
  refusal,
  textOfPart,
  textOnly,
} from "../chat_fields.ts";
import { failureText, isFailure } from "../tool_failure.ts";
import type { ModelTraits } from "./model_traits.ts";
import { readSignatures } from "./signatures.ts";

/** What Google documents for a call whose signature nobody has: other models' history, or a client that dropped it. */
const UNSIGNED = "skip_thought_signature_validator";

const MEDIA: ReadonlySet<unknown> = new Set(["image_url", "video_url", "input_audio", "file"]);

/** Types of files behind a web address, which Gemini wants to be told. */
const TYPES: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  webp: "image/webp",
  heic: "image/heic",
  gif: "image/gif",
  pdf: "application/pdf",
  mp4: "video/mp4",
  mp3: "audio/mpeg",
  wav: "audio/wav",
};

/** The system instruction and the turns of a chat. */
export interface GeminiContents {
  system: JsonObject[];
  contents: JsonObject[];
}

/**
 * Messages as contents. System messages at the beginning are the instruction; Gemini has none in between, so later
 * ones are the user's words at their place. Turns of one role are one content, results are one content in the order
 * of their calls.
 */
export function encodeMessages(
  messages: readonly JsonObject[],
  traits: ModelTraits,
): GeminiContents {
  const system: JsonObject[] = [];
  const contents: { role: string; parts: JsonObject[] }[] = [];
  /** The calls that were asked for last, and the results that came for them so far. */
  let calls: ChatCall[] = [];
  let results: { order: number; parts: JsonObject[] }[] | null = null;
  const known = new Map<string, string>();

  const endResults = () => {
    if (results === null) return;
    const parts = results.toSorted((a, b) => a.order - b.order).flatMap((result) => result.parts);
    contents.push({ role: "user", parts });
    results = null;
  };
  const push = (role: string, parts: JsonObject[]) => {
    endResults();
    if (parts.length === 0) return;
    const last = contents.at(-1);
    const [first] = last?.parts ?? [];
    // Results stand in a content of their own.
    const joins = last?.role === role && first !== undefined && !("functionResponse" in first);
    if (joins) { for (const part of parts) last.parts.push(part); }
    else contents.push({ role, parts });
  };

  messages.forEach((message, index) => {
    const at = `messages[${index}]`;
    switch (message["role"]) {
      case "system":
      case "developer": {
        const text = textOnly(message["content"], `${at}.content`);
        if (text === "") break;
        if (contents.length === 0 && results === null) system.push({ text });
        else push("user", [{ text }]);
        break;
      }
      case "user":
        push("user", contentParts(message["content"], `${at}.content`));
        break;
      case "assistant":
        calls = callsOf(message, `${at}.tool_calls`);
        for (const { id, name } of calls) known.set(id, name);
        push("model", assistantParts(message, { at, calls, traits }));
        break;
      case "tool": {
        const id = String(message["tool_call_id"] ?? "");
        const name = known.get(id) ?? message["name"];
        if (typeof name !== "string") {
          throw refusal(`${at}.tool_call_id`, `${at} answers a call that was not made: ${id}`);
        }
        const order = calls.findIndex((call) => call.id === id);
        const parts = resultParts(message, { at, id, name, traits });
        results ??= [];
        results.push({ order: order < 0 ? calls.length : order, parts });
        break;
      }
      default:
        throw refusal(`${at}.role`, `${at}.role is none that Gemini knows`);
    }
  });
  endResults();
  // An instruction alone is no conversation; it is the question then.
  if (contents.length === 0 && system.length > 0) {
    return { system: [], contents: [{ role: "user", parts: system }] };
  }
  if (contents.length === 0) throw refusal("messages", "messages hold nothing to answer");
  return { system, contents: contents.map((content) => ({ ...content })) };
}

function contentParts(content: Json | undefined, param: string): JsonObject[] {
  return partsOf(content, param).flatMap((part, index): JsonObject[] => {
    const text = textOfPart(part);
    if (text !== null) return text === "" ? [] : [{ text }];
    return [mediaPart(part, `${param}[${index}]`)];
  });
}

function mediaPart(part: JsonObject, param: string): JsonObject {
  if (!MEDIA.has(part["type"])) {
    throw refusal(`${param}.type`, `Gemini has no equivalent of a part of type ${part["type"]}`);
  }
  const { url, mediaType } = mediaOf(part, param);
  const inline = readDataUrl(url);
  if (inline !== null) {
    return {
      inlineData: { mimeType: inline.mediaType || "application/octet-stream", data: inline.data },
    };
  }
  if (!/^(https?|gs):/i.test(url)) throw refusal(param, `${param} must be a data: or https URL`);
  const ending = /\.([a-z0-9]+)(?:[?#].*)?$/i.exec(url)?.[1]?.toLowerCase() ?? "";
  const mimeType = mediaType ?? TYPES[ending];
  return { fileData: { ...(mimeType === undefined ? {} : { mimeType }), fileUri: url } };
}

function assistantParts(
  message: JsonObject,
  { at, calls, traits }: { at: string; calls: readonly ChatCall[]; traits: ModelTraits },
): JsonObject[] {
  const signatures = readSignatures(message, calls);
  const parts: JsonObject[] = signatures.thoughts.map(({ text, signature }) => ({
    text,
    thought: true,
    thoughtSignature: signature,
  }));
  const said = contentParts(message["content"], `${at}.content`);
  if (typeof message["refusal"] === "string" && message["refusal"] !== "") {
    said.push({ text: message["refusal"] });
  }
  if (Array.isArray(message["images"])) {
    message["images"].forEach((image, index) => {
      if (isJsonObject(image)) said.push(mediaPart(image, `${at}.images[${index}]`));
    });
  }
  const last = said.at(-1);
  if (signatures.text !== null && last !== undefined) last["thoughtSignature"] = signatures.text;
  parts.push(...said);
  calls.forEach((call, index) => {
    const own = signatures.calls[index] ?? null;
    // One signature stands for all parallel calls, on the first of them.
    const isUnsigned = traits.signedCalls && index === 0 && own === null;
    const signature = isUnsigned ? UNSIGNED : own;
    parts.push({
      functionCall: {
        ...(call.id === "" ? {} : { id: call.id }),
        name: call.name,
        args: call.arguments,
      },
      ...(signature === null ? {} : { thoughtSignature: signature }),
    });
  });
  return parts;
}

/** The result of a call. Its text is one member, as Gemini reads `$ref` inside a result as a name of its own. */
function resultParts(
  message: JsonObject,
  { at, id, name, traits }: { at: string; id: string; name: string; traits: ModelTraits },
): JsonObject[] {
  const texts: string[] = [];
  const media: JsonObject[] = [];
  for (const part of contentParts(message["content"], `${at}.content`)) {
    if (typeof part["text"] === "string") texts.push(part["text"]);
    else media.push(part);
  }
  const inside = traits.signedCalls && media.length > 0;
  const text = texts.join("\n");
  const functionResponse: JsonObject = {
    ...(id === "" ? {} : { id }),
    name,
    response: isFailure(message) ? { error: failureText(text) } : { output: text },
    ...(inside ? { parts: media } : {}),
  };
  return [{ functionResponse }, ...(inside ? [] : media)];
}
