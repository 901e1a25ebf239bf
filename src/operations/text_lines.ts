/** Longest line of a kept result, in UTF-16 units; longer ones count as several, so that every line can be read. */
export const MAX_LINE_CHARS = 2000;

/** Where a line stands in its text, in UTF-16 units, without its line feed. */
export interface LineSpan {
  start: number;
  end: number;
}

/** The lines by which kept results are cut and read: split at line feeds, and long ones every 2000 units. */
export function lineSpans(text: string): LineSpan[] {
  const spans: LineSpan[] = [];
  let lineEnd = -1;
  for (let start = 0; start <= text.length;) {
    if (lineEnd < start) {
      const feed = text.indexOf("\n", start);
      lineEnd = feed === -1 ? text.length : feed;
    }
    let end = Math.min(start + MAX_LINE_CHARS, lineEnd);
    if (end < lineEnd && isHighSurrogate(text.charCodeAt(end - 1))) end--;
    spans.push({ start, end });
    start = end < lineEnd ? end : lineEnd + 1;
  }
  return spans;
}

/** UTF-8 bytes of a text; a lone surrogate counts as the three bytes of its replacement. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80) continue;
    bytes += unit < 0x800 ? 1 : 2;
    if (isHighSurrogate(unit) && isLowSurrogate(text.charCodeAt(at + 1))) at++;
  }
  return bytes;
}

/** The longest beginning of a text that needs at most `maxBytes` of UTF-8; never half a character. */
export function utf8Prefix(text: string, maxBytes: number): string {
  let bytes = 0;
  for (let at = 0; at < text.length;) {
    const point = text.codePointAt(at) ?? 0;
    const width = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (bytes + width > maxBytes) return text.slice(0, at);
    bytes += width;
    at += point < 0x10000 ? 1 : 2;
  }
  return text;
}

/** The longest end of a text that needs at most `maxBytes` of UTF-8; never half a character. */
export function utf8Suffix(text: string, maxBytes: number): string {
  let bytes = 0;
  for (let at = text.length; at > 0;) {
    const unit = text.charCodeAt(at - 1);
    const pair = isLowSurrogate(unit) && at > 1 && isHighSurrogate(text.charCodeAt(at - 2));
    const width = pair ? 4 : unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;
    if (bytes + width > maxBytes) return text.slice(at);
    bytes += width;
    at -= pair ? 2 : 1;
  }
  return text;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit < 0xe000;
}
