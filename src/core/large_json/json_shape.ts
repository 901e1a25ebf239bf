import { HubError } from "../error.ts";
import { MAX_JSON_DEPTH, MAX_JSON_KEYS, MAX_JSON_VALUES } from "../limits.ts";

/** Bounds of a JSON document; the defaults are those of `core/limits.ts`. */
export interface JsonBounds {
  maxDepth?: number;
  maxKeys?: number;
  maxValues?: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;

/**
 * Counts depth, keys and values of JSON text as its bytes come, before anything is built of it: `JSON.parse` takes five
 * million levels, and seconds for them. Grammar is not checked.
 */
export class JsonShape {
  readonly #bounds: Required<JsonBounds>;
  readonly #what: string;
  #depth = 0;
  #keys = 0;
  #values = 0;
  #inString = false;
  /** The next byte of the string is escaped. */
  #isEscaped = false;

  /** `what` is the subject of errors. */
  constructor(bounds: JsonBounds = {}, what = "The request body") {
    this.#what = what;
    this.#bounds = {
      maxDepth: bounds.maxDepth ?? MAX_JSON_DEPTH,
      maxKeys: bounds.maxKeys ?? MAX_JSON_KEYS,
      maxValues: bounds.maxValues ?? MAX_JSON_VALUES,
    };
  }

  /** Begins another document. */
  reset(): void {
    this.#depth = 0;
    this.#keys = 0;
    this.#values = 0;
    this.#inString = false;
    this.#isEscaped = false;
  }

  /** Counts the next bytes. Throws `invalid_request` past a bound. */
  push(bytes: Uint8Array): void {
    const { maxDepth, maxKeys, maxValues } = this.#bounds;
    let at = this.#inString ? this.#skipString(bytes, 0) : 0;
    for (; at < bytes.length; at++) {
      const byte = bytes[at];
      if (byte === QUOTE) {
        this.#inString = true;
        at = this.#skipString(bytes, at + 1) - 1;
      } else if (byte === 0x5b || byte === 0x7b) {
        if (++this.#depth > maxDepth) throw this.#refuse(`nests deeper than ${maxDepth} levels`);
        this.#values++;
      } else if (byte === 0x5d || byte === 0x7d) this.#depth--;
      else if (byte === COLON) {
        if (++this.#keys > maxKeys) throw this.#refuse(`has more than ${maxKeys} keys`);
      } else if (byte === COMMA && ++this.#values > maxValues) {
        throw this.#refuse(`has more than ${maxValues} values`);
      }
    }
  }

  /** The place behind the string that `from` is in, or the end of the bytes when it goes on. */
  #skipString(bytes: Uint8Array, from: number): number {
    let at = from;
    if (this.#isEscaped && at < bytes.length) {
      this.#isEscaped = false;
      at++;
    }
    for (;;) {
      const quote = bytes.indexOf(QUOTE, at);
      const end = quote === -1 ? bytes.length : quote;
      let escapes = 0;
      while (end - 1 - escapes >= at && bytes[end - 1 - escapes] === BACKSLASH) escapes++;
      const isEscaped = escapes % 2 === 1;
      if (quote === -1) {
        this.#isEscaped = isEscaped;
        return end;
      }
      if (!isEscaped) {
        this.#inString = false;
        return end + 1;
      }
      at = end + 1;
    }
  }

  #refuse(how: string): HubError {
    return new HubError("invalid_request", `${this.#what} ${how}`);
  }
}
