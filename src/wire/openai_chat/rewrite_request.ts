import { joinBytes } from "../../core/join_bytes.ts";
import type { Span } from "../json_bytes.ts";
import type { ChatRequestScan } from "./scan_request.ts";

/** The request as the upstream gets it. */
export interface RewrittenRequest {
  body: Uint8Array;
  /** True when the hub asked for usage and the client did not: the extra usage chunk is not the client's. */
  hideUsage: boolean;
}

const encoder = new TextEncoder();

/**
 * The client's bytes with another model name, and with `stream_options.include_usage` on streams that lack it, unless
 * the server does not know `stream_options`. Every other byte stays as it is.
 */
export function rewriteChatRequest(
  body: Uint8Array,
  options: { scan: ChatRequestScan; model: string; streamOptions: boolean },
): RewrittenRequest {
  const { scan, model, streamOptions } = options;
  const edits: Edit[] = [];
  if (scan.model !== model) edits.push({ ...scan.modelSpan, text: JSON.stringify(model) });
  const hideUsage = streamOptions && scan.stream && scan.includeUsage === null;
  if (hideUsage) edits.push(usageEdit(body, scan));
  return { body: editBytes(body, edits), hideUsage };
}

/** Text that takes the place of a span of bytes. */
export interface Edit extends Span {
  text: string;
}

/** The body with these edits, which do not overlap; the same bytes without any. */
export function editBytes(body: Uint8Array, edits: Edit[]): Uint8Array {
  if (edits.length === 0) return body;
  edits.sort((a, b) => a.from - b.from);
  const pieces: Uint8Array[] = [];
  let at = 0;
  for (const edit of edits) {
    pieces.push(body.subarray(at, edit.from), encoder.encode(edit.text));
    at = edit.to;
  }
  pieces.push(body.subarray(at));
  return joinBytes(pieces);
}

function usageEdit(body: Uint8Array, scan: ChatRequestScan) {
  const span = scan.streamOptionsSpan;
  if (span === null) {
    const at = scan.objectStart;
    return { from: at, to: at, text: '"stream_options":{"include_usage":true},' };
  }
  if (body[span.from] !== 0x7b) {
    return { from: span.from, to: span.to, text: '{"include_usage":true}' };
  }
  const empty = isBlank(body.subarray(span.from + 1, span.to - 1));
  const text = `"include_usage":true${empty ? "" : ","}`;
  return { from: span.from + 1, to: span.from + 1, text };
}

function isBlank(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09);
}
