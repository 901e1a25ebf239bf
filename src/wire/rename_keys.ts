import type { Json } from "../core/json.ts";

/** The value with other names for its keys, at any depth. */
export function renameKeys(value: Json, names: ReadonlyMap<string, string>): Json {
  const renamer = new KeyRenamer(names);
  return JSON.parse(renamer.push(JSON.stringify(value)) + renamer.end());
}

/** Renames keys in JSON text that comes in pieces, cut anywhere; holds nothing back but the key that it is in. */
export class KeyRenamer {
  readonly #names: ReadonlyMap<string, string>;
  /** What is open, outermost first. */
  readonly #open: string[] = [];
  /** The key so far; null outside of keys. */
  #key: string | null = null;
  #isString = false;
  #isEscaped = false;
  #wantsKey = false;

  constructor(names: ReadonlyMap<string, string>) {
    this.#names = names;
  }

  /** The piece with its keys renamed. */
  push(text: string): string {
    let made = "";
    for (const sign of text) {
      if (this.#isString) made += this.#inString(sign);
      else if (sign === '"' && this.#wantsKey) {
        this.#key = sign;
        this.#isString = true;
      } else {
        this.#between(sign);
        made += sign;
      }
    }
    return made;
  }

  /** What is left of a text that was cut. */
  end(): string {
    const key = this.#key ?? "";
    this.#key = null;
    return key;
  }

  #inString(sign: string): string {
    const isEnd = sign === '"' && !this.#isEscaped;
    this.#isEscaped = sign === "\\" && !this.#isEscaped;
    if (isEnd) this.#isString = false;
    if (this.#key === null) return sign;
    this.#key += sign;
    if (!isEnd) return "";
    const key = this.#key;
    this.#key = null;
    return this.#renamed(key);
  }

  #between(sign: string): void {
    if (sign === '"') this.#isString = true;
    else if (sign === "{" || sign === "[") this.#open.push(sign);
    else if (sign === "}" || sign === "]") this.#open.pop();
    if ("{,".includes(sign)) this.#wantsKey = this.#open.at(-1) === "{";
    else if ("[]}:".includes(sign)) this.#wantsKey = false;
  }

  #renamed(key: string): string {
    let name: unknown;
    try {
      name = JSON.parse(key);
    } catch {
      return key;
    }
    const other = typeof name === "string" ? this.#names.get(name) : undefined;
    return other === undefined ? key : JSON.stringify(other);
  }
}
