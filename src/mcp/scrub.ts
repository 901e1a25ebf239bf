import type { Json } from "../core/json.ts";

const MARK = "[redacted]";

/** Takes credentials out of texts: as they are, their last word alone, and as JSON writes them. */
export function scrubText(text: string, credentials: readonly string[]): string {
  let clean = text;
  for (const needle of credentials.flatMap(formsOf)) clean = clean.replaceAll(needle, MARK);
  return clean;
}

/** The same for whatever JSON says. */
export function scrubJson<T extends Json>(value: T, credentials: readonly string[]): T {
  const text = JSON.stringify(value);
  const clean = text === undefined ? text : scrubText(text, credentials);
  return clean === text ? value : JSON.parse(clean);
}

function formsOf(credential: string): string[] {
  const word = credential.slice(credential.lastIndexOf(" ") + 1);
  const texts = word.length < 8 ? [credential] : [credential, word];
  return texts.flatMap((text) => {
    const once = JSON.stringify(text).slice(1, -1);
    const twice = JSON.stringify(once).slice(1, -1);
    return once === text ? [text] : [twice, once, text];
  });
}
