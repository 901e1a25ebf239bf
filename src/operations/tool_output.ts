import { isJsonObject, type Json } from "../core/json.ts";
import type { ToolContent, ToolOutput, ToolResult } from "../core/tool.ts";

/** A tool's result as a model reads it: one text, and the images beside it as `data:` URLs. */
export interface ModelView {
  text: string;
  images: { url: string; mediaType: string }[];
}

/**
 * The stored form of a result: a single text is a string, a single JSON piece is its value, several pieces are
 * `{ type: "content", content: ToolContent[] }`. A JSON value that looks like the latter is wrapped in it.
 */
export function toToolOutput(result: ToolResult): ToolOutput {
  const [first, second] = result.content;
  if (first === undefined) return "";
  if (second === undefined && first.type === "text") return first.text;
  if (second === undefined && first.type === "json" && !isWrapped(first.value)) return first.value;
  return { type: "content", content: result.content.map((piece) => ({ ...piece })) };
}

/** The pieces of a stored output; the inverse of `toToolOutput`. Pieces that are none are shown as JSON. */
export function toToolContent(output: ToolOutput): ToolContent[] {
  if (typeof output === "string") return output === "" ? [] : [{ type: "text", text: output }];
  if (!isWrapped(output)) return [{ type: "json", value: output }];
  return output.content.map((piece) =>
    isToolContent(piece) ? piece : { type: "json", value: piece }
  );
}

/** What a model reads for a stored output. Images are numbered in the text, since some dialects send them apart. */
export function toModelView(output: ToolOutput): ModelView {
  const images: ModelView["images"] = [];
  const texts = toToolContent(output).map((piece) => {
    if (piece.type === "image") {
      images.push({
        url: `data:${piece.mediaType};base64,${piece.data}`,
        mediaType: piece.mediaType,
      });
      return `(see image ${images.length})`;
    }
    return textOf(piece);
  });
  return { text: texts.join("\n"), images };
}

/** The text of a piece that is no image. */
export function textOf(piece: ToolContent): string {
  switch (piece.type) {
    case "text":
      return piece.text;
    case "json":
      return JSON.stringify(piece.value);
    case "resource":
      return piece.title === undefined ? piece.uri : `${piece.title}: ${piece.uri}`;
    case "image":
      return "";
    case "file":
      return describeFile(piece);
  }
}

/** What is said of a file that is not shown and not kept. */
export function describeFile({ title, mediaType, data }: ToolContent & { type: "file" }): string {
  return `(${title} of type ${mediaType}, ${bytesOf(data)} bytes, not shown)`;
}

/** How many bytes a text of base64 stands for. */
export function bytesOf(base64: string): number {
  return Math.floor(base64.replace(/=+$/, "").length * 3 / 4);
}

/** True for a value with the shape of one content piece. */
export function isToolContent(value: unknown): value is ToolContent {
  if (!isJsonObject(value)) return false;
  switch (value.type) {
    case "text":
      return typeof value.text === "string";
    case "json":
      return value.value !== undefined;
    case "image":
      return typeof value.mediaType === "string" && typeof value.data === "string";
    case "resource":
      return typeof value.uri === "string";
    case "file":
      return [value.title, value.mediaType, value.data].every((text) => typeof text === "string");
    default:
      return false;
  }
}

function isWrapped(value: Json): value is { type: "content"; content: Json[] } {
  return isJsonObject(value) && value.type === "content" && Array.isArray(value.content);
}
