import { Buffer } from "node:buffer";
import { HubError } from "../core/error.ts";
import type { Span } from "./json_bytes.ts";

const MAX_PART_HEAD = 8 * 1024;
const MAX_VALUE = 1024;
const MAX_PARTS = 1000;
const BOUNDARY =
  /^[A-Za-z0-9'()+_,\-./:=?](?:[A-Za-z0-9'()+_,\-./:=? ]{0,68}[A-Za-z0-9'()+_,\-./:=?])?$/;
const CONTENT_TYPE = /^multipart\/form-data\s*;\s*boundary=(?:"([^"\\]+)"|([^\s;",]+))\s*$/i;
const FIELD = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[ \t]*(.*)$/;
/** In Latin-1, as heads are read: bytes from 0x80 on belong to letters. */
const CONTROL = /[^\P{Cc}\t\n\r\u{80}-\u{9f}]/u;
/** `; name="x"`, `; name=x`, `; filename="x"`, `; filename*=utf-8''x` (RFC 7578, 4.2). */
const PARAMETER = /\s*;\s*(name|filename|filename\*)=(?:"((?:[^"\\]|\\.)*)"|([^\s;",\\]+))/giy;
const DASH = "--";
const CRLF = "\r\n";

/** The boundary of a form's content type. Throws `unsupported_media_type` for another type, `invalid_request` for a boundary that is none. */
export function boundaryOf(contentType: string | null): string {
  const type = (contentType ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
  if (type !== "multipart/form-data") {
    throw new HubError(
      "unsupported_media_type",
      `The request body is ${type.slice(0, 80) || "of no type"}, wanted multipart/form-data`,
    );
  }
  const [, quoted, plain] = CONTENT_TYPE.exec(contentType ?? "") ?? [];
  const boundary = quoted ?? plain ?? "";
  if (!BOUNDARY.test(boundary)) throw malformed("its content type has no boundary that is one");
  return boundary;
}

/**
 * Finds one field of a form (RFC 7578) while its bytes pass, cut anywhere. As strict as clients allow: what two readers
 * could read in two ways is refused, so that nobody behind the hub finds another value than the hub has seen.
 */
export class MultipartScan {
  readonly #name: string;
  readonly #delimiter: Buffer;
  /** Bytes that are not done with, and the place of the first of them in the body. */
  #rest: Buffer = Buffer.alloc(0);
  #restAt = 0;
  #state: "start" | "content" | "value" | "head" | "end" = "start";
  #valueAt = 0;
  #found: { text: string; span: Span } | null = null;
  readonly #names: string[] = [];
  #check: ((name: string) => void) | null = null;

  constructor(boundary: string, name: string) {
    this.#name = name;
    this.#delimiter = Buffer.from(DASH + boundary, "latin1");
  }

  /** The field's text and the place of its bytes in the body; null as long as it has not come whole. */
  get found(): { text: string; span: Span } | null {
    return this.#found;
  }

  /** Calls `check` for the name of each part that has come, and then for each that comes; `push` throws what it throws. */
  watch(check: (name: string) => void): void {
    for (const name of this.#names) check(name);
    this.#check = check;
  }

  /** Takes the next bytes. Throws `invalid_request`. */
  push(bytes: Uint8Array): void {
    const piece = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#rest = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece]);
    while (this.#step());
    // The buffer belongs to the caller, who may keep it for long.
    if (this.#rest.buffer === bytes.buffer) this.#rest = Buffer.from(this.#rest);
  }

  /** The body is over. Throws `invalid_request` when the form is not. */
  end(): void {
    if (this.#state !== "end") throw malformed("it ends before its last boundary");
    if (this.#rest.length > 0 && this.#rest.toString("latin1") !== CRLF) {
      throw malformed("something stands behind its last boundary");
    }
  }

  /** True when there is more to be done with the bytes that have come. */
  #step(): boolean {
    switch (this.#state) {
      case "head":
        return this.#readHead();
      case "end":
        if (this.#rest.length > 2) throw malformed("something stands behind its last boundary");
        return false;
      default:
        return this.#findDelimiter();
    }
  }

  #findDelimiter(): boolean {
    const rest = this.#rest;
    const at = rest.indexOf(this.#delimiter);
    if (at < 0) return this.#waitForDelimiter();
    if (rest.length < at + this.#delimiter.length + 2) return false;
    const isFirst = this.#state === "start";
    const follows = at >= 2 && rest.toString("latin1", at - 2, at) === CRLF;
    if (isFirst ? at > 0 : !follows) {
      throw malformed("a boundary does not stand on a line of its own");
    }
    const next = rest.toString(
      "latin1",
      at + this.#delimiter.length,
      at + this.#delimiter.length + 2,
    );
    if (next !== CRLF && next !== DASH) throw malformed("a boundary is followed by something else");
    if (this.#state === "value") this.#keep(at - 2);
    if (isFirst && next === DASH) throw malformed("it has no parts");
    this.#drop(at + this.#delimiter.length + 2);
    this.#state = next === DASH ? "end" : "head";
    return true;
  }

  /** Keeps what may be the beginning of a delimiter, with the line end before it. */
  #waitForDelimiter(): boolean {
    const needed = this.#delimiter.length + 2;
    if (this.#state === "start") {
      if (this.#rest.length >= needed) throw malformed("it does not begin with its boundary");
    } else if (this.#state === "content") this.#drop(Math.max(0, this.#rest.length - needed));
    else if (this.#rest.length > MAX_VALUE + needed) {
      throw malformed(`its ${this.#name} has more than ${MAX_VALUE} bytes`);
    }
    return false;
  }

  #readHead(): boolean {
    const end = this.#rest.indexOf(CRLF + CRLF);
    if (end > MAX_PART_HEAD || (end < 0 && this.#rest.length > MAX_PART_HEAD)) {
      throw malformed(`the header of a part has more than ${MAX_PART_HEAD} bytes`);
    }
    if (end < 0) return false;
    const name = nameOf(this.#rest.toString("latin1", 0, end), this.#name);
    this.#drop(end + 4);
    this.#note(name);
    if (name !== this.#name) {
      this.#state = "content";
      return true;
    }
    if (this.#found !== null) throw malformed(`it has ${this.#name} twice; it may come once`);
    this.#state = "value";
    this.#valueAt = this.#restAt;
    return true;
  }

  #note(name: string): void {
    if (this.#names.length === MAX_PARTS) throw malformed(`it has more than ${MAX_PARTS} parts`);
    this.#names.push(name);
    this.#check?.(name);
  }

  #keep(length: number): void {
    if (length > MAX_VALUE) throw malformed(`its ${this.#name} has more than ${MAX_VALUE} bytes`);
    let text: string;
    try {
      text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
        .decode(this.#rest.subarray(0, length));
    } catch {
      throw malformed(`its ${this.#name} is not UTF-8`);
    }
    this.#found = { text, span: { from: this.#valueAt, to: this.#valueAt + length } };
  }

  #drop(count: number): void {
    this.#rest = this.#rest.subarray(count);
    this.#restAt += count;
  }
}

/** The name of a part by its header. A part named `wanted` must be plain text, without another header that could change it. */
function nameOf(head: string, wanted: string): string {
  if (CONTROL.test(head)) throw malformed("the header of a part has a control character");
  let disposition: string | null = null;
  let isEncoded = false;
  for (const line of head.split(CRLF)) {
    const value = FIELD.exec(line)?.[1];
    if (value === undefined || /[\r\n]/.test(line)) {
      throw malformed("the header of a part has a line that is no `name: value`");
    }
    const field = line.slice(0, line.indexOf(":")).toLowerCase();
    if (field === "content-transfer-encoding") isEncoded = true;
    if (field !== "content-disposition") continue;
    if (disposition !== null) throw malformed("a part has two Content-Disposition fields");
    disposition = value.trim();
  }
  const names = parametersOf(disposition ?? "");
  const name = names.get("name");
  if (name === undefined || name.includes("\\")) throw malformed("a part has no plain name");
  if (name === wanted && (isEncoded || names.size > 1)) {
    throw malformed(`its ${wanted} is not a plain text field`);
  }
  return name;
}

function parametersOf(disposition: string): Map<string, string> {
  const found = new Map<string, string>();
  const [type = ""] = /^form-data(?=\s*;)/i.exec(disposition) ?? [];
  PARAMETER.lastIndex = type.length;
  for (let end = type.length; type !== "" && end < disposition.length;) {
    const match = PARAMETER.exec(disposition);
    const key = match?.[1]?.toLowerCase();
    if (key === undefined || found.has(key)) return new Map();
    found.set(key, match?.[2] ?? match?.[3] ?? "");
    end = PARAMETER.lastIndex;
  }
  return found;
}

function malformed(why: string): HubError {
  return new HubError("invalid_request", `The form in the request body is refused: ${why}`);
}
