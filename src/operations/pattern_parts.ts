/** What a regular expression is made of. */
export type PatternPart =
  /** One code point: a character, an escape, a class or `.`, as it is written. */
  | { kind: "set"; source: string }
  | { kind: "place"; source: "^" | "$" | "\\b" | "\\B" }
  | { kind: "sequence"; parts: PatternPart[] }
  | { kind: "choice"; parts: PatternPart[] }
  /** `max` is null for any number of times. */
  | { kind: "repeat"; part: PatternPart; min: number; max: number | null };

const MAX_CHARS = 1000;
const ESCAPE =
  /\\(?:[pP]\{[^}]*\}|u\{[^}]*\}|u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[a-zA-Z]|[^])/uy;
const CLASS = /\[(?:[^\]\\]|\\[^])*\]/uy;
const TIMES = /(?:([*+?])|\{(\d+)(,?)(\d*)\})\??/uy;
/** `(`, `(?:` and `(?<name>`, but not what looks around, `(?=`, `(?!`, `(?<=` and `(?<!`, nor flags. */
const GROUP = /\((?:\?:|\?<[^=!>][^>]*>|(?!\?))/uy;

/**
 * Takes a regular expression (flag `u`) apart; null for one that is invalid or longer than 1000 characters, that looks
 * around, or refers back to a group. The expression is compiled to be checked, but never run.
 */
export function parsePattern(pattern: string): PatternPart | null {
  if (pattern.length > MAX_CHARS) return null;
  try {
    new RegExp(pattern, "u");
  } catch {
    return null;
  }
  const work = { pattern, at: 0 };
  const part = readChoice(work);
  return work.at === pattern.length ? part : null;
}

interface Work {
  pattern: string;
  at: number;
}

function take({ pattern, at }: Work, form: RegExp): RegExpExecArray | null {
  form.lastIndex = at;
  return form.exec(pattern);
}

function readChoice(work: Work): PatternPart | null {
  const parts: PatternPart[] = [];
  do {
    const part = readSequence(work);
    if (part === null) return null;
    parts.push(part);
  } while (work.pattern[work.at] === "|" && ++work.at > 0);
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : { kind: "choice", parts };
}

function readSequence(work: Work): PatternPart | null {
  const parts: PatternPart[] = [];
  while (work.at < work.pattern.length && !"|)".includes(work.pattern[work.at] ?? "")) {
    const part = readOne(work);
    if (part === null) return null;
    parts.push(readTimes(work, part));
  }
  return { kind: "sequence", parts };
}

function readOne(work: Work): PatternPart | null {
  const { pattern, at } = work;
  const char = String.fromCodePoint(pattern.codePointAt(at) ?? 0);
  if (char === "^" || char === "$") {
    work.at++;
    return { kind: "place", source: char };
  }
  if (char === "(") {
    const begin = take(work, GROUP)?.[0];
    if (begin === undefined) return null;
    work.at += begin.length;
    const inner = readChoice(work);
    work.at++;
    return inner;
  }
  const source = char === "\\"
    ? take(work, ESCAPE)?.[0]
    : char === "["
    ? take(work, CLASS)?.[0]
    : char;
  if (source === undefined || /^\\[1-9k]/.test(source)) return null;
  work.at += source.length;
  if (source === "\\b" || source === "\\B") return { kind: "place", source };
  return { kind: "set", source };
}

function readTimes(work: Work, part: PatternPart): PatternPart {
  const times = take(work, TIMES);
  if (times === null) return part;
  work.at += times[0].length;
  const [, sign, least, comma, most] = times;
  if (sign !== undefined) {
    return { kind: "repeat", part, min: sign === "+" ? 1 : 0, max: sign === "?" ? 1 : null };
  }
  const min = Number(least);
  const max = comma === "" ? min : most === "" ? null : Number(most);
  return { kind: "repeat", part, min, max };
}
