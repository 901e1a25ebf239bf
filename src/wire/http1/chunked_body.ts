import { TOKEN } from "./header_fields.ts";

/** Longest line of a chunk's size with its extensions, and all trailers together, in bytes. */
export const MAX_CHUNK_LINE = 4096;
export const MAX_TRAILER_BYTES = 16 * 1024;

const CR = 13;
const LF = 10;

// Where a chunked body stands between two pieces; plain numbers, since every byte of the framing is switched on.
const SIZE = 0;
const EXTENSION = 1;
const SIZE_LF = 2;
const DATA = 3;
const DATA_CR = 4;
const DATA_LF = 5;
const TRAILER_START = 6;
const TRAILER = 7;
const TRAILER_LF = 8;
const END_LF = 9;
const TRAILER_VALUE = 10;
const SIZE_SPACE = 11;
const DONE = 12;
const FAILED = 13;
const TAB = 9;
const SPACE = 32;
const COLON = 58;
const SEMICOLON = 59;
const MISFIT = "has chunks whose sizes do not fit their bytes";

/** Fields that must not stand behind a body (RFC 9110, 6.5.1): another server might take them for those of the head. */
const FORBIDDEN_TRAILERS: ReadonlySet<string> = new Set([
  "authorization",
  "connection",
  "content-encoding",
  "content-length",
  "content-range",
  "content-type",
  "cookie",
  "expect",
  "host",
  "keep-alive",
  "max-forwards",
  "proxy-authorization",
  "range",
  "set-cookie",
  "te",
  "transfer-encoding",
  "upgrade",
  "www-authenticate",
  "x-api-key",
]);
/** No forbidden name is longer. */
const LONGEST_FORBIDDEN = 32;

/**
 * Takes the chunk framing off (RFC 9112, 7.1), as strictly as llhttp: no space behind a size but before an extension, no
 * control characters. Extensions and trailers are passed over, within bounds; trailers that belong in the head are refused.
 */
export class ChunkedBody {
  #at: number = SIZE;
  /** Bytes of the current chunk that are still to come. */
  #left = 0;
  #digits = 0;
  #skipped = 0;
  #rest = 0;
  /** The name of the trailer that is read, in lower case. */
  #name = "";
  #failure: string | null = null;

  /** The last chunk and its trailers have come. */
  get done(): boolean {
    return this.#at === DONE;
  }

  /** Why the body cannot be read on, as the end of a sentence whose subject is the body. Kept apart from `push`, so that what came before it is not lost. */
  get failure(): string | null {
    return this.#failure;
  }

  /** Bytes of the last piece that came behind the end. */
  get surplus(): number {
    return this.#rest;
  }

  /**
   * The payload in `piece`, as a view of it. Several chunks are moved together inside `piece`; a single one is not
   * touched. After a mistake in the framing `failure` is set and nothing more is taken.
   */
  push(piece: Uint8Array): Uint8Array {
    let from = -1;
    let to = -1;
    let i = 0;
    const end = piece.length;
    while (i < end && this.#at < DONE) {
      if (this.#at === DATA) {
        const count = Math.min(end - i, this.#left);
        if (from < 0) from = i;
        else if (to !== i) piece.copyWithin(to, i, i + count);
        to = (to < 0 ? from : to) + count;
        i += count;
        this.#left -= count;
        if (this.#left > 0) continue;
        const plain = piece[i] === CR && piece[i + 1] === LF;
        this.#at = plain ? SIZE : DATA_CR;
        if (plain) i += 2;
        // Almost every size line stands whole in its piece and has no extension; anything else goes byte by byte.
        const next = plain ? this.#sizeLine(piece, i) : -1;
        if (next >= 0) i = next;
      } else this.#step(piece[i++] ?? 0);
    }
    this.#rest = end - i;
    return from < 0 ? piece.subarray(0, 0) : piece.subarray(from, to);
  }

  /** Takes a plain size line at `from` and gives the place behind it, or -1 for one that needs a closer look. */
  #sizeLine(piece: Uint8Array, from: number): number {
    let size = 0;
    let at = from;
    for (;; at++) {
      const value = hexValue(piece[at] ?? 0);
      if (value < 0) break;
      size = size * 16 + value;
    }
    const digits = at - from;
    if (size === 0 || digits > 12 || piece[at] !== CR || piece[at + 1] !== LF) return -1;
    this.#left = size;
    this.#at = DATA;
    return at + 2;
  }

  #step(byte: number): void {
    switch (this.#at) {
      case SIZE: {
        const value = hexValue(byte);
        if (value >= 0) {
          // 12 digits are 2^48 bytes: below what a number holds exactly, above any body.
          if (++this.#digits > 12) return this.#fail("has a chunk size out of bounds");
          this.#left = this.#left * 16 + value;
          return;
        }
        if (this.#digits === 0) return this.#fail("has a chunk without a size");
        this.#skipped = 0;
        if (byte === CR) this.#at = SIZE_LF;
        else if (byte === SEMICOLON) this.#at = EXTENSION;
        else if (byte === SPACE || byte === TAB) this.#at = SIZE_SPACE;
        else return this.#fail("has a chunk size that is no hexadecimal number");
        return;
      }
      case SIZE_SPACE:
        // Space may stand before an extension; behind it another digit or the end of the line would be read in two ways.
        if (byte === SEMICOLON) this.#at = EXTENSION;
        else if (byte !== SPACE && byte !== TAB) this.#fail("has a space behind a chunk size");
        else this.#skip(byte, MAX_CHUNK_LINE);
        return;
      case EXTENSION:
        if (byte === CR) this.#at = SIZE_LF;
        else this.#skip(byte, MAX_CHUNK_LINE);
        return;
      case SIZE_LF:
        if (byte !== LF) return this.#fail(MISFIT);
        this.#digits = 0;
        this.#skipped = 0;
        this.#at = this.#left === 0 ? TRAILER_START : DATA;
        return;
      case DATA_CR:
        if (byte !== CR) return this.#fail(MISFIT);
        this.#at = DATA_LF;
        return;
      case DATA_LF:
        if (byte !== LF) return this.#fail(MISFIT);
        this.#at = SIZE;
        return;
      case TRAILER_START:
        if (byte === CR) this.#at = END_LF;
        else {
          this.#at = TRAILER;
          this.#name = "";
          this.#trailerName(byte);
        }
        return;
      case TRAILER:
        return this.#trailerName(byte);
      case TRAILER_VALUE:
        if (byte === CR) this.#at = TRAILER_LF;
        else this.#skip(byte, MAX_TRAILER_BYTES);
        return;
      case TRAILER_LF:
        if (byte !== LF) return this.#fail(MISFIT);
        this.#at = TRAILER_START;
        return;
      case END_LF:
        if (byte !== LF) return this.#fail(MISFIT);
        this.#at = DONE;
        return;
      default:
    }
  }

  #trailerName(byte: number): void {
    this.#skip(byte, MAX_TRAILER_BYTES);
    if (this.#at === FAILED) return;
    if (byte === COLON) {
      if (this.#name === "") return this.#fail("has a trailer without a name");
      if (FORBIDDEN_TRAILERS.has(this.#name)) {
        return this.#fail(`has the trailer ${this.#name}, which belongs in the head`);
      }
      this.#at = TRAILER_VALUE;
    } else if (TOKEN[byte] !== 1) this.#fail("has a trailer that is no `name: value`");
    else if (this.#name.length <= LONGEST_FORBIDDEN) {
      this.#name += String.fromCharCode(byte >= 65 && byte <= 90 ? byte | 32 : byte);
    }
  }

  #fail(what: string): void {
    this.#failure = what;
    this.#at = FAILED;
  }

  #skip(byte: number, limit: number): void {
    if (byte === LF) return this.#fail("has a bare line feed in its chunk framing");
    if (byte < SPACE && byte !== TAB || byte === 127) {
      return this.#fail("has a control character in its chunk framing");
    }
    if (++this.#skipped > limit) {
      return this.#fail(`has more than ${limit} bytes of extensions or trailers`);
    }
  }
}

function hexValue(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const lower = byte | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}
