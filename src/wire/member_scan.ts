import { HubError } from "../core/error.ts";
import { latin1 } from "./http1/header_fields.ts";
import { isHex, shownByte, type Span } from "./json_bytes.ts";
import { type JsonBounds, ShapeCount } from "../core/large_json/shape_count.ts";
import { nextTurn } from "../core/next_turn.ts";

/** Is told of each member of the object, once its value was scanned. */
export type VisitMember = (key: string, value: Span) => void;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const decoder = new TextDecoder();
/** Bytes that are scanned between two turns of the event loop. */
const STRETCH_BYTES = 1024 * 1024;

/** What the next byte that is no space may be. Inside of strings, space counts. */
type Expected =
  | "start"
  | "name or end"
  | "name"
  | "inside name"
  | "colon"
  | "item or end"
  | "value"
  | "inside string"
  | "after value"
  | "end";

/**
 * Walks over a JSON object as bytes and checks its grammar (RFC 8259) without building values. It can stop anywhere and
 * go on later.
 */
export class MemberScan {
  readonly #bytes: Uint8Array;
  readonly #visit: VisitMember;
  readonly #count: ShapeCount;
  #at = 0;
  #expected: Expected = "start";
  /** The containers that are open, outermost first: true for an object. */
  readonly #open: boolean[] = [];
  #objectStart = 0;
  #nameFrom = 0;
  #isEscapedName = false;
  #key = "";
  #valueFrom = 0;

  /** The bounds are those of request bodies unless told. */
  constructor(bytes: Uint8Array, visit: VisitMember, bounds: JsonBounds = {}) {
    this.#bytes = bytes;
    this.#visit = visit;
    this.#count = new ShapeCount(bounds, "The body");
  }

  /** Where the object begins, behind its brace. */
  get objectStart(): number {
    return this.#objectStart;
  }

  /** The value that stands in a span that was scanned before. */
  parse(span: Span): unknown {
    return JSON.parse(decoder.decode(this.#bytes.subarray(span.from, span.to)));
  }

  /** Scans all that is left. Throws `invalid_json` with the place, `invalid_request` past a bound. */
  scan(): void {
    this.#advance(Infinity);
  }

  /** As `scan`; the event loop turns each megabyte, unless told otherwise. */
  async scanInSteps(stretchBytes = STRETCH_BYTES): Promise<void> {
    while (!this.#advance(this.#at + stretchBytes)) await nextTurn();
  }

  /** Scans up to about `stop`; true when everything was scanned. */
  #advance(stop: number): boolean {
    const bytes = this.#bytes;
    while (this.#at < stop) {
      if (this.#expected === "inside string") {
        if (this.#string(stop)) this.#endValue();
        continue;
      }
      if (this.#expected === "inside name") {
        if (this.#string(stop)) this.#endName();
        continue;
      }
      if (!this.#skipSpace(stop)) continue;
      const byte = bytes[this.#at];
      switch (this.#expected) {
        case "start":
          if (byte !== 0x7b) this.#fail("a JSON object");
          this.#enter(true);
          this.#objectStart = this.#at;
          break;
        case "name or end":
          if (byte === 0x7d) this.#leave();
          else this.#name(byte);
          break;
        case "name":
          this.#name(byte);
          break;
        case "colon":
          this.#colon(byte);
          break;
        case "item or end":
          if (byte === 0x5d) this.#leave();
          else this.#value(byte);
          break;
        case "value":
          this.#value(byte);
          break;
        case "after value":
          this.#afterValue(byte);
          break;
        case "end":
          if (byte !== undefined) this.#fail("the end of the body");
          return true;
      }
    }
    return false;
  }

  #fail(wanted: string): never {
    const at = this.#at;
    const byte = this.#bytes[at];
    const came = shownByte(byte);
    const place = `at byte ${at} ${came} where ${wanted} was wanted`;
    throw new HubError("invalid_json", `The body is not valid JSON: ${place}`);
  }

  /** False when `stop` came before the end of the space. */
  #skipSpace(stop: number): boolean {
    const bytes = this.#bytes;
    for (; this.#at < stop; this.#at++) {
      const byte = bytes[this.#at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return true;
    }
    return false;
  }

  #name(byte: number | undefined): void {
    if (byte !== QUOTE) this.#fail("a member's name");
    this.#nameFrom = this.#at++;
    this.#isEscapedName = false;
    this.#expected = "inside name";
  }

  #endName(): void {
    this.#expected = "colon";
    if (this.#open.length > 1) return;
    const [from, to] = [this.#nameFrom, this.#at];
    // A name beyond ASCII comes out garbled, which is no matter: none that is looked for has one.
    this.#key = this.#isEscapedName
      ? this.parse({ from, to }) as string
      : latin1(this.#bytes, from + 1, to - 1);
  }

  #colon(byte: number | undefined): void {
    this.#count.addKey();
    if (byte !== 0x3a) this.#fail('":"');
    this.#at++;
    this.#expected = "value";
  }

  #value(byte: number | undefined): void {
    this.#count.addValue();
    if (this.#open.length === 1) this.#valueFrom = this.#at;
    if (byte === QUOTE) {
      this.#at++;
      this.#expected = "inside string";
      return;
    }
    if (byte === 0x7b || byte === 0x5b) return this.#enter(byte === 0x7b);
    if (byte === 0x74) this.#word("true");
    else if (byte === 0x66) this.#word("false");
    else if (byte === 0x6e) this.#word("null");
    else this.#number();
    this.#endValue();
  }

  #endValue(): void {
    this.#expected = "after value";
    if (this.#open.length > 1) return;
    this.#visit(this.#key, { from: this.#valueFrom, to: this.#at });
  }

  #afterValue(byte: number | undefined): void {
    const isObject = this.#open.at(-1) === true;
    if (byte === (isObject ? 0x7d : 0x5d)) return this.#leave();
    if (byte !== 0x2c) this.#fail(isObject ? '"," or "}"' : '"," or "]"');
    this.#at++;
    this.#expected = isObject ? "name" : "value";
  }

  #enter(isObject: boolean): void {
    this.#count.enter();
    this.#at++;
    this.#open.push(isObject);
    this.#expected = isObject ? "name or end" : "item or end";
  }

  #leave(): void {
    this.#at++;
    this.#open.pop();
    this.#count.leave();
    if (this.#open.length === 0) this.#expected = "end";
    else this.#endValue();
  }

  /** Scans a string; true behind its closing quote, false when `stop` came before. */
  #string(stop: number): boolean {
    const bytes = this.#bytes;
    const end = Math.min(stop, bytes.length);
    let at = this.#at;
    while (at < end) {
      const byte = bytes[at];
      if (byte === QUOTE) {
        this.#at = at + 1;
        return true;
      }
      if (byte === BACKSLASH) {
        this.#isEscapedName = true;
        at = this.#escape(at + 1);
      } else if (byte === undefined || byte < 0x20) {
        this.#at = at;
        this.#fail("the end of a string");
      } else at++;
    }
    this.#at = at;
    if (at >= bytes.length) this.#fail("the end of a string");
    return false;
  }

  #escape(at: number): number {
    const byte = this.#bytes[at];
    if (byte === 0x75) {
      for (let digit = 1; digit <= 4; digit++) {
        if (!isHex(this.#bytes[at + digit])) {
          this.#at = at + digit;
          this.#fail("a hex digit");
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
    return this.#fail("an escape");
  }

  #take(byte: number): boolean {
    if (this.#bytes[this.#at] !== byte) return false;
    this.#at++;
    return true;
  }

  #word(word: string): void {
    for (let index = 0; index < word.length; index++) {
      if (!this.#take(word.charCodeAt(index))) this.#fail(word);
    }
  }

  #number(): void {
    const start = this.#at;
    this.#take(0x2d);
    if (!this.#take(0x30) && !this.#digits()) {
      this.#at = start;
      this.#fail("a value");
    }
    if (this.#take(0x2e) && !this.#digits()) this.#fail("a digit");
    if (this.#take(0x65) || this.#take(0x45)) {
      if (!this.#take(0x2b)) this.#take(0x2d);
      if (!this.#digits()) this.#fail("a digit");
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
