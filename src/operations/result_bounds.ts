import { MAX_TOOL_RESULT_BYTES, MAX_TOOL_RESULT_LINES } from "../core/limits.ts";

/** How long a tool's result may be that a model reads: UTF-8 bytes and lines. */
export interface ResultBounds {
  bytes: number;
  lines: number;
}

/** Those of a hub that sets none. */
export const DEFAULT_RESULT_BOUNDS: Readonly<ResultBounds> = Object.freeze({
  bytes: MAX_TOOL_RESULT_BYTES,
  lines: MAX_TOOL_RESULT_LINES,
});

/** What a tool that reads in parts may show of a text, so that its result, closing remark included, is never cut itself. */
export function roomWithin({ bytes, lines }: ResultBounds): ResultBounds {
  return { bytes: bytes - 2048, lines: lines - 8 };
}
