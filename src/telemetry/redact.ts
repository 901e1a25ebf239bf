import { NAMED_SECRETS, SECRET_SHAPES } from "./secret_shapes.ts";

/** What stands where a secret was. */
export const REDACTED = "[redacted]";

/** Secrets shorter than this are not looked for by value: they would turn up in innocent text. */
const SHORTEST_SECRET = 8;

/** Takes secrets out of text. */
export interface Redactor {
  /**
   * The text without any known secret, plain or as JSON, a URL or base64 writes it; without what looks like a
   * credential; and without values that stand behind a name like `authorization`. JSON stays JSON, and a text that
   * was redacted stays as it is.
   */
  redact(text: string): string;
  /** Learns a further secret; those shorter than 8 characters are ignored. */
  add(secret: string): void;
}

/** Makes a redactor that knows these secrets. */
export function createRedactor({ secrets }: { secrets: Iterable<string> }): Redactor {
  const needles = new Set<string>();
  /** Secrets with a quote in them, as they are: in JSON that quote could be its own. */
  const quoted = new Set<string>();
  const add = (secret: string) => {
    if (secret.length < SHORTEST_SECRET || REDACTED.includes(secret)) return;
    if (secret.includes('"')) quoted.add(secret);
    for (const form of secretForms(secret)) {
      if (form.length >= SHORTEST_SECRET && !REDACTED.includes(form)) needles.add(form);
    }
  };
  for (const secret of secrets) add(secret);
  return {
    add,
    redact(text) {
      const plain = quoted.size > 0 && !/^\s*["[{]/.test(text);
      return redactShapes(redactValues(text, plain ? [...quoted, ...needles] : needles));
    },
  };
}

/** JSON texts inside JSON texts that are looked through: a line, a body in it, and a body in that. */
const MAX_NESTING = 3;

/** The ways in which a secret may be written inside other text. */
export function secretForms(secret: string): string[] {
  const forms = base64Forms(secret);
  let escaped = secret;
  for (let depth = 0; depth < MAX_NESTING; depth++) {
    escaped = JSON.stringify(escaped).slice(1, -1);
    forms.push(escaped);
  }
  if (!secret.includes('"')) forms.push(secret);
  if (secret.isWellFormed()) forms.push(encodeURIComponent(secret));
  return forms;
}

/** The part of a secret in base64 that does not depend on what stands around it, for each of three alignments. */
function base64Forms(secret: string): string[] {
  const bytes = new TextEncoder().encode(secret);
  return [0, 1, 2].map((shift) => {
    const padded = new Uint8Array(shift + bytes.length);
    padded.set(bytes, shift);
    const whole = padded.subarray(0, padded.length - padded.length % 3);
    return whole.toBase64().slice(shift === 0 ? 0 : shift + 1);
  });
}

function redactValues(text: string, needles: Iterable<string>): string {
  let found: [number, number][] | null = null;
  for (const needle of needles) {
    for (let at = text.indexOf(needle); at !== -1; at = text.indexOf(needle, at + 1)) {
      found ??= [];
      found.push(widen(text, at, at + needle.length));
    }
  }
  return found === null ? text : cutOut(text, found);
}

/**
 * A range that cuts no JSON escape in two: half of `\n` or `\u0000` would break the line. In plain text this takes
 * at most a few characters too many.
 */
function widen(text: string, start: number, end: number): [number, number] {
  const from = start - escapeBefore(text, start);
  if (!isEscaped(text, end)) return [from, end];
  const rest = /^u[0-9a-f]{4}/i.exec(text.slice(end, end + 5));
  return [from, end + (rest === null ? 1 : 5)];
}

/** Characters of an escape that begins before this place and reaches over it. */
function escapeBefore(text: string, place: number): number {
  if (isEscaped(text, place)) return 1;
  const unicode = /u[0-9a-f]{0,3}$/i.exec(text.slice(Math.max(0, place - 4), place));
  if (unicode === null) return 0;
  return isEscaped(text, place - unicode[0].length) ? unicode[0].length + 1 : 0;
}

/** True when an odd number of backslashes stands before this place. */
function isEscaped(text: string, place: number): boolean {
  let backslashes = 0;
  while (text[place - 1 - backslashes] === "\\") backslashes++;
  return backslashes % 2 === 1;
}

function cutOut(text: string, ranges: [number, number][]): string {
  ranges.sort(([a], [b]) => a - b);
  let out = "";
  let done = -1;
  for (const [start, end] of ranges) {
    // Ranges that touch or overlap leave one mark.
    if (start > done) out += text.slice(Math.max(0, done), start) + REDACTED;
    done = Math.max(done, end);
  }
  return out + text.slice(done);
}

function redactShapes(text: string): string {
  let out = text;
  for (const { hint, pattern } of SECRET_SHAPES) {
    if (hint.test(out)) out = out.replace(pattern, `$1${REDACTED}`);
  }
  if (!NAMED_SECRETS.hint.test(out)) return out;
  return NAMED_SECRETS.patterns.reduce(
    (rest, pattern) => rest.replace(pattern, `$1${REDACTED}`),
    out,
  );
}
