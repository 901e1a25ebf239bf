import { isJsonObject, type JsonObject } from "../../core/json.ts";
import { callsOf, partsOf, refusal, textOfPart } from "../chat_fields.ts";
import { failureText, isFailure } from "../tool_failure.ts";
import { cacheControl, contentBlocks, textBlocks, withCacheControl } from "./content_blocks.ts";
import { placeThinking, readThinking } from "./thinking_blocks.ts";

/** The system prompt and the turns of a chat. */
export interface EncodedMessages {
  system: JsonObject[];
  messages: JsonObject[];
  /** Whether thinking comes back in them. */
  hasThinking: boolean;
  /** The tool calls whose results end the chat came without thinking, which a budget for thinking forbids. */
  unthoughtCalls: boolean;
}

interface Turn {
  role: "user" | "assistant" | "system";
  content: JsonObject[];
}

/** A chat must begin with the user there. */
const OPENING: Turn = { role: "user", content: [{ type: "text", text: "(begin)" }] };

/**
 * Messages as turns. System messages at the beginning are the system prompt; later ones stay where they are if the model
 * takes them there, else they are the user's words. Turns of one role are one, results of tools at its beginning.
 */
export function encodeMessages(
  messages: readonly JsonObject[],
  { systemTurns }: { systemTurns: boolean },
): EncodedMessages {
  const system: JsonObject[] = [];
  const said: Turn[] = [];
  messages.forEach((message, index) => {
    const at = `messages[${index}]`;
    const turn = toTurn(message, at);
    const blocks = withCacheControl(turn.content, message);
    if (turn.role === "system" && said.length === 0) system.push(...blocks);
    else push(said, { ...turn, content: blocks });
  });
  // An instruction alone is no conversation; it is the question then.
  if (said.length === 0 && system.length > 0) {
    said.push({ role: "user", content: system.splice(0) });
  }
  if (said.length === 0) throw refusal("messages", "messages hold nothing to answer");
  const turns: Turn[] = [];
  said.forEach((turn, index) => {
    const stays = systemTurns && said[index - 1]?.role === "user" &&
      said[index + 1]?.role !== "user";
    push(turns, turn.role === "system" && !stays ? { ...turn, role: "user" } : turn);
  });
  if (turns[0]?.role === "assistant") turns.unshift(OPENING);
  return {
    system,
    messages: turns.map(finishTurn),
    hasThinking: turns.some(({ content }) => content.some(isThinking)),
    unthoughtCalls: hasUnthoughtCalls(turns),
  };
}

function push(turns: Turn[], turn: Turn): void {
  if (turn.content.length === 0) return;
  const last = turns.at(-1);
  if (last?.role === turn.role) last.content.push(...turn.content);
  else turns.push({ ...turn, content: [...turn.content] });
}

function toTurn(message: JsonObject, at: string): Turn {
  switch (message["role"]) {
    case "system":
    case "developer":
      return { role: "system", content: systemBlocks(message, at) };
    case "user":
      return { role: "user", content: contentBlocks(message["content"], `${at}.content`) };
    case "assistant":
      return { role: "assistant", content: assistantBlocks(message, at) };
    case "tool":
      return { role: "user", content: toolResult(message, at) };
    default:
      throw refusal(`${at}.role`, `${at}.role is none that Anthropic's API knows`);
  }
}

function systemBlocks(message: JsonObject, at: string): JsonObject[] {
  return partsOf(message["content"], `${at}.content`).flatMap((part, index) => {
    const text = textOfPart(part);
    if (text !== null) return textBlocks(text, part);
    const param = `${at}.content[${index}]`;
    throw refusal(param, `${param} must be text`);
  });
}

function assistantBlocks(message: JsonObject, at: string): JsonObject[] {
  if (isJsonObject(message["audio"]) || Array.isArray(message["images"])) {
    throw refusal(at, `${at} holds media of an assistant, which Anthropic's API does not take`);
  }
  const said = [
    ...systemBlocks(message, at),
    ...textBlocks(typeof message["refusal"] === "string" ? message["refusal"] : ""),
  ];
  const calls = callsOf(message, `${at}.tool_calls`).map((call): JsonObject[] => [{
    type: "tool_use",
    id: toolUseId(call.id),
    name: call.name,
    input: call.arguments,
    ...cacheControl(call.wire),
  }]);
  return placeThinking(readThinking(message), said.length === 0 ? calls : [said, ...calls]);
}

/**
 * The result of a call. A breakpoint inside of it would not be seen, so it stands on the result. That of a failed call
 * must have text and can have nothing else: its images follow it.
 */
function toolResult(message: JsonObject, at: string): JsonObject[] {
  const id = message["tool_call_id"];
  if (typeof id !== "string") {
    throw refusal(`${at}.tool_call_id`, `${at}.tool_call_id must name the call`);
  }
  let control: JsonObject = {};
  const blocks = contentBlocks(message["content"], `${at}.content`).map(
    ({ cache_control: mark, ...block }) => {
      if (mark !== undefined) control = { cache_control: mark };
      return block;
    },
  );
  const result = { type: "tool_result", tool_use_id: toolUseId(id), ...control };
  if (isFailure(message)) return failedResult(result, blocks);
  const isPlain = typeof message["content"] === "string";
  const content = isPlain ? message["content"] ?? "" : blocks;
  return [{ ...result, ...(blocks.length === 0 ? {} : { content }) }];
}

function failedResult(
  result: JsonObject & { tool_use_id: string },
  blocks: readonly JsonObject[],
): JsonObject[] {
  const texts = blocks.filter(({ type }) => type === "text");
  const [first, second] = texts;
  const content = second === undefined ? failureText(String(first?.["text"] ?? "")) : texts;
  const media = blocks.filter(({ type }) => type !== "text");
  return [
    { ...result, content, is_error: true },
    ...media.flatMap((block) => [
      { type: "text", text: `Of the failed call ${result.tool_use_id}:` },
      block,
    ]),
  ];
}

/** The id of a call with the signs that the API takes. */
function toolUseId(id: string): string {
  return id === "" ? "_" : id.replaceAll(/[^a-zA-Z0-9_-]/g, "_");
}

/** Results first, as the API wants them right behind the calls; no blank at the end of words to be continued. */
function finishTurn({ role, content }: Turn, index: number, turns: readonly Turn[]): JsonObject {
  const isResult = (block: JsonObject) => block["type"] === "tool_result";
  const ordered = role === "user"
    ? [...content.filter(isResult), ...content.filter((block) => !isResult(block))]
    : content;
  const last = ordered.at(-1);
  if (role === "assistant" && index === turns.length - 1 && typeof last?.["text"] === "string") {
    last["text"] = last["text"].trimEnd();
  }
  return { role, content: ordered };
}

function hasUnthoughtCalls(turns: readonly Turn[]): boolean {
  const asks = turns.at(-1)?.content.some(({ type }) => type === "tool_result") ?? false;
  const calls = turns.findLast(({ role }) => role === "assistant")?.content ?? [];
  return asks && calls[0] !== undefined && !isThinking(calls[0]);
}

function isThinking({ type }: JsonObject): boolean {
  return type === "thinking" || type === "redacted_thinking";
}
