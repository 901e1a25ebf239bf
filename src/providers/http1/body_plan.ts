import { HubError } from "../../core/error.ts";
import type { HeaderFields } from "../../wire/http1/header_fields.ts";
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

/** Decides how to read the body. Throws `upstream_malformed` for lengths and codings that do not go together. */
export function planBody(head: ResponseHead, method: string): BodyPlan {
  const { fields } = head;
  const transfer = fields.get("transfer-encoding");
  const length = fields.get("content-length");
  const keep = head.minor === 1 && !asksToClose(fields);
  if (transfer !== null && length !== null) {
    throw malformedBody("has both transfer-encoding and content-length");
  }
  if (length !== null && fields.isRepeated("content-length")) {
    throw malformedBody("has more than one content-length");
  }
  if (length !== null && !/^\d{1,15}$/.test(length)) {
    throw malformedBody(`has the content-length ${JSON.stringify(length.slice(0, 40))}, no number`);
  }
  if (transfer !== null && (head.minor === 0 || !isChunked(fields, transfer))) {
    throw malformedBody("has a transfer-encoding other than chunked");
  }
  if (method === "HEAD" || head.status === 304) {
    return { framing: { kind: "none" }, keep, coding: null };
  }
  if (head.status === 204) {
    // A body has no place here; when a length claims one, nobody knows what comes next on this connection.
    const clear = transfer === null && (length === null || Number(length) === 0);
    return { framing: { kind: "none" }, keep: keep && clear, coding: null };
  }
  const coding = contentCoding(head);
  if (transfer !== null) return { framing: { kind: "chunked" }, keep, coding };
  if (length === null) return { framing: { kind: "close" }, keep: false, coding };
  const size = Number(length);
  const framing: Framing = size === 0 ? { kind: "none" } : { kind: "length", length: size };
  return { framing, keep, coding };
}

function contentCoding({ fields }: ResponseHead): string | null {
  if (fields.get("content-encoding") === null) return null;
  const coding = fields.all("content-encoding").join(",").trim().toLowerCase();
  return coding === "" || coding === "identity" ? null : coding;
}

function asksToClose(fields: HeaderFields): boolean {
  if (fields.get("connection") === null) return false;
  return /(^|,)\s*close\s*(,|$)/.test(fields.all("connection").join(",").toLowerCase());
}

function isChunked(fields: HeaderFields, transfer: string): boolean {
  return transfer.toLowerCase() === "chunked" && !fields.isRepeated("transfer-encoding");
}

/** The error of a body whose framing breaks. */
export function malformedBody(what: string): HubError {
  return new HubError("upstream_malformed", `The upstream's answer ${what}`);
}
