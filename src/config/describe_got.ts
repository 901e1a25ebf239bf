import { isJsonObject, type Json } from "../core/json.ts";

/** How much of a value may be shown. */
export interface DescribeGotOptions {
  /** True for settings that hold keys: nothing of them is shown but the kind and the length. */
  secret: boolean;
  /** The text as it was written, when `${VAR}` was replaced in it, else null; shown instead of what it stands for. */
  raw: string | null;
}

const LONGEST_SHOWN = 80;

/** What came, in words that give no secret away: a text is shown only where it is short and like no key. */
export function describeGot(value: Json, { secret, raw }: DescribeGotOptions): string {
  if (value === null) return "null";
  if (Array.isArray(value)) {
    return value.length === 0 ? "an empty list" : `a list of ${value.length}`;
  }
  if (isJsonObject(value)) return "an object";
  if (typeof value !== "string") return secret ? `a ${typeof value}` : String(value);
  if (raw !== null && !secret) {
    return value === ""
      ? `${JSON.stringify(raw)}, which is empty`
      : `what ${quoteGot(raw)} stands for`;
  }
  if (value === "") return "an empty text";
  return secret ? describeLength(value) : quoteGot(value);
}

/** The text in quotes, or only its length when it is long or looks like a key. */
export function quoteGot(text: string): string {
  const hidden = text.length > LONGEST_SHOWN || isLikeSecret(text);
  return hidden ? describeLength(text) : JSON.stringify(text);
}

function describeLength(text: string): string {
  return `a text of ${text.length} characters`;
}

function isLikeSecret(text: string): boolean {
  return /[A-Za-z0-9+/=_-]{32}/.test(text) || /:\/\/[^/\s]*@/.test(text) ||
    /\b(sk|pk|rk|gsk|xai|lh)[-_][A-Za-z0-9]/i.test(text);
}
