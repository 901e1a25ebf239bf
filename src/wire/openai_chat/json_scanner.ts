import { HubError } from "../../core/error.ts";
import { isHex, shownByte, type Span } from "../json_bytes.ts";
import { latin1 } from "../http1/header_fields.ts";
import { MAX_JSON_DEPTH, MAX_JSON_KEYS, MAX_JSON_VALUES } from "../../core/limits.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const decoder = new TextDecoder();

/** Walks over JSON text as bytes and checks its grammar (RFC 8259) without building values. */
export class JsonScanner {
  readonly #bytes: Uint8Array;
  #at = 0;
  #keys = 0;
  #values = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Index of the next byte. */
  get position(): number {
    return this.#at;
  }

  /** The value that stands in a span that was scanned before. */
  parse(span: Span): unknown {
    return JSON.parse(decoder.decode(this.#bytes.subarray(span.from, span.to)));
  }

  /** Throws `invalid_json`: what was wanted here, and where. */
  fail(wanted: string): never {
    const at = this.#at;
    const byte = this.#bytes[at];
    const came = shownByte(byte);
    throw new HubError(
      "invalid_json",
      `The body is not valid JSON: at byte ${at} ${came} where ${wanted} was wanted`,
    );
  }

  skipSpace(): void {
    const bytes = this.#bytes;
    for (;;) {
      const byte = bytes[this.#at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return;
      this.#at++;
    }
  }

  /** Takes this byte if it is next. */
  take(byte: number): boolean {
    if (this.#bytes[this.#at] !== byte) return false;
    this.#at++;
    return true;
  }

  /** Members of an object whose brace is taken. `visit` stands at a member's value and must scan it. */
  members(visit: (key: string) => void): void {
    this.skipSpace();
    if (this.take(0x7d)) return;
    for (;;) {
      this.skipSpace();
      const from = this.#at;
      if (this.#bytes[from] !== QUOTE) this.fail("a member's name");
      const escaped = this.#string();
      // A name beyond ASCII comes out garbled, which is no matter: none that is looked for has one.
      const key = escaped
        ? this.parse({ from, to: this.#at }) as string
        : latin1(this.#bytes, from + 1, this.#at - 1);
      this.#colon();
      visit(key);
      this.skipSpace();
      if (this.take(0x7d)) return;
      if (!this.take(0x2c)) this.fail('"," or "}"');
    }
  }

  /** Elements of an array whose bracket is taken. `visit` stands at an element and must scan it. */
  items(visit: () => void): void {
    this.skipSpace();
    if (this.take(0x5d)) return;
    for (;;) {
      this.skipSpace();
      visit();
      this.skipSpace();
      if (this.take(0x5d)) return;
      if (!this.take(0x2c)) this.fail('"," or "]"');
    }
  }

  /** Scans one value; `depth` is the nesting that it would have. */
  value(depth: number): void {
    if (++this.#values > MAX_JSON_VALUES) {
      throw new HubError("invalid_request", `The body has more than ${MAX_JSON_VALUES} values`);
    }
    this.skipSpace();
    switch (this.#bytes[this.#at]) {
      case QUOTE:
        this.#string();
        return;
      case 0x7b:
        return this.#object(depth);
      case 0x5b:
        return this.#array(depth);
      case 0x74:
        return this.#word("true");
      case 0x66:
        return this.#word("false");
      case 0x6e:
        return this.#word("null");
      default:
        return this.#number();
    }
  }

  /** Nothing but space may follow. */
  end(): void {
    this.skipSpace();
    if (this.#at < this.#bytes.length) this.fail("the end of the body");
  }

  #object(depth: number): void {
    this.#enter(depth);
    this.skipSpace();
    if (this.take(0x7d)) return;
    for (;;) {
      this.skipSpace();
      if (this.#bytes[this.#at] !== QUOTE) this.fail("a member's name");
      this.#string();
      this.#colon();
      this.value(depth + 1);
      this.skipSpace();
      if (this.take(0x7d)) return;
      if (!this.take(0x2c)) this.fail('"," or "}"');
    }
  }

  #array(depth: number): void {
    this.#enter(depth);
    this.skipSpace();
    if (this.take(0x5d)) return;
    for (;;) {
      this.value(depth + 1);
      this.skipSpace();
      if (this.take(0x5d)) return;
      if (!this.take(0x2c)) this.fail('"," or "]"');
    }
  }

  #enter(depth: number): void {
    if (depth > MAX_JSON_DEPTH) {
      throw new HubError(
        "invalid_request",
        `The body is nested more than ${MAX_JSON_DEPTH} levels deep at byte ${this.#at}`,
      );
    }
    this.#at++;
  }

  #colon(): void {
    if (++this.#keys > MAX_JSON_KEYS) {
      throw new HubError("invalid_request", `The body has more than ${MAX_JSON_KEYS} members`);
    }
    this.skipSpace();
    if (!this.take(0x3a)) this.fail('":"');
    this.skipSpace();
  }

  /** Scans a string from its opening quote; true when it has an escape. */
  #string(): boolean {
    const bytes = this.#bytes;
    let at = this.#at + 1;
    let escaped = false;
    for (;;) {
      const byte = bytes[at];
      if (byte === QUOTE) {
        this.#at = at + 1;
        return escaped;
      }
      if (byte === BACKSLASH) {
        escaped = true;
        at = this.#escape(at + 1);
      } else if (byte === undefined || byte < 0x20) {
        this.#at = at;
        this.fail("the end of a string");
      } else at++;
    }
  }

  #escape(at: number): number {
    const byte = this.#bytes[at];
    if (byte === 0x75) {
      for (let digit = 1; digit <= 4; digit++) {
        if (!isHex(this.#bytes[at + digit])) {
          this.#at = at + digit;
          this.fail("a hex digit");
        }
      }
      return at + 5;
    }
    // " \ / b f n r t
    if (
      byte === QUOTE || byte === BACKSLASH || byte === 0x2f || byte === 0x62 || byte === 0x66 ||
      byte === 0x6e || byte === 0x72 || byte === 0x74
    ) return at + 1;
    this.#at = at;
    return this.fail("an escape");
  }

  #word(word: string): void {
    for (let index = 0; index < word.length; index++) {
      if (!this.take(word.charCodeAt(index))) this.fail(word);
    }
  }

  #number(): void {
    const start = this.#at;
    this.take(0x2d);
    if (!this.take(0x30) && !this.#digits()) {
      this.#at = start;
      this.fail("a value");
    }
    if (this.take(0x2e) && !this.#digits()) this.fail("a digit");
    if (this.take(0x65) || this.take(0x45)) {
      if (!this.take(0x2b)) this.take(0x2d);
      if (!this.#digits()) this.fail("a digit");
    }
  }

  #digits(): boolean {
    const from = this.#at;
    for (;;) {
      const byte = this.#bytes[this.#at];
      if (byte === undefined || byte < 0x30 || byte > 0x39) return this.#at > from;
      this.#at++;
    }
  }
}
