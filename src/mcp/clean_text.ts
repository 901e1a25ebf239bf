/** Controls but tab and line feed, direction marks, invisible joiners, tag characters, and lone surrogates. */
const UNSEEN =
  /(?![\t\n])\p{Cc}|[\u{ad}\u{61c}\u{180e}\u{200b}-\u{200f}\u{202a}-\u{202e}\u{2060}-\u{206f}\u{feff}\u{fff9}-\u{fffb}\u{e0000}-\u{e0fff}]|\p{Cs}/gu;

/** A text of a server without what a person who reads it would not see, and not longer than this. */
export function cleanText(text: string, maxChars: number): string {
  const clean = text.slice(0, maxChars * 4).replace(/\r\n?/g, "\n").replace(UNSEEN, "").trim();
  if (clean.length <= maxChars) return clean;
  return `${clean.slice(0, maxChars - 1).replace(/\p{Cs}$/u, "")}…`;
}
