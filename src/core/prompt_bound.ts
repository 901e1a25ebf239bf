const BYTES_PER_TOKEN = 2;
/** Files in base64 have no such text; images and documents cost far less than this. */
const FILE_BYTES_PER_TOKEN = 4;
const SHORTEST_FILE = 1024;
/** `data:` and a media type stand before the file. */
const LONGEST_PREFIX = 128;
/** Every so many bytes of a string are looked at. */
const STRIDE = 31;
const QUOTE = 34;
/** What is behind is taken for text: looking takes a millisecond for a megabyte. */
const MOST_LOOKED_AT = 8 * 1024 * 1024;

/** Tokens that the JSON of a request is taken for: one for two bytes, and for four of a file. */
export function boundPromptTokens(body: Uint8Array): number {
  let fileBytes = 0;
  let from = 0;
  const seen = body.subarray(0, MOST_LOOKED_AT);
  while (from + SHORTEST_FILE <= seen.length) {
    // Strings that end in here are too short.
    const last = seen.subarray(from, from + SHORTEST_FILE).lastIndexOf(QUOTE);
    if (last >= 0) {
      from += last + 1;
      continue;
    }
    const quote = seen.indexOf(QUOTE, from);
    const end = quote < 0 ? seen.length : quote;
    if (isBase64(seen, from, end)) fileBytes += end - from;
    from = end + 1;
  }
  return Math.ceil((body.length - fileBytes) / BYTES_PER_TOKEN + fileBytes / FILE_BYTES_PER_TOKEN);
}

function isBase64(bytes: Uint8Array, from: number, end: number): boolean {
  for (let at = from + LONGEST_PREFIX; at < end; at += STRIDE) {
    const code = bytes[at] ?? 0;
    const isDigit = (code >= 97 && code <= 122) || (code >= 65 && code <= 90) ||
      (code >= 47 && code <= 57) || code === 43 || code === 45 || code === 61 || code === 95;
    if (!isDigit) return false;
  }
  return true;
}
