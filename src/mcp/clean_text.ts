/** Controls but tab and line feed, direction marks, invisible joiners, tag characters, and lone surrogates. */
// deno-lint-ignore no-control-regex -- Controls are what is to be found.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}]|\p{Cs}/gu;

/** A text of a server without what a person who reads it would not see, and not longer than this. */
export function cleanText(text: string, maxChars: number): string {
  const clean = text.slice(0, maxChars * 4).replace(/\r\n?/g, "\n").replace(UNSEEN, "").trim();
  if (clean.length <= maxChars) return clean;
  return `${clean.slice(0, maxChars - 1).replace(/\p{Cs}$/u, "")}…`;
}
