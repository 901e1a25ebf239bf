import type { Json } from "../core/json.ts";
import { secretForms } from "./redact.ts";

const MARK = "[redacted]";
/** Shorter forms of a credential stand in innocent texts by chance. */
const SHORTEST_FORM = 6;

/** Takes credentials out of texts: as they are, their last word alone, and as JSON, URLs and base64 write them. */
export function scrubText(text: string, credentials: readonly string[]): string {
  return scrubForms(text, formsOf(credentials));
}

/** The same for each text and name of a JSON value, which is changed in place. */
export function scrubJson<T extends Json>(value: T, credentials: readonly string[]): T {
  const forms = formsOf(credentials);
  const shortest = Math.min(...forms.map(({ length }) => length));
  const scrub = (text: string) => text.length < shortest ? text : scrubForms(text, forms);
  if (typeof value === "string") return scrub(value) as T;
  const waiting: Json[] = [value];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (typeof node !== "object" || node === null) continue;
    for (const [name, member] of Object.entries(node)) {
      const cleanName = Array.isArray(node) ? name : scrub(name);
      const clean = typeof member === "string" ? scrub(member) : member;
      if (typeof clean === "object") waiting.push(clean);
      if (cleanName !== name) Reflect.deleteProperty(node, name);
      if (cleanName === name && clean === member) continue;
      // An assignment to `__proto__` would set the prototype.
      Object.defineProperty(node, cleanName, {
        value: clean,
        configurable: true,
        enumerable: true,
        writable: true,
      });
    }
  }
  return value;
}

/** Takes the same credentials out of text after text. */
export class Scrubber {
  readonly #forms: readonly string[];

  constructor(credentials: readonly string[]) {
    this.#forms = formsOf(credentials);
  }

  /** Length of the longest writing of a credential; 0 where there are none. */
  get longest(): number {
    return this.#forms[0]?.length ?? 0;
  }

  scrub(text: string): string {
    return scrubForms(text, this.#forms);
  }

  /** Length of the end of a text with which a credential may begin; what comes next tells. */
  unfinished(text: string): number {
    for (let length = Math.min(this.longest - 1, text.length); length > 0; length--) {
      const end = text.slice(-length);
      if (this.#forms.some((form) => form.startsWith(end))) return length;
    }
    return 0;
  }
}

function scrubForms(text: string, forms: readonly string[]): string {
  let clean = text;
  for (const form of forms) {
    if (clean.length >= form.length && clean.includes(form)) clean = clean.replaceAll(form, MARK);
  }
  return clean;
}

/** All writings, the longest first: one may be a piece of another. */
function formsOf(credentials: readonly string[]): string[] {
  const forms = new Set(credentials.flatMap((credential) => {
    const word = credential.slice(credential.lastIndexOf(" ") + 1);
    const texts = word.length < 8 ? [credential] : [credential, word];
    return texts.flatMap((
      text,
    ) => [text, ...secretForms(text).filter(({ length }) => length >= SHORTEST_FORM)]);
  }));
  return [...forms].filter((form) => form !== "").sort((a, b) => b.length - a.length);
}
