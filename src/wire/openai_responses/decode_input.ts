import type { Json, JsonObject } from "../../core/json.ts";
import type {
  AssistantContent,
  ModelMessage,
  ModelToolResult,
  UserContent,
} from "../../core/model.ts";
import { member, refusal } from "../chat_fields.ts";
import { decodeContent, decodeText } from "./decode_content.ts";
import { objectsOf } from "./decode_tools.ts";
import { unpackReasoning } from "./reasoning_item.ts";
import { kindOfCall, kindOfOutput, TOOL_KINDS, wireNameOf } from "./tool_kinds.ts";

/** What the items of an input come to. */
export interface DecodedInput {
  messages: ModelMessage[];
  /** Tools that items brought along, with the place that they came from. */
  tools: { tools: JsonObject[]; param: string }[];
}

/** Leave nothing behind that a model could read: what they led to is in the text that follows them. */
const WITHOUT_CONTENT: ReadonlySet<unknown> = new Set(["web_search_call", "mcp_list_tools"]);

/** The items of `input`, text being one user message. */
export function inputItems(input: Json): JsonObject[] {
  if (typeof input === "string") return [{ type: "message", role: "user", content: input }];
  return objectsOf(input, "input");
}

/**
 * Says the items as messages: what the assistant said, thought and called in a row is one message, and results follow
 * the calls that they belong to. Throws `invalid_request` naming the first item that cannot be said.
 */
export function decodeInput(items: readonly JsonObject[], param = "input"): DecodedInput {
  const reader = new ItemReader();
  for (const [index, item] of items.entries()) reader.take(item, `${param}[${index}]`);
  return { messages: reader.messages(), tools: reader.tools };
}

interface AssistantTurn {
  role: "assistant";
  content: AssistantContent[];
  /** Results by call id; null while there is none. */
  calls: Map<string, { name: string; result: ModelToolResult | null }>;
}

type Turn = Exclude<ModelMessage, { role: "assistant" | "tool" }> | AssistantTurn;

class ItemReader {
  readonly tools: DecodedInput["tools"] = [];
  readonly #turns: Turn[] = [];

  take(item: JsonObject, param: string): void {
    const { type } = item;
    const call = kindOfCall(type);
    const output = kindOfOutput(type);
    if (type === "message" || (type === undefined && "role" in item)) this.#message(item, param);
    else if (call !== null) {
      const name = wireNameOf({
        name: call === "function" || call === "custom" ? textMember(item, "name", param) : call,
        namespace: typeof item["namespace"] === "string" ? item["namespace"] : null,
      });
      const id = callIdOf(item, param);
      const turn = this.#assistant();
      if (turn.calls.has(id)) {
        throw refusal(`${param}.call_id`, `${param}.call_id: ${id} is another call's`);
      }
      turn.calls.set(id, { name, result: null });
      const inputText = TOOL_KINDS[call].fromItem(item);
      turn.content.push({ type: "tool-call", toolCallId: id, toolName: name, inputText });
    } else if (output !== null) this.#result(item, param);
    else if (type === "reasoning") {
      const packed = member(item, "encrypted_content");
      if (typeof packed !== "string") return;
      const reasoning = unpackReasoning(packed, `${param}.encrypted_content`);
      if (reasoning.length > 0) this.#assistant().content.push(...reasoning);
    } else if (type === "additional_tools") {
      this.tools.push({
        tools: objectsOf(item["tools"], `${param}.tools`),
        param: `${param}.tools`,
      });
    } else if (type === "image_generation_call" && typeof item["result"] === "string") {
      const url = `data:image/${member(item, "output_format") ?? "png"};base64,${item["result"]}`;
      const image: UserContent = { type: "image", url, mediaType: "image/*" };
      const text = "The image that you made:";
      this.#turns.push({ role: "user", content: [{ type: "text", text }, image] });
    } else if (!WITHOUT_CONTENT.has(type)) {
      const what = typeof type === "string" ? type.slice(0, 60) : "an item without a type";
      throw refusal(
        `${param}.type`,
        `${param}.type: ${what} cannot be said to the provider of this model`,
      );
    }
  }

  messages(): ModelMessage[] {
    return this.#turns.flatMap((turn): ModelMessage[] => {
      if (turn.role !== "assistant") return [turn];
      const results = [...turn.calls].map(([id, { result }]) => {
        if (result !== null) return result;
        throw refusal("input", `No tool output found for function call ${id}.`);
      });
      const message: ModelMessage = { role: "assistant", content: turn.content };
      return results.length === 0 ? [message] : [message, { role: "tool", results }];
    });
  }

  #message(item: JsonObject, param: string): void {
    const { role, content } = item;
    if (role === "system" || role === "developer") {
      const text = decodeText(content, `${param}.content`);
      if (text !== "") this.#turns.push({ role: "system", text });
    } else if (role === "user") {
      this.#turns.push({ role: "user", content: decodeContent(content, `${param}.content`) });
    } else if (role === "assistant") {
      const text = decodeText(content, `${param}.content`);
      const turn = this.#assistant();
      const goesOn = turn.content.some(({ type }) => type === "text");
      if (text !== "") turn.content.push({ type: "text", text: goesOn ? `\n\n${text}` : text });
    } else {
      throw refusal(
        `${param}.role`,
        `${param}.role must be user, assistant, system or developer`,
      );
    }
  }

  #result(item: JsonObject, param: string): void {
    const id = callIdOf(item, param);
    const turn = this.#turns.findLast((turn): turn is AssistantTurn =>
      turn.role === "assistant" && turn.calls.get(id)?.result === null
    );
    const call = turn?.calls.get(id);
    if (call === undefined) {
      throw refusal("input", `No tool call found for function call output with call_id ${id}.`);
    }
    call.result = {
      toolCallId: id,
      toolName: call.name,
      ...this.#resultContent(item, param),
      // A patch is the one thing whose result says whether it failed.
      isError: item["type"] === "apply_patch_call_output" && item["status"] === "failed",
    };
  }

  #resultContent(item: JsonObject, param: string): Pick<ModelToolResult, "text" | "images"> {
    const { type, output } = item;
    if (type === "shell_call_output") return { text: JSON.stringify(output ?? []), images: [] };
    if (type === "apply_patch_call_output") {
      const said = typeof output === "string" ? `\n${output}` : "";
      return { text: `${String(item["status"])}${said}`, images: [] };
    }
    if (type === "tool_search_output") {
      const tools = objectsOf(item["tools"], `${param}.tools`);
      this.tools.push({ tools, param: `${param}.tools` });
      const names = tools.map(({ name, description }) => ({ name: name ?? null, description }));
      return { text: JSON.stringify(names), images: [] };
    }
    const texts: string[] = [];
    const images: ModelToolResult["images"] = [];
    for (const [index, piece] of decodeContent(output, `${param}.output`).entries()) {
      if (piece.type === "text") texts.push(piece.text);
      else if (piece.type === "image") images.push({ url: piece.url, mediaType: piece.mediaType });
      else {
        const place = `${param}.output[${index}]`;
        throw refusal(place, `${place}: the result of a tool can have no file for this model`);
      }
    }
    return { text: texts.join("\n"), images };
  }

  /** The turn that the assistant is at; a new one once results have come. */
  #assistant(): AssistantTurn {
    const last = this.#turns.at(-1);
    if (last?.role === "assistant") {
      const isAnswered = [...last.calls.values()].some(({ result }) => result !== null);
      if (!isAnswered) return last;
    }
    const turn: AssistantTurn = { role: "assistant", content: [], calls: new Map() };
    this.#turns.push(turn);
    return turn;
  }
}

/** The id that a call and its result have in common; a local shell's result has it as its own. */
function callIdOf(item: JsonObject, param: string): string {
  const id = member(item, "call_id") ??
    (item["type"] === "local_shell_call_output" ? member(item, "id") : null);
  if (typeof id === "string" && id !== "") return id;
  throw refusal(`${param}.call_id`, `${param}.call_id must name the call`);
}

function textMember(item: JsonObject, name: string, param: string): string {
  const value = item[name];
  if (typeof value === "string" && value !== "") return value;
  throw refusal(`${param}.${name}`, `${param}.${name} must be text`);
}

/** The id of the item that an item stands for; null when it is one itself. */
export function referencedItem({ type, id, role }: JsonObject): string | null {
  const refers = type === "item_reference" || (type === undefined && role === undefined);
  return refers && typeof id === "string" ? id : null;
}
