import { readProblem } from "../core/answer_format.ts";
import { canonicalJson, isJsonObject } from "../core/json.ts";
import type {
  AssistantContent,
  ModelMessage,
  ModelToolResult,
  ReasoningOrigin,
  UserContent,
} from "../core/model.ts";
import { readSteering } from "../core/steering.ts";
import type { ToolPart, UIMessage, UIPart } from "../core/ui_message.ts";
import { type LeftOut, toolResultOf } from "./tool_result_text.ts";

/** What belongs together in a conversation: a message, or one step of it with its calls and their results. */
export interface Unit {
  messageId: string;
  /** -1 where there is none. */
  step: number;
  role: UIMessage["role"];
  messages: ModelMessage[];
}

/** How a conversation is read. */
export interface ReadingOptions {
  toWire: (toolName: string) => string;
  /** Calls whose results are not shown any more. */
  leftOut?: ReadonlyMap<string, LeftOut>;
}

/**
 * Messages as pages show them to messages as models read them. Depends on its arguments alone, and a message gives
 * the same whether it is in flight or was read back, so a conversation's prefix stays the same to the byte.
 * Tool calls go by their wire names. A call without an output gets no result here; see `repairHistory`.
 */
export function historyToModel(
  messages: readonly UIMessage[],
  toWire: (toolName: string) => string,
): ModelMessage[] {
  return toUnits(messages, { toWire }).flatMap(({ messages }) => messages);
}

/** The same by what belongs together; a unit may be of no messages. */
export function toUnits(messages: readonly UIMessage[], options: ReadingOptions): Unit[] {
  return messages.flatMap((message): Unit[] => {
    const { id: messageId, role } = message;
    if (role === "assistant") return assistantUnits(message, options);
    const written = role === "system" ? systemMessage(message) : userMessage(message);
    return [{ messageId, step: -1, role, messages: written }];
  });
}

function systemMessage(message: UIMessage): ModelMessage[] {
  const text = message.parts.map((part) => part.type === "text" ? part.text : "").join("");
  return text === "" ? [] : [{ role: "system", text }];
}

function userMessage(message: UIMessage): ModelMessage[] {
  const content = message.parts.map(userContent).filter((piece) => piece !== null);
  return content.length === 0 ? [] : [{ role: "user", content }];
}

function userContent(part: UIPart): UserContent | null {
  if (part.type === "text") return part.text === "" ? null : { type: "text", text: part.text };
  if (part.type !== "file") return null;
  const { url, mediaType, filename } = part;
  if (mediaType.startsWith("image/")) return { type: "image", url, mediaType };
  return { type: "file", url, mediaType, ...(filename === undefined ? {} : { filename }) };
}

/** Each step becomes an assistant message, a tool message when it made calls, and what the user said behind it. */
function assistantUnits(message: UIMessage, { toWire, leftOut }: ReadingOptions): Unit[] {
  const steps = splitSteps(message.parts);
  const brokeOff = message.metadata?.["finishReason"];
  const lastIsBroken = brokeOff === "aborted" || brokeOff === "error";
  return steps.map(({ step, parts }, index): Unit => {
    const keepReasoning = !(lastIsBroken && index === steps.length - 1);
    const content: AssistantContent[] = [];
    const results: ModelToolResult[] = [];
    const said: ModelMessage[] = [];
    for (const part of parts) {
      const piece = assistantContent(part, { toWire, keepReasoning });
      if (piece !== null) content.push(piece);
      const image = madeImage(part);
      if (image !== null) said.push(image);
      const steering = readSteering(part);
      const words = steering?.state === "applied" ? steering.text : readProblem(part);
      if (words !== null) said.push({ role: "user", content: [{ type: "text", text: words }] });
      if (part.type !== "tool") continue;
      const result = toolResultOf(part, toWire(part.toolName), leftOut?.get(part.toolCallId));
      if (result !== null) results.push(result);
    }
    const written: ModelMessage[] = [];
    if (content.length > 0) written.push({ role: "assistant", content });
    if (results.length > 0) written.push({ role: "tool", results });
    const { id: messageId, role } = message;
    return { messageId, step, role, messages: [...written, ...said] };
  });
}

/** An image that the model has made: it reads it again as the user's, since no provider takes images of an assistant. */
function madeImage(part: UIPart): ModelMessage | null {
  if (part.type !== "file" || !part.mediaType.startsWith("image/")) return null;
  const { url, mediaType } = part;
  const content: UserContent[] = [
    { type: "text", text: "The image that you made:" },
    { type: "image", url, mediaType },
  ];
  return { role: "user", content };
}

function splitSteps(parts: readonly UIPart[]): { step: number; parts: UIPart[] }[] {
  const steps: { step: number; parts: UIPart[] }[] = [{ step: -1, parts: [] }];
  for (const part of parts) {
    if (part.type === "step-start") steps.push({ step: part.step, parts: [] });
    else steps.at(-1)?.parts.push(part);
  }
  return steps.filter(({ parts }) => parts.length > 0);
}

function assistantContent(
  part: UIPart,
  options: { toWire: (toolName: string) => string; keepReasoning: boolean },
): AssistantContent | null {
  switch (part.type) {
    case "text":
      return part.text === "" ? null : { type: "text", text: part.text };
    case "reasoning": {
      const { text, origin } = part;
      if (origin === undefined || part.state !== "done" || !options.keepReasoning) return null;
      return { type: "reasoning", text, origin: sortedOrigin(origin) };
    }
    case "tool": {
      // Arguments that never came whole were no call.
      if (part.state === "streaming") return null;
      const { toolCallId } = part;
      const toolName = options.toWire(part.toolName);
      return { type: "tool-call", toolCallId, toolName, inputText: inputText(part) };
    }
    case "step-start":
    case "source-url":
    case "file":
    case "data":
      return null;
  }
}

/** The same origin with its keys in one order, since Postgres does not keep theirs. */
function sortedOrigin({ provider, model, field, payload }: ReasoningOrigin): ReasoningOrigin {
  if (payload === undefined) return { provider, model, field };
  return { provider, model, field, payload: JSON.parse(canonicalJson(payload)) };
}

/** Arguments as JSON text of an object. Servers parse what they get back, so unusable text goes as `{}`. */
function inputText(part: ToolPart): string {
  if (part.input !== undefined) return canonicalJson(part.input);
  try {
    const value: unknown = JSON.parse(part.inputText ?? "");
    return isJsonObject(value) ? canonicalJson(value) : "{}";
  } catch {
    return "{}";
  }
}
