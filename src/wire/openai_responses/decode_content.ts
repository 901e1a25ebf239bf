import type { Json, JsonObject } from "../../core/json.ts";
import type { UserContent } from "../../core/model.ts";
import { member, partsOf, readDataUrl, refusal } from "../chat_fields.ts";

/** Parts that are text, and the member that has it. */
const TEXTS: Readonly<Record<string, string>> = {
  input_text: "text",
  output_text: "text",
  text: "text",
  summary_text: "text",
  reasoning_text: "text",
  refusal: "refusal",
};

/** The pieces of a content: text, or a list of parts. Throws `invalid_request` for what no chat can carry. */
export function decodeContent(content: Json | undefined, param: string): UserContent[] {
  return partsOf(content, param).map((part, index) => decodePart(part, `${param}[${index}]`));
}

/** The text of a content that can be nothing else. */
export function decodeText(content: Json | undefined, param: string): string {
  return decodeContent(content, param).map((piece, index) => {
    if (piece.type === "text") return piece.text;
    throw refusal(`${param}[${index}]`, `${param}[${index}] must be text in this place`);
  }).filter((text) => text !== "").join("\n");
}

function decodePart(part: JsonObject, param: string): UserContent {
  const type = String(part["type"]);
  const textMember = Object.hasOwn(TEXTS, type) ? TEXTS[type] : undefined;
  if (textMember !== undefined) {
    const text = part[textMember];
    if (typeof text === "string") return { type: "text", text };
    throw refusal(`${param}.${textMember}`, `${param}.${textMember} must be text`);
  }
  if (type === "input_image") {
    const url = addressOf(part, { param, names: ["image_url"] });
    return { type: "image", url, mediaType: readDataUrl(url)?.mediaType ?? "image/*" };
  }
  if (type === "input_file") {
    const url = addressOf(part, { param, names: ["file_data", "file_url"] });
    const filename = member(part, "filename");
    return {
      type: "file",
      url,
      mediaType: readDataUrl(url)?.mediaType ?? "application/octet-stream",
      ...(typeof filename === "string" ? { filename } : {}),
    };
  }
  throw refusal(
    `${param}.type`,
    `${param}.type: ${type.slice(0, 60)} cannot be said to the provider of this model`,
  );
}

function addressOf(
  part: JsonObject,
  { param, names }: { param: string; names: readonly string[] },
): string {
  for (const name of names) {
    const value = part[name];
    if (typeof value === "string" && value !== "") return value;
  }
  if (typeof part["file_id"] === "string") {
    throw refusal(
      `${param}.file_id`,
      `${param}.file_id: a file stored at OpenAI is not to be had by the provider of this model; send its data`,
    );
  }
  throw refusal(param, `${param} must have ${names.join(" or ")}`);
}
