import { stringifyInSteps } from "../core/large_json/encode_json.ts";
import { MAX_TOOL_RESULT_BYTES, MAX_TOOL_RESULT_LINES } from "../core/limits.ts";
import { nextTurn } from "../core/next_turn.ts";
import type { ToolContent, ToolResult } from "../core/tool.ts";
import { lineSpans, utf8Length, utf8Prefix, utf8Suffix } from "./text_lines.ts";
import { textOf } from "./tool_output.ts";

/** How long a result may be, and where the rest goes. */
export interface BoundOptions {
  /** UTF-8 bytes of all text pieces together. Default 50 KiB. */
  maxBytes?: number;
  /** Default 2000. */
  maxLines?: number;
  /** Keeps a whole text and gives the reference by which `hub.read_result` finds it; absent when nothing keeps it. */
  saveText?: (text: string) => Promise<string>;
}

/** A result that fits, and the reference of the whole text when it had to be cut. */
export interface BoundResult {
  result: ToolResult;
  ref: string | null;
}

/** Base64 characters of all images of one result; further images are left out. */
export const MAX_IMAGE_CHARS = 8 * 1024 * 1024;

/** A text that is longer is worth a turn of the event loop. */
const LONG_CHARS = 256 * 1024;
const HEAD_SHARE = 0.75;
const MARKER_BYTES = 400;
const MARKER_LINES = 3;

/**
 * Bounds what a model reads of a result. Text and JSON pieces that are too long become one text: the first 75 % and the
 * last 25 % of the allowance, with a marker between that names the reference of the whole text. Cuts fall between
 * lines where lines are short enough, and never inside a character. Rejects only when `saveText` does.
 */
export async function boundResult(
  result: ToolResult,
  options: BoundOptions = {},
): Promise<BoundResult> {
  const maxBytes = options.maxBytes ?? MAX_TOOL_RESULT_BYTES;
  const maxLines = options.maxLines ?? MAX_TOOL_RESULT_LINES;
  const content = withoutHugeImages(result.content);
  const text = await readableText(content);
  if (utf8Length(text) <= maxBytes && countLines(text) <= maxLines) {
    return { result: { ...result, content }, ref: null };
  }
  const ref = await options.saveText?.(text) ?? null;
  await nextTurn();
  const shortened: ToolContent = { type: "text", text: cutText(text, { maxBytes, maxLines, ref }) };
  const others = content.filter((piece) => !isReadable(piece));
  return { result: { ...result, content: [shortened, ...others] }, ref };
}

/** All that is text, with turns of the event loop around what takes long. */
async function readableText(content: readonly ToolContent[]): Promise<string> {
  const texts: string[] = [];
  for (const piece of content) {
    if (piece.type === "json") texts.push(await stringifyInSteps(piece.value));
    else if (piece.type === "text") texts.push(textOf(piece));
  }
  const text = texts.join("\n");
  if (text.length > LONG_CHARS) await nextTurn();
  return text;
}

/** Head, marker and tail of a text; the whole stays within the bounds unless they are smaller than the marker. */
export function cutText(
  text: string,
  options: { maxBytes: number; maxLines: number; ref: string | null },
): string {
  const lines = lineSpans(text);
  const bytes = Math.max(0, options.maxBytes - MARKER_BYTES);
  const count = Math.max(0, options.maxLines - MARKER_LINES);
  const headBytes = Math.floor(bytes * HEAD_SHARE);
  const headLines = fit(text, lines.slice(0, Math.floor(count * HEAD_SHARE)), headBytes);
  const tailBytes = bytes - headBytes;
  const tailFrom = Math.max(headLines, lines.length - (count - Math.floor(count * HEAD_SHARE)));
  const tailLines = fit(text, lines.slice(tailFrom).reverse(), tailBytes);
  const headEnd = lines[headLines - 1]?.end;
  const tailStart = lines[lines.length - tailLines]?.start;
  const head = headEnd === undefined ? utf8Prefix(text, headBytes) : text.slice(0, headEnd);
  const tail = tailStart === undefined ? utf8Suffix(text, tailBytes) : text.slice(tailStart);
  const marker = describeCut({
    first: headLines + 1,
    last: lines.length - tailLines,
    lines: lines.length,
    bytes: utf8Length(text),
    ref: options.ref,
  });
  return `${head}\n${marker}\n${tail}`;
}

/** How many of the lines, in the given order, fit into the bytes. */
function fit(text: string, lines: { start: number; end: number }[], maxBytes: number): number {
  let bytes = 0;
  let fitting = 0;
  for (const { start, end } of lines) {
    bytes += utf8Length(text.slice(start, end)) + 1;
    if (bytes > maxBytes) break;
    fitting++;
  }
  return fitting;
}

function describeCut(
  cut: { first: number; last: number; lines: number; bytes: number; ref: string | null },
): string {
  const range = `Lines ${cut.first} to ${cut.last} of ${cut.lines} are left out here`;
  const size = `the whole result has ${cut.bytes} bytes`;
  const where = cut.ref === null
    ? "and was not kept. Narrow the request to see more"
    : `and is kept as ${cut.ref}. Read it with hub.read_result: ref ${
      JSON.stringify(cut.ref)
    } and offset, limit or grep`;
  return `[… ${range}; ${size} ${where} …]`;
}

function isReadable(piece: ToolContent): boolean {
  return piece.type === "text" || piece.type === "json";
}

function countLines(text: string): number {
  let lines = 1;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) lines++;
  return lines;
}

function withoutHugeImages(content: ToolContent[]): ToolContent[] {
  let left = MAX_IMAGE_CHARS;
  return content.map((piece) => {
    if (piece.type !== "image") return piece;
    if (piece.data.length <= left) {
      left -= piece.data.length;
      return piece;
    }
    const text =
      `(image left out: ${piece.data.length} characters of base64, the result's images may have ${MAX_IMAGE_CHARS})`;
    return { type: "text", text };
  });
}
