import { canonicalJson, type Json } from "../core/json.ts";
import type { ModelToolResult } from "../core/model.ts";
import type { ToolOutput } from "../core/tool.ts";
import type { ToolPart } from "../core/ui_message.ts";
import { textOf, toToolContent } from "../operations/tool_output.ts";

/** What the model reads when a call was stopped: the tool may have done part of its work. */
const STOPPED: Readonly<Record<string, string>> = {
  aborted: "aborted; the outcome is unknown, inspect before repeating",
  interrupted: "interrupted; the outcome is unknown, inspect before repeating",
};

/** What the model reads of a call for which there was no room. */
export const NO_ROOM = "(tool failed: context window budget exceeded)";

/** Why a result is not shown: it is old (`pruned`), or there was no room for it at all (`dropped`). */
export type LeftOut = "pruned" | "dropped";

/**
 * What the model reads of a tool call that has ended; null while it has not. `toolName` is the wire name. A result that
 * is left out becomes a pointer to itself, always the same one.
 */
export function toolResultOf(
  part: ToolPart,
  toolName: string,
  leftOut?: LeftOut,
): ModelToolResult | null {
  const whole = wholeResultOf(part, toolName);
  if (whole === null || leftOut === undefined) return whole;
  if (leftOut === "dropped") return { ...whole, text: NO_ROOM, images: [], isError: true };
  return { ...whole, text: pointerTo(part.toolCallId, whole), images: [] };
}

/** What stands for a result that was left out to save room. */
function pointerTo(ref: string, { text, images }: ModelToolResult): string {
  const shown = images.length === 0 ? "" : ` and ${images.length} images`;
  return `[… ${text.length} characters${shown} of this result were left out to save room. ` +
    `Read them with hub.read_result: ref ${JSON.stringify(ref)} and offset, limit or grep …]`;
}

function wholeResultOf(part: ToolPart, toolName: string): ModelToolResult | null {
  const { toolCallId } = part;
  if (part.state === "error") {
    const reason = part.errorText ?? "the tool failed without a reason";
    const text = STOPPED[reason] ?? reason;
    return { toolCallId, toolName, text, images: [], isError: true };
  }
  if (part.state !== "result") return null;
  return { toolCallId, toolName, ...readOutput(part.output ?? null), isError: false };
}

/**
 * Text and images of an output. JSON is written with sorted keys: Postgres does not keep their order, and a prefix
 * that differs by it would miss the provider's cache.
 */
function readOutput(output: ToolOutput): Pick<ModelToolResult, "text" | "images"> {
  const images: ModelToolResult["images"] = [];
  const texts: string[] = [];
  for (const piece of toToolContent(output)) {
    if (piece.type === "image") {
      const { mediaType, data } = piece;
      images.push({ url: `data:${mediaType};base64,${data}`, mediaType });
    } else texts.push(piece.type === "json" ? jsonText(piece.value) : textOf(piece));
  }
  const text = texts.join("\n");
  return { text: text === "" && images.length === 0 ? "(no output)" : text, images };
}

/** Sorted JSON text. A value nested past the stack must not make the whole conversation unreadable. */
function jsonText(value: Json): string {
  try {
    return canonicalJson(value);
  } catch {
    return "(the result nests too deep to be shown)";
  }
}
