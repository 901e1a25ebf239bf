import { isJsonObject, type JsonObject } from "../../core/json.ts";
import type {
  AssistantContent,
  ModelMessage,
  ModelToolResult,
  UserContent,
} from "../../core/model.ts";
import { member, messagesOf, refusal } from "../chat_fields.ts";
import { unpackReasoning } from "../openai_responses/reasoning_item.ts";
import { blocksOf, cannotSay, decodeBlock, decodeText, textIn } from "./decode_content.ts";

/** A block with its place in the request. */
interface Placed {
  block: JsonObject;
  param: string;
}

/** Messages of one role in a row are one turn. */
interface Turn {
  role: "user" | "assistant" | "system";
  blocks: Placed[];
}

/** Says the conversation as the hub's messages. Throws `invalid_request` naming the first thing that cannot be said. */
export function decodeMessages(body: JsonObject): ModelMessage[] {
  const system = decodeText(body["system"], "system");
  const names = new Map<string, string>();
  const messages: ModelMessage[] = turnsOf(body).flatMap(({ role, blocks }): ModelMessage[] => {
    if (role === "assistant") return decodeAssistant(blocks, names);
    return role === "user" ? decodeUser(blocks, names) : decodeSystem(blocks);
  });
  return system === "" ? messages : [{ role: "system", text: system }, ...messages];
}

function turnsOf(body: JsonObject): Turn[] {
  const turns: Turn[] = [];
  for (const [at, message] of messagesOf(body).entries()) {
    const { role, content } = message;
    const param = `messages[${at}]`;
    if (role !== "user" && role !== "assistant" && role !== "system") {
      throw refusal(`${param}.role`, `${param}.role must be user, assistant or system`);
    }
    const placed = blocksOf(content, `${param}.content`).map((block, index) => ({
      block,
      param: `${param}.content[${index}]`,
    }));
    const last = turns.at(-1);
    if (last?.role === role) last.blocks.push(...placed);
    else turns.push({ role, blocks: placed });
  }
  return turns;
}

function decodeSystem(blocks: readonly Placed[]): ModelMessage[] {
  const texts = blocks.map(({ block, param }) => {
    if (block["type"] !== "text") throw cannotSay(block, param);
    return textIn(block, "text", param);
  }).filter((text) => text !== "");
  return texts.length === 0 ? [] : [{ role: "system", text: texts.join("\n\n") }];
}

/** Results come first, wherever they stood: they belong to the calls before them. */
function decodeUser(blocks: readonly Placed[], names: ReadonlyMap<string, string>): ModelMessage[] {
  const content: UserContent[] = [];
  const results: ModelToolResult[] = [];
  for (const { block, param } of blocks) {
    if (block["type"] === "tool_result") results.push(decodeResult(block, { param, names }));
    else content.push(...decodeBlock(block, param));
  }
  return [
    ...(results.length === 0 ? [] : [{ role: "tool" as const, results }]),
    ...(content.length === 0 ? [] : [{ role: "user" as const, content }]),
  ];
}

function decodeResult(
  block: JsonObject,
  { param, names }: { param: string; names: ReadonlyMap<string, string> },
): ModelToolResult {
  const toolCallId = textIn(block, "tool_use_id", param);
  const toolName = names.get(toolCallId);
  if (toolName === undefined) {
    throw refusal(
      `${param}.tool_use_id`,
      `${param}.tool_use_id: there is no tool_use with the id ${
        toolCallId.slice(0, 80)
      } before this result`,
    );
  }
  const texts: string[] = [];
  const images: ModelToolResult["images"] = [];
  const place = `${param}.content`;
  for (const [index, inner] of blocksOf(block["content"], place).entries()) {
    for (const piece of decodeBlock(inner, `${place}[${index}]`)) {
      if (piece.type === "text") texts.push(piece.text);
      else if (piece.type === "image") images.push({ url: piece.url, mediaType: piece.mediaType });
      else throw cannotSay(inner, `${place}[${index}]`);
    }
  }
  const isError = block["is_error"] === true;
  return { toolCallId, toolName, text: texts.join("\n"), images, isError };
}

/** What the server itself did and wrote down is refused; which model stepped in for which is not said on. */
function decodeAssistant(blocks: readonly Placed[], names: Map<string, string>): ModelMessage[] {
  const content: AssistantContent[] = [];
  for (const { block, param } of blocks) {
    switch (block["type"]) {
      case "text":
      case "compaction":
        for (const piece of decodeBlock(block, param)) {
          if (piece.type === "text" && piece.text !== "") content.push(piece);
        }
        break;
      case "thinking":
        content.push(...reasoningIn(block, "signature", param));
        break;
      case "redacted_thinking":
        content.push(...reasoningIn(block, "data", param));
        break;
      case "tool_use": {
        const toolCallId = textIn(block, "id", param);
        const toolName = textIn(block, "name", param);
        const input = member(block, "input") ?? {};
        if (!isJsonObject(input)) {
          throw refusal(`${param}.input`, `${param}.input must be an object`);
        }
        names.set(toolCallId, toolName);
        content.push({
          type: "tool-call",
          toolCallId,
          toolName,
          inputText: JSON.stringify(input),
        });
        break;
      }
      case "fallback":
        break;
      default:
        throw cannotSay(block, param);
    }
  }
  return content.length === 0 ? [] : [{ role: "assistant", content }];
}

/** What the hub packed goes back to whoever thought it; thinking of others means nothing to this model. */
function reasoningIn(block: JsonObject, name: string, param: string) {
  const packed = member(block, name);
  return typeof packed === "string" ? unpackReasoning(packed, `${param}.${name}`) : [];
}
