/** A range of bytes: `from` inclusive, `to` exclusive. */
export interface Span {
  from: number;
  to: number;
}

/** What came at a place, as an error tells it; undefined is the end. */
export function shownByte(byte: number | undefined): string {
  if (byte === undefined) return "the body ends";
  return byte > 0x20 && byte < 0x7f
    ? `"${String.fromCharCode(byte)}" came`
    : `byte 0x${byte.toString(16).padStart(2, "0")} came`;
}

/** True for a hexadecimal digit. */
export function isHex(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  const lower = byte | 0x20;
  return (byte >= 0x30 && byte <= 0x39) || (lower >= 0x61 && lower <= 0x66);
}
