import type { AssistantContent, ModelMessage, ModelToolResult } from "../core/model.ts";
import { wellFormedJson, wellFormedText } from "../core/well_formed.ts";

/** What stands for a result that was lost. */
export const MISSING_RESULT = "result unavailable; do not assume it ran";

type ToolCall = Extract<AssistantContent, { type: "tool-call" }>;

/**
 * Makes a history that every provider accepts: each call has exactly one result, in call order, directly after its
 * assistant message; no result without a call; no empty assistant text; no lone surrogates. A missing result is
 * replaced by `MISSING_RESULT`. Repairing twice changes nothing more.
 */
export function repairHistory(messages: readonly ModelMessage[]): ModelMessage[] {
  const results = new Map<string, ModelToolResult>();
  for (const message of messages) {
    if (message.role !== "tool") continue;
    for (const result of message.results) {
      if (!results.has(result.toolCallId)) results.set(result.toolCallId, result);
    }
  }
  const seen = new Set<string>();
  return messages.flatMap((message): ModelMessage[] => {
    switch (message.role) {
      case "system":
        return [{ role: "system", text: wellFormedText(message.text) }];
      case "user":
        return [repairUser(message)];
      case "tool":
        return [];
      case "assistant":
        return repairAssistant(message.content, { results, seen });
    }
  });
}

function repairUser(message: Extract<ModelMessage, { role: "user" }>): ModelMessage {
  const content = message.content.map((piece) =>
    piece.type === "text" ? { ...piece, text: wellFormedText(piece.text) } : piece
  );
  return { role: "user", content };
}

function repairAssistant(
  content: readonly AssistantContent[],
  known: { results: ReadonlyMap<string, ModelToolResult>; seen: Set<string> },
): ModelMessage[] {
  const kept: AssistantContent[] = [];
  const calls: ToolCall[] = [];
  for (const piece of content) {
    if (piece.type === "tool-call") {
      if (known.seen.has(piece.toolCallId)) continue;
      known.seen.add(piece.toolCallId);
      const call = { ...piece, inputText: repairInput(piece.inputText) };
      kept.push(call);
      calls.push(call);
    } else if (piece.type === "reasoning") {
      kept.push({ ...piece, text: wellFormedText(piece.text) });
    } else if (piece.text.trim() !== "") {
      kept.push({ ...piece, text: wellFormedText(piece.text) });
    }
  }
  // Reasoning that led to nothing is no message.
  if (kept.every((piece) => piece.type === "reasoning")) return [];
  const assistant: ModelMessage = { role: "assistant", content: kept };
  if (calls.length === 0) return [assistant];
  return [assistant, { role: "tool", results: calls.map((call) => resultOf(call, known.results)) }];
}

function resultOf(
  { toolCallId, toolName }: ToolCall,
  results: ReadonlyMap<string, ModelToolResult>,
): ModelToolResult {
  const result = results.get(toolCallId);
  if (result === undefined) {
    return { toolCallId, toolName, text: MISSING_RESULT, images: [], isError: true };
  }
  return { ...result, toolName, text: wellFormedText(result.text) };
}

/** JSON text can hide a lone surrogate behind an escape that it is valid with. */
function repairInput(text: string): string {
  const wellFormed = wellFormedText(text);
  if (!/\\u(?:0000|d[89a-f])/i.test(wellFormed)) return wellFormed;
  try {
    return JSON.stringify(wellFormedJson(JSON.parse(wellFormed)));
  } catch {
    return wellFormed;
  }
}
