import { isJsonObject, type JsonObject } from "../../core/json.ts";
import { referencedItem } from "./decode_input.ts";

const PREFIXES: ReadonlyMap<unknown, string> = new Map([
  ["message", "msg"],
  ["reasoning", "rs"],
  ["function_call", "fc"],
  ["function_call_output", "fco"],
  ["custom_tool_call", "ctc"],
  ["custom_tool_call_output", "ctco"],
]);
/** Numbers of a response's input items begin here; those of its output are below. */
const INPUT_FROM = 0x8000;
const OWN_ITEM = /^[a-z]+_([0-9a-f]{32})[0-9a-f]{4,5}$/;

/** The id of a response's item that has none. */
function itemId(responseId: string, type: unknown, number: number): string {
  const prefix = PREFIXES.get(type) ?? "item";
  return `${prefix}_${responseId.replace(/^resp_/, "")}${number.toString(16).padStart(4, "0")}`;
}

/** A response's input as it is kept: items as clients list them, each with an id of the hub's own. */
export function toKeptInput(items: readonly JsonObject[], responseId: string): JsonObject[] {
  return items.map((item, index) => {
    const typed: JsonObject = item["type"] === undefined ? { ...item, type: "message" } : item;
    const { content, role } = typed;
    const said = typed["type"] === "message" && typeof content === "string"
      ? { content: [{ type: role === "assistant" ? "output_text" : "input_text", text: content }] }
      : {};
    return { ...typed, ...said, id: itemId(responseId, typed["type"], INPUT_FROM + index) };
  });
}

/** The response that an item of the hub's own belongs to; null for the id of another's item. */
export function responseOfItem(id: string): string | null {
  const match = OWN_ITEM.exec(id);
  return match === null ? null : `resp_${match[1]}`;
}

/** The items of a response's output. */
export function outputOf(response: JsonObject | null): JsonObject[] {
  const output = response?.["output"];
  return Array.isArray(output) ? output.filter(isJsonObject) : [];
}

/** An item as a provider reads it that does not keep it: without reasoning of others, and ids that it never gave. */
export function toForeignItems(items: readonly JsonObject[]): JsonObject[] {
  return items.flatMap((item) => {
    if (item["type"] === "reasoning") {
      const packed = item["encrypted_content"];
      return typeof packed === "string" && !packed.startsWith("lh1.") ? [item] : [];
    }
    if (referencedItem(item) !== null) return [item];
    const { id: _id, ...rest } = item;
    return [rest];
  });
}
