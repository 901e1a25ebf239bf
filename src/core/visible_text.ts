import type { Json } from "./json.ts";

/**
 * What a person who reads a text does not see, or sees in another order: controls, line and paragraph separators,
 * direction marks, zero-width and other default-ignorable characters (variation selectors, tags, fillers, the byte order
 * mark), format characters, lone surrogates, blanks that look like a space and are none, and noncharacters.
 */
const UNSEEN =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{Noncharacter_Code_Point}\u2800]|(?![ \u3000])\p{Zs}/gu;
/** Those of them that take room. */
const BLANK = /[\p{Zs}\u2800\u3164\uffa0\u115f\u1160]/u;
/** Most texts, of which nothing more has to be known. */
const PLAIN = /^[\t\n\x20-\x7e]*$/;
const PLAIN_LINE = /^[\x20-\x7e]*$/;

/** A text for a person who decides: what is not seen in it is written as `\u200b` or `\u{e0041}`; `keeps` lists what stays. */
export function visibleText(text: string, { keeps = "\n\t" }: { keeps?: string } = {}): string {
  if ((keeps === "\n\t" ? PLAIN : PLAIN_LINE).test(text)) return text;
  return text.replace(UNSEEN, (character, at: number) => {
    // The end of a line, as some files have it.
    const isKept = keeps.includes(character) ||
      character === "\r" && text[at + 1] === "\n" && keeps.includes("\n");
    return isKept ? character : escapeOf(character);
  });
}

/** A text for models and people without what is not seen in it: blanks become spaces, separators ends of lines. */
export function withoutUnseen(text: string): string {
  if (PLAIN.test(text)) return text;
  return text.replace(/\r\n?/g, "\n").replace(UNSEEN, (character, at: number, whole: string) => {
    if (/[\n\t]/.test(character) || isFormOfEmoji(whole, at)) return character;
    if (BLANK.test(character)) return " ";
    return /[\p{Zl}\p{Zp}]/u.test(character) ? "\n" : "";
  });
}

/** Whether a text has something that is not seen, but for lines, blanks, and what joins letters and emoji. */
export function hidesText(text: string): boolean {
  if (PLAIN.test(text)) return false;
  return text.matchAll(UNSEEN).some(({ 0: character, index }) =>
    !/[\r\n\t\u200c\u200d\p{Zs}]/u.test(character) && !isFormOfEmoji(text, index)
  );
}

/** The same for all texts and names of a JSON value, as a copy. Its depth must be bounded. */
export function visibleJson(value: Json): Json {
  if (typeof value === "string") return visibleText(value);
  if (Array.isArray(value)) return value.map(visibleJson);
  if (typeof value !== "object" || value === null) return value;
  const shown = new Map<string, Json>();
  for (const [name, member] of Object.entries(value)) {
    let visible = visibleText(name);
    // Two names that look the same then are both shown.
    while (shown.has(visible)) visible += " (again)";
    shown.set(visible, visibleJson(member));
  }
  return Object.fromEntries(shown);
}

/** JSON that says the same with escapes in the place of what is not seen in its texts. */
export function visibleJsonText(json: string): string {
  if (PLAIN.test(json)) return json;
  return json.replace(
    UNSEEN,
    (character) =>
      Array.from({ length: character.length }, (_, at) => unitOf(character, at)).join(""),
  );
}

/** Whether a variation selector stands where it says how an emoji is drawn. */
function isFormOfEmoji(text: string, at: number): boolean {
  return /[\ufe0e\ufe0f]/.test(text[at] ?? "") &&
    /\p{Emoji}$/u.test(text.slice(Math.max(0, at - 2), at));
}

function escapeOf(character: string): string {
  if (character === "\n") return "\\n";
  if (character === "\t") return "\\t";
  const code = character.codePointAt(0) ?? 0;
  return code > 0xffff ? `\\u{${code.toString(16)}}` : unitOf(character, 0);
}

function unitOf(character: string, at: number): string {
  return `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`;
}
