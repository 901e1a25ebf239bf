import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { ToolContent, ToolResult } from "../core/tool.ts";

/** Images that models take. */
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/**
 * What a tool of a server gave as the loop knows it. Content when there is something usable in it, else the structure;
 * never both. Base64 never becomes text: what is no image for models is a file.
 */
export function toToolResult(answer: Json): ToolResult {
  if (!isJsonObject(answer)) return { content: [toPiece(answer)] };
  const { content, structuredContent, isError, toolResult } = answer;
  const blocks = Array.isArray(content) ? content : content === undefined ? [] : [content];
  const pieces = blocks.map(toContent).filter((piece) => piece !== null);
  const failed = isError === true ? { isError: true } : {};
  const isUsable = pieces.some((piece) => piece.type !== "text" || piece.text.trim() !== "");
  if (isUsable) return { content: pieces, ...failed };
  const structure = structuredContent ?? toolResult;
  if (structure === undefined) return { content: pieces, ...failed };
  return { content: [toPiece(structure)], ...failed };
}

function toPiece(value: Json): ToolContent {
  return typeof value === "string" ? { type: "text", text: value } : { type: "json", value };
}

function toContent(block: Json): ToolContent | null {
  if (typeof block === "string") return { type: "text", text: block };
  if (!isJsonObject(block)) return null;
  switch (block.type) {
    case "text":
      return { type: "text", text: typeof block.text === "string" ? block.text : "" };
    case "image":
    case "audio":
      return toMedia(block.data, block.mimeType, String(block.type));
    case "resource":
      return isJsonObject(block.resource) ? toResource(block.resource) : null;
    case "resource_link":
      return toLink(block);
    default:
      return { type: "text", text: `(a block of the unknown kind ${shown(block.type)})` };
  }
}

/** An image, or a file. `kind` says what it is in words. */
export function toMedia(
  data: Json | undefined,
  mimeType: Json | undefined,
  kind: string,
): ToolContent {
  const mediaType = typeof mimeType === "string" ? mimeType.toLowerCase() : "";
  if (typeof data !== "string" || data === "") return { type: "text", text: `(an empty ${kind})` };
  if (IMAGES.has(mediaType)) return { type: "image", mediaType, data };
  return { type: "file", mediaType: shown(mediaType || "unknown"), data, title: kind };
}

/** A resource that is embedded, or the contents of one that was read. */
export function toResource(resource: JsonObject): ToolContent {
  const { text, blob, mimeType, uri } = resource;
  if (typeof text === "string") return { type: "text", text };
  if (typeof blob === "string") {
    return toMedia(blob, mimeType, `resource ${shown(uri)}`);
  }
  return toLink(resource) ?? { type: "text", text: "(a resource without content)" };
}

function toLink({ uri, mimeType, title, name }: JsonObject): ToolContent | null {
  if (typeof uri !== "string") return null;
  const shownTitle = [title, name].find((text) => typeof text === "string");
  return {
    type: "resource",
    uri,
    ...(typeof mimeType === "string" ? { mediaType: mimeType } : {}),
    ...(typeof shownTitle === "string" ? { title: shownTitle } : {}),
  };
}

function shown(value: Json | undefined): string {
  return typeof value === "string" ? value.slice(0, 200) : "without a name";
}
