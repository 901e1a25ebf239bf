import { withoutUnseen } from "../core/visible_text.ts";

/** A text of a server without what a person who reads it would not see, and not longer than this. */
export function cleanText(text: string, maxChars: number): string {
  const clean = withoutUnseen(text.slice(0, maxChars * 4)).trim();
  if (clean.length <= maxChars) return clean;
  return `${clean.slice(0, maxChars - 1).replace(/\p{Cs}$/u, "")}…`;
}
