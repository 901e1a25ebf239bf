/** Controls but tab and line feed, direction marks, invisible joiners, tag characters, and lone surrogates. */
const UNSEEN =
  /(?![\t\n])\p{Cc}|[\u{ad}\u{61c}\u{180e}\u{200b}-\u{200f}\u{202a}-\u{202e}\u{2060}-\u{206f}\u{feff}\u{fff9}-\u{fffb}\u{e0000}-\u{e0fff}]|\p{Cs}/gu;

/** Most texts, of which nothing more has to be known. */
const PLAIN = /^[\t\n\x20-\x7e]*$/;

/** A text of a server without what a person who reads it would not see, and not longer than this. */
export function cleanText(text: string, maxChars: number): string {
  const most = text.slice(0, maxChars * 4);
  const seen = PLAIN.test(most) ? most : most.replace(/\r\n?/g, "\n").replace(UNSEEN, "");
  const clean = seen.trim();
  if (clean.length <= maxChars) return clean;
  return `${clean.slice(0, maxChars - 1).replace(/\p{Cs}$/u, "")}…`;
}

/** Whether a text has something that a person who reads it would not see, but for what joins letters and emoji. */
export function hidesText(text: string): boolean {
  return !PLAIN.test(text) && text.replace(/[\r\u{200c}\u{200d}]/gu, "").search(UNSEEN) >= 0;
}
