/** Control characters, line separators and direction marks: what could fake a line or steer a terminal. */
const UNSAFE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/** Text of others for one line of a terminal: what could do harm is written as an escape; `keeps` lists what stays. */
export function makeSafe(text: string, { keeps = "" }: { keeps?: string } = {}): string {
  return text.replace(UNSAFE, (character) => {
    if (keeps.includes(character)) return character;
    const code = character.charCodeAt(0).toString(16).padStart(4, "0");
    return character === "\n" ? "\\n" : character === "\t" ? "\\t" : `\\u${code}`;
  });
}
