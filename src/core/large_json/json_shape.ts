import { type JsonBounds, ShapeCount } from "./shape_count.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;
const NEAR_BYTES = 64;

/**
 * Counts depth, keys and values of JSON text as its bytes come, before anything is built of it: `JSON.parse` takes five
 * million levels, and seconds for them. Grammar is not checked.
 */
export class JsonShape {
  readonly #count: ShapeCount;
  #inString = false;
  /** The next byte of the string is escaped. */
  #isEscaped = false;

  /** `what` is the subject of errors. */
  constructor(bounds: JsonBounds = {}, what = "The request body") {
    this.#count = new ShapeCount(bounds, what);
  }

  /** Begins another document. */
  reset(): void {
    this.#count.reset();
    this.#inString = false;
    this.#isEscaped = false;
  }

  /** The next bytes are another document, which counts towards the same bounds. */
  endDocument(): void {
    this.#count.surface();
    this.#inString = false;
    this.#isEscaped = false;
  }

  /** Counts the next bytes. Throws `invalid_request` past a bound. */
  push(bytes: Uint8Array): void {
    const count = this.#count;
    let at = this.#inString ? this.#skipString(bytes, 0) : 0;
    for (; at < bytes.length; at++) {
      const byte = bytes[at];
      if (byte === QUOTE) {
        this.#inString = true;
        at = this.#skipString(bytes, at + 1) - 1;
      } else if (byte === 0x5b || byte === 0x7b) {
        count.enter();
        count.addValue();
      } else if (byte === 0x5d || byte === 0x7d) count.leave();
      else if (byte === COLON) count.addKey();
      else if (byte === COMMA) count.addValue();
    }
  }

  /** The place behind the string that `from` is in, or the end of the bytes when it goes on. */
  #skipString(bytes: Uint8Array, from: number): number {
    for (let at = from; at < bytes.length;) {
      // Quotes that stand close together are looked for byte by byte: a call for each of them would take longer.
      const near = Math.min(at + NEAR_BYTES, bytes.length);
      for (; at < near || (this.#isEscaped && at < bytes.length); at++) {
        if (this.#isEscaped) this.#isEscaped = false;
        else if (bytes[at] === BACKSLASH) this.#isEscaped = true;
        else if (bytes[at] === QUOTE) {
          this.#inString = false;
          return at + 1;
        }
      }
      const quote = bytes.indexOf(QUOTE, at);
      const end = quote === -1 ? bytes.length : quote;
      let escapes = 0;
      while (end - 1 - escapes >= at && bytes[end - 1 - escapes] === BACKSLASH) escapes++;
      this.#isEscaped = escapes % 2 === 1;
      at = end;
    }
    return bytes.length;
  }
}
