/** Where a trace comes from: the span of another service. */
export interface Origin {
  /** 32 hexadecimal digits. */
  traceId: string;
  /** 16 of them. */
  spanId: string;
  flags: number;
}

/** Version 00; of later ones, which may have more behind, the part that is the same. */
const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Reads the header `traceparent` of W3C's Trace Context; null for what is none. */
export function parseTraceparent(text: string | null): Origin | null {
  const found = text === null || text.length > 512 ? null : FORM.exec(text);
  if (found === null) return null;
  const [, version, traceId = "", spanId = "", flags = "", more] = found;
  if (version === "ff" || (version === "00" && more !== undefined)) return null;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return null;
  return { traceId, spanId, flags: Number.parseInt(flags, 16) };
}

/** Writes it. */
export function writeTraceparent({ traceId, spanId, flags }: Origin): string {
  return `00-${traceId}-${spanId}-${flags.toString(16).padStart(2, "0")}`;
}
