import { isJsonObject, type JsonObject } from "../../core/json.ts";
import type { UserContent } from "../../core/model.ts";
import { member, partsOf, refusal } from "../chat_fields.ts";

/** The pieces that a block of a user's message, or of a tool's result, comes to. Throws `invalid_request` for what no chat can carry. */
export function decodeBlock(block: JsonObject, param: string): UserContent[] {
  const { type } = block;
  switch (type) {
    case "text":
      return [{ type, text: textIn(block, "text", param) }];
    case "image":
      return [{ type, ...addressOf(block, param) }];
    case "document":
      return decodeDocument(block, param);
    case "search_result":
      return [{ type: "text", text: searchResult(block, param) }];
    case "tool_reference":
      return [{ type: "text", text: `${textIn(block, "tool_name", param)} can be called now.` }];
    case "compaction":
      return [{ type: "text", text: textIn(block, "content", param) }];
    default:
      throw cannotSay(block, param);
  }
}

/** The refusal of a block that only Anthropic's own models and tools understand. */
export function cannotSay({ type }: JsonObject, param: string) {
  const what = typeof type === "string" ? type.slice(0, 60) : "a block without a type";
  return refusal(
    `${param}.type`,
    `${param}.type: ${what} cannot be said to the provider of this model`,
  );
}

/** A member that must be text. */
export function textIn(object: JsonObject, name: string, param: string): string {
  const value = object[name];
  if (typeof value === "string") return value;
  throw refusal(`${param}.${name}`, `${param}.${name} must be text`);
}

/** The blocks of a content: text, or a list of blocks. */
export function blocksOf(content: JsonObject[string] | undefined, param: string): JsonObject[] {
  return partsOf(content, param);
}

/** The text of a content that can be nothing else. */
export function decodeText(content: JsonObject[string] | undefined, param: string): string {
  return blocksOf(content, param).map((block, index) => {
    const place = `${param}[${index}]`;
    if (block["type"] !== "text") throw cannotSay(block, place);
    return textIn(block, "text", place);
  }).filter((text) => text !== "").join("\n\n");
}

function sourceOf(block: JsonObject, param: string): JsonObject {
  const source = member(block, "source");
  if (isJsonObject(source)) return source;
  throw refusal(`${param}.source`, `${param}.source must be an object`);
}

function addressOf(block: JsonObject, param: string): { url: string; mediaType: string } {
  const source = sourceOf(block, param);
  const place = `${param}.source`;
  if (source["type"] === "base64") {
    const mediaType = textIn(source, "media_type", place);
    return { url: `data:${mediaType};base64,${textIn(source, "data", place)}`, mediaType };
  }
  if (source["type"] === "url") {
    const mediaType = block["type"] === "image" ? "image/*" : "application/pdf";
    return { url: textIn(source, "url", place), mediaType };
  }
  if (source["type"] === "file") {
    throw refusal(
      place,
      `${place}: a file stored at Anthropic is not to be had by the provider of this model; send its data`,
    );
  }
  throw refusal(place, `${place}.type must be base64 or url`);
}

function decodeDocument(block: JsonObject, param: string): UserContent[] {
  const source = sourceOf(block, param);
  const { citations } = block;
  if (isJsonObject(citations) && citations["enabled"] === true) {
    throw refusal(
      `${param}.citations`,
      `${param}.citations: the provider of this model cites no documents; leave it out`,
    );
  }
  const [title, context] = [member(block, "title"), member(block, "context")];
  const about = [title, context].filter((text) => typeof text === "string" && text !== "");
  const before: UserContent[] = about.map((text) => ({ type: "text", text: String(text) }));
  if (source["type"] === "text") {
    return [...before, { type: "text", text: textIn(source, "data", `${param}.source`) }];
  }
  if (source["type"] === "content") {
    const place = `${param}.source.content`;
    const blocks = blocksOf(source["content"], place);
    return [
      ...before,
      ...blocks.flatMap((inner, index) => decodeBlock(inner, `${place}[${index}]`)),
    ];
  }
  const filename = typeof title === "string" && title !== "" ? { filename: title } : {};
  const words = typeof context === "string" && context !== "" ? before.slice(-1) : [];
  return [...words, { type: "file", ...addressOf(block, param), ...filename }];
}

function searchResult(block: JsonObject, param: string): string {
  const { citations } = block;
  if (isJsonObject(citations) && citations["enabled"] === true) {
    throw refusal(
      `${param}.citations`,
      `${param}.citations: the provider of this model cites nothing; leave it out`,
    );
  }
  const head = ["title", "source"].map((name) => textIn(block, name, param));
  return [...head, decodeText(block["content"], `${param}.content`)].join("\n");
}
