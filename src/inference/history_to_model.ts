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
import { toolResultOf } from "./tool_result_text.ts";

/**
 * Messages as pages show them to messages as models read them. Depends on its arguments alone, and a message gives
 * the same whether it is in flight or was read back, so a conversation's prefix stays the same to the byte.
 * Tool calls go by their wire names. A call without an output gets no result here; see `repairHistory`.
 */
export function historyToModel(
  messages: readonly UIMessage[],
  toWire: (toolName: string) => string,
): ModelMessage[] {
  return messages.flatMap((message) => {
    switch (message.role) {
      case "system":
        return systemMessage(message);
      case "user":
        return userMessage(message);
      case "assistant":
        return assistantMessages(message, toWire);
    }
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
function assistantMessages(
  message: UIMessage,
  toWire: (toolName: string) => string,
): ModelMessage[] {
  const steps = splitSteps(message.parts);
  const brokeOff = message.metadata?.["finishReason"];
  const lastIsBroken = brokeOff === "aborted" || brokeOff === "error";
  return steps.flatMap((parts, index) => {
    const keepReasoning = !(lastIsBroken && index === steps.length - 1);
    const content: AssistantContent[] = [];
    const results: ModelToolResult[] = [];
    const said: ModelMessage[] = [];
    for (const part of parts) {
      const piece = assistantContent(part, { toWire, keepReasoning });
      if (piece !== null) content.push(piece);
      const steering = readSteering(part);
      if (steering?.state === "applied") {
        said.push({ role: "user", content: [{ type: "text", text: steering.text }] });
      }
      if (part.type !== "tool") continue;
      const result = toolResultOf(part, toWire(part.toolName));
      if (result !== null) results.push(result);
    }
    const written: ModelMessage[] = [];
    if (content.length > 0) written.push({ role: "assistant", content });
    if (results.length > 0) written.push({ role: "tool", results });
    return [...written, ...said];
  });
}

function splitSteps(parts: readonly UIPart[]): UIPart[][] {
  const steps: UIPart[][] = [[]];
  for (const part of parts) {
    if (part.type === "step-start") steps.push([]);
    else steps.at(-1)?.push(part);
  }
  return steps.filter((step) => step.length > 0);
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
