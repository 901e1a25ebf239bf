import { HubError } from "../../core/error.ts";
import type { ResponseHead } from "./response_head.ts";

/** How the end of a body is known (RFC 9112, 6.3). */
export type Framing =
  | { kind: "none" }
  | { kind: "length"; length: number }
  | { kind: "chunked" }
  | { kind: "close" };

/** A field of the head that decides more than its value. */
export interface BodyPlan {
  framing: Framing;
  /** The connection may carry another request. */
  keep: boolean;
  /** Coding of the content, in lower case; null for none. */
  coding: string | null;
}

/** Longest line of a chunk's size with its extensions, and all trailers together, in bytes. */
export const MAX_CHUNK_LINE = 4096;
export const MAX_TRAILER_BYTES = 16 * 1024;

const CR = 13;
const LF = 10;

/** Decides how to read the body. Throws `upstream_malformed` for lengths and codings that do not go together. */
export function planBody(head: ResponseHead, method: string): BodyPlan {
  const codings = head.all("transfer-encoding");
  const lengths = head.all("content-length");
  const connection = head.all("connection").join(",").toLowerCase();
  const keep = head.minor === 1 && !(connection !== "" && /(^|,)\s*close\s*(,|$)/.test(connection));
  if (codings.length > 0 && lengths.length > 0) {
    throw malformed("has both transfer-encoding and content-length");
  }
  if (lengths.length > 1) throw malformed("has more than one content-length");
  const [lengthText] = lengths;
  if (lengthText !== undefined && !/^\d{1,15}$/.test(lengthText)) {
    throw malformed(`has the content-length ${JSON.stringify(lengthText.slice(0, 40))}, no number`);
  }
  if (codings.length > 0 && (head.minor === 0 || codings.join(",").toLowerCase() !== "chunked")) {
    throw malformed("has a transfer-encoding other than chunked");
  }
  if (method === "HEAD" || head.status === 304) return { framing: { kind: "none" }, keep, coding: null };
  if (head.status === 204) {
    // A body has no place here; when a length claims one, nobody knows what comes next on this connection.
    const clear = codings.length === 0 && (lengthText === undefined || Number(lengthText) === 0);
    return { framing: { kind: "none" }, keep: keep && clear, coding: null };
  }
  const coding = contentCoding(head);
  if (codings.length > 0) return { framing: { kind: "chunked" }, keep, coding };
  if (lengthText === undefined) return { framing: { kind: "close" }, keep: false, coding };
  const length = Number(lengthText);
  return { framing: length === 0 ? { kind: "none" } : { kind: "length", length }, keep, coding };
}

function contentCoding(head: ResponseHead): string | null {
  const coding = head.all("content-encoding").join(",").trim().toLowerCase();
  return coding === "" || coding === "identity" ? null : coding;
}

/** Where a chunked body stands between two pieces. */
const enum At {
  Size,
  Extension,
  SizeLf,
  Data,
  DataCr,
  DataLf,
  TrailerStart,
  Trailer,
  TrailerLf,
  EndLf,
  Done,
}

/** Takes the chunk framing off (RFC 9112, 7.1). Extensions and trailers are passed over, within bounds. */
export class ChunkedBody {
  #at: At = At.Size;
  /** Bytes of the current chunk that are still to come. */
  #left = 0;
  #digits = 0;
  #skipped = 0;
  #rest = 0;

  /** The last chunk and its trailers have come. */
  get done(): boolean {
    return this.#at === At.Done;
  }

  /** Bytes of the last piece that came behind the end. */
  get surplus(): number {
    return this.#rest;
  }

  /**
   * The payload in `piece`, as a view of it. Several chunks are moved together inside `piece`; a single one is not
   * touched. Throws `upstream_malformed`.
   */
  push(piece: Uint8Array): Uint8Array {
    let from = -1;
    let to = -1;
    let i = 0;
    const end = piece.length;
    while (i < end && this.#at !== At.Done) {
      if (this.#at === At.Data) {
        const count = Math.min(end - i, this.#left);
        if (from < 0) from = i;
        else if (to !== i) piece.copyWithin(to, i, i + count);
        to = (to < 0 ? from : to) + count;
        i += count;
        this.#left -= count;
        if (this.#left === 0) this.#at = At.DataCr;
      } else this.#step(piece[i++] ?? 0);
    }
    this.#rest = end - i;
    return from < 0 ? piece.subarray(0, 0) : piece.subarray(from, to);
  }

  #step(byte: number): void {
    switch (this.#at) {
      case At.Size: {
        const value = hexValue(byte);
        if (value >= 0) {
          // 12 digits are 2^48 bytes: below what a number holds exactly, above any body.
          if (++this.#digits > 12) throw malformed("has a chunk size out of bounds");
          this.#left = this.#left * 16 + value;
          return;
        }
        if (this.#digits === 0) throw malformed("has a chunk without a size");
        this.#skipped = 0;
        if (byte === CR) this.#at = At.SizeLf;
        else if (byte === 59 || byte === 32 || byte === 9) this.#at = At.Extension;
        else throw malformed("has a chunk size that is no hexadecimal number");
        return;
      }
      case At.Extension:
        if (byte === CR) this.#at = At.SizeLf;
        else this.#skip(byte, MAX_CHUNK_LINE);
        return;
      case At.SizeLf:
        want(byte, LF);
        this.#digits = 0;
        this.#skipped = 0;
        this.#at = this.#left === 0 ? At.TrailerStart : At.Data;
        return;
      case At.DataCr:
        want(byte, CR);
        this.#at = At.DataLf;
        return;
      case At.DataLf:
        want(byte, LF);
        this.#at = At.Size;
        return;
      case At.TrailerStart:
        if (byte === CR) this.#at = At.EndLf;
        else {
          this.#at = At.Trailer;
          this.#skip(byte, MAX_TRAILER_BYTES);
        }
        return;
      case At.Trailer:
        if (byte === CR) this.#at = At.TrailerLf;
        else this.#skip(byte, MAX_TRAILER_BYTES);
        return;
      case At.TrailerLf:
        want(byte, LF);
        this.#at = At.TrailerStart;
        return;
      case At.EndLf:
        want(byte, LF);
        this.#at = At.Done;
        return;
      default:
    }
  }

  #skip(byte: number, limit: number): void {
    if (byte === LF) throw malformed("has a bare line feed in its chunk framing");
    if (++this.#skipped > limit) throw malformed(`has more than ${limit} bytes of extensions or trailers`);
  }
}

function hexValue(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const lower = byte | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}

function want(byte: number, wanted: number): void {
  if (byte !== wanted) throw malformed("has chunks whose sizes do not fit their bytes");
}

function malformed(what: string): HubError {
  return new HubError("upstream_malformed", `The upstream's answer ${what}`);
}
