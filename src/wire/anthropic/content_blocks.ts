import type { Json, JsonObject } from "../../core/json.ts";
import { mediaOf, partsOf, readDataUrl, refusal, textOfPart } from "../chat_fields.ts";

const IMAGE_TYPES: ReadonlySet<string> = new Set([
  "image/jpeg",
  "image/png",
  "image/gif",
  "image/webp",
]);

/** A message's content as blocks. Blank text is left out, since the API refuses it. */
export function contentBlocks(content: Json | undefined, param: string): JsonObject[] {
  return partsOf(content, param).flatMap((part, index): JsonObject[] => {
    const text = textOfPart(part);
    if (text !== null) return textBlocks(text, part);
    return [{ ...mediaBlock(part, `${param}[${index}]`), ...cacheControl(part) }];
  });
}

/** A text block, none for blank text; `marked` may carry a cache breakpoint. */
export function textBlocks(text: string, marked: JsonObject = {}): JsonObject[] {
  return text.trim() === "" ? [] : [{ type: "text", text, ...cacheControl(marked) }];
}

/** The `cache_control` member of what has one. */
export function cacheControl({ cache_control: control = null }: JsonObject): JsonObject {
  return control === null ? {} : { cache_control: control };
}

/** The blocks with the breakpoint of a whole message on the last one. */
export function withCacheControl(blocks: JsonObject[], message: JsonObject): JsonObject[] {
  const last = blocks.at(-1);
  const control = cacheControl(message);
  if (last === undefined || !("cache_control" in control)) return blocks;
  return [...blocks.slice(0, -1), { ...control, ...last }];
}

function mediaBlock(part: JsonObject, param: string): JsonObject {
  if (part["type"] === "image_url") return imageBlock(part, param);
  if (part["type"] === "file") return documentBlock(part, param);
  throw refusal(
    `${param}.type`,
    `Anthropic's API has no equivalent of a part of type ${part["type"]}`,
  );
}

function imageBlock(part: JsonObject, param: string): JsonObject {
  const { url } = mediaOf(part, param);
  const inline = readDataUrl(url);
  if (inline === null) return { type: "image", source: urlSource(url, param) };
  const mediaType = inline.mediaType === "image/jpg" ? "image/jpeg" : inline.mediaType;
  if (!IMAGE_TYPES.has(mediaType)) {
    throw refusal(param, `${param} must be a JPEG, PNG, GIF or WebP image for this model`);
  }
  return { type: "image", source: { type: "base64", media_type: mediaType, data: inline.data } };
}

function documentBlock(part: JsonObject, param: string): JsonObject {
  const { url } = mediaOf(part, param);
  const { filename: title = null } = part["file"] as JsonObject;
  const inline = readDataUrl(url);
  const source = inline === null ? urlSource(url, param) : inlineSource(inline, param);
  // An image may well come as a file.
  if (source["media_type"] !== "application/pdf" && source["type"] === "base64") {
    return { type: "image", source };
  }
  return { type: "document", source, ...(typeof title === "string" && title !== "" && { title }) };
}

function inlineSource(
  { mediaType, data }: { mediaType: string; data: string },
  param: string,
): JsonObject {
  if (mediaType === "application/pdf" || IMAGE_TYPES.has(mediaType)) {
    return { type: "base64", media_type: mediaType, data };
  }
  if (/^text\/|^application\/(json|xml|yaml|javascript)$/.test(mediaType)) {
    return { type: "text", media_type: "text/plain", data: decodeText(data, param) };
  }
  throw refusal(param, `${param} must be a PDF, a text or an image for this model`);
}

function decodeText(base64: string, param: string): string {
  try {
    const bytes = Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw refusal(param, `${param} must be UTF-8 text in base64`);
  }
}

function urlSource(url: string, param: string): JsonObject {
  if (/^https?:/i.test(url)) return { type: "url", url };
  throw refusal(param, `${param} must be a base64 data: URL or an http URL`);
}
