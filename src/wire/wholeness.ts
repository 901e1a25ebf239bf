import { isJsonObject, type JsonObject } from "../core/json.ts";

/** Whether the arguments of a call, which grow, are whole. Looked at again only when they have grown. */
export class Wholeness {
  #lookedAt = -1;
  #isWhole = false;

  /** True when the text is a JSON object. */
  of(text: string): boolean {
    if (text.length === this.#lookedAt) return this.#isWhole;
    this.#lookedAt = text.length;
    // Whatever is whole ends so; all else need not be parsed.
    this.#isWhole = /\}\s*$/.test(text.slice(-64)) && parseObject(text) !== null;
    return this.#isWhole;
  }
}

/** The object in a JSON text; null for what is none. */
export function parseObject(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}
