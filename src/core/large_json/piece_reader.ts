import { HubError } from "../error.ts";
import { isJsonObject, type Json, type JsonObject } from "../json.ts";
import {
  addMembers,
  ENDS_WORD,
  isSpace,
  type Level,
  openLevel,
  setMember,
  StringEnd,
} from "./json_level.ts";
import type { WorkStretch } from "../next_turn.ts";
import { type Reading, readPiece } from "../parse_json.ts";
import { LongText } from "./long_text.ts";

/** Longest run of white space, in bytes: it would have to be read at once. */
const MAX_SPACE_BYTES = 64 * 1024;
/** Longest number, in bytes. */
const MAX_NUMBER_BYTES = 1024;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;

/** Reads a document in pieces: runs of small members together, large containers and strings by themselves. */
export class PieceReader {
  readonly #bytes: Uint8Array;
  readonly #stretch: WorkStretch;
  readonly #pieceBytes: number;
  readonly #reading: Reading;
  readonly #levels: Level[] = [];
  #at = 0;
  #scanned = 0;
  #root: { value: Json } | null = null;
  /** The first refusal of a name; text that is no JSON further on comes before it, as in a whole document. */
  #refusal: HubError | null = null;

  constructor(
    bytes: Uint8Array,
    { stretch, pieceBytes, reading }: {
      stretch: WorkStretch;
      pieceBytes: number;
      reading: Reading;
    },
  ) {
    this.#reading = reading;
    this.#bytes = bytes;
    this.#stretch = stretch;
    this.#pieceBytes = pieceBytes;
  }

  async read(): Promise<Json> {
    const bytes = this.#bytes;
    if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) this.#at = 3;
    while (this.#at < bytes.length) {
      const byte = bytes[this.#at];
      if (byte === QUOTE) await this.#string();
      else if (byte === 0x5b || byte === 0x7b) this.#open(byte === 0x5b);
      else if (byte === 0x5d || byte === 0x7d) await this.#close(byte === 0x5d);
      else if (byte === COMMA) await this.#comma();
      else if (byte === COLON && this.#levels.length > 0) this.#at++;
      else if (isSpace(byte)) this.#space();
      else this.#word();
      const work = this.#at - this.#scanned;
      if (work < this.#pieceBytes) continue;
      this.#scanned = this.#at;
      await this.#stretch.spend(work);
    }
    if (this.#root === null || this.#levels.length > 0) this.#fail();
    if (this.#refusal !== null) throw this.#refusal;
    return this.#root.value;
  }

  #fail(at = this.#at): never {
    throw new HubError("invalid_json", `The request body is not valid JSON (near byte ${at})`);
  }

  #open(isArray: boolean): void {
    if (this.#root !== null) this.#fail();
    this.#levels.push(openLevel(this.#at++, isArray));
  }

  async #string(): Promise<void> {
    const from = this.#at;
    const to = await this.#endOfString(from) + 1;
    if (to > this.#bytes.length) this.#fail(from);
    this.#at = to;
    const level = this.#levels.at(-1);
    if (to - from > this.#pieceBytes) {
      const isName = level !== undefined && !level.isArray && !this.#hasName(level);
      // The name of a member is read with it, however long it is.
      if (!isName) return this.#put({ from, to }, await this.#longString(from + 1, to - 1));
    }
    if (level === undefined) return this.#put({ from, to }, this.#piece(from, to));
    if (!level.isArray && !this.#hasName(level)) {
      level.nameFrom = from;
      level.nameTo = to;
    }
  }

  /** Place of the quote that closes the string opened at `start`, or the end of the document. */
  async #endOfString(start: number): Promise<number> {
    const end = new StringEnd(this.#bytes, start);
    while (!end.find(this.#pieceBytes)) {
      await this.#stretch.spend(end.at - this.#scanned);
      this.#scanned = end.at;
    }
    return end.at;
  }

  /** Whether the member that is being read has its name. */
  #hasName(level: Level): boolean {
    return level.nameFrom >= 0;
  }

  #space(): void {
    const from = this.#at;
    while (isSpace(this.#bytes[this.#at])) {
      if (++this.#at - from > MAX_SPACE_BYTES) this.#fail(from);
    }
  }

  #word(): void {
    const bytes = this.#bytes;
    const from = this.#at;
    let at = from;
    const most = Math.min(bytes.length, from + MAX_NUMBER_BYTES + 1);
    while (at < most && !ENDS_WORD[bytes[at] ?? 0]) at++;
    if (at - from > MAX_NUMBER_BYTES || at === from) this.#fail(from);
    this.#at = at;
    if (this.#levels.length === 0) this.#put({ from, to: at }, this.#piece(from, at));
  }

  async #comma(): Promise<void> {
    const level = this.#levels.at(-1);
    if (level === undefined) this.#fail();
    const at = this.#at++;
    level.nameFrom = -1;
    if (level.isBehindMember) {
      this.#assertSpace(level.from, at);
      level.isBehindMember = false;
    } else if (at - level.from < this.#pieceBytes) return;
    else await this.#flush(level, at);
    level.from = at + 1;
  }

  async #close(isArray: boolean): Promise<void> {
    const at = this.#at++;
    const level = this.#levels.at(-1);
    if (level === undefined || level.isArray !== isArray) this.#fail(at);
    const isRoot = this.#levels.length === 1;
    // A small one is read with what is around it.
    if (level.value === null && !isRoot) {
      this.#levels.pop();
      return;
    }
    if (level.isBehindMember) this.#assertSpace(level.from, at);
    else if (level.value === null) level.value = this.#container(this.#piece(level.start, at + 1));
    else await this.#flush(level, at);
    this.#levels.pop();
    this.#put({ from: level.start, to: at + 1 }, level.value ?? null);
  }

  /** Takes the members from `level.from` up to `to` into the container; there is at least one. */
  async #flush(level: Level, to: number): Promise<void> {
    const [open, close] = level.isArray ? ["[", "]"] : ["{", "}"];
    const members = this.#container(this.#piece(level.from, to, open, close));
    const added = addMembers(level, members);
    if (added === 0) this.#fail(to);
    await this.#stretch.spend(to - level.from);
  }

  /** Puts a value that was read by itself where it belongs; members before it are taken with it. */
  #put({ from, to }: { from: number; to: number }, value: Json): void {
    const level = this.#levels.at(-1);
    if (level === undefined) {
      if (this.#root !== null) this.#fail(from);
      this.#root = { value };
      return;
    }
    if (level.isBehindMember) this.#fail(from);
    if (level.isArray) {
      const before = this.#piece(level.from, from, "[", '""]');
      if (!Array.isArray(before)) this.#fail(from);
      before.pop();
      addMembers(level, before);
      if (Array.isArray(level.value)) level.value.push(value);
    } else {
      if (level.nameFrom < 0) this.#fail(from);
      this.#assertColon(level.nameTo, from);
      const before = this.#piece(level.from, level.nameTo, "{", ':""}');
      const name = this.#piece(level.nameFrom, level.nameTo);
      if (!isJsonObject(before) || typeof name !== "string") this.#fail(from);
      delete before[name];
      addMembers(level, before);
      if (isJsonObject(level.value)) setMember(level.value, name, value);
    }
    level.isBehindMember = true;
    level.from = to;
  }

  #container(value: Json): Json[] | JsonObject {
    return Array.isArray(value) || isJsonObject(value) ? value : this.#fail();
  }

  #piece(from: number, to: number, before = "", after = ""): Json {
    const bytes = this.#bytes.subarray(from, to);
    const reading = this.#refusal === null ? this.#reading : "plain";
    try {
      return readPiece(bytes, { from, before, after, reading });
    } catch (error) {
      if (!(error instanceof HubError) || error.code !== "invalid_request") throw error;
      this.#refusal = error;
      return readPiece(bytes, { from, before, after, reading: "plain" });
    }
  }

  /** The text of a string, between its quotes. */
  async #longString(from: number, to: number): Promise<string> {
    const text = new LongText({ isMended: this.#reading !== "plain" });
    for (let at = from; at < to;) {
      const end = Math.min(to, this.#cut(at, at + this.#pieceBytes));
      const piece = readPiece(this.#bytes.subarray(at, end), {
        from: at,
        before: '"',
        after: '"',
        reading: "plain",
      });
      text.add(String(piece));
      await this.#stretch.spend(end - at);
      at = end;
    }
    return text.end();
  }

  /** A place at or after `at` that is inside of no character and no escape; the piece before it begins at `from`. */
  #cut(from: number, at: number): number {
    const bytes = this.#bytes;
    let cut = at;
    while (((bytes[cut] ?? 0) & 0xc0) === 0x80) cut++;
    if (this.#isEscaped(from, cut)) return bytes[cut] === 0x75 ? cut + 5 : cut + 1;
    for (let back = 1; back <= 4; back++) {
      if (bytes[cut - back] === 0x75 && this.#isEscaped(from, cut - back)) return cut - back + 5;
    }
    return cut;
  }

  /** Counts back to `from` at most, which is inside of no escape: a whole string may consist of backslashes. */
  #isEscaped(from: number, at: number): boolean {
    let backslashes = 0;
    while (at - 1 - backslashes >= from && this.#bytes[at - 1 - backslashes] === BACKSLASH) {
      backslashes++;
    }
    return backslashes % 2 === 1;
  }

  #assertSpace(from: number, to: number): void {
    for (let at = from; at < to; at++) if (!isSpace(this.#bytes[at])) this.#fail(at);
  }

  #assertColon(from: number, to: number): void {
    const colon = this.#bytes.indexOf(COLON, from);
    if (colon < 0 || colon >= to) this.#fail(from);
    this.#assertSpace(from, colon);
    this.#assertSpace(colon + 1, to);
  }
}
