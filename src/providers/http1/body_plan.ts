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

/** Decides how to read the body. Throws `upstream_malformed` for lengths and codings that do not go together. */
export function planBody(head: ResponseHead, method: string): BodyPlan {
  const codings = head.fields.all("transfer-encoding");
  const lengths = head.fields.all("content-length");
  const connection = head.fields.all("connection").join(",").toLowerCase();
  const keep = head.minor === 1 && !(connection !== "" && /(^|,)\s*close\s*(,|$)/.test(connection));
  if (codings.length > 0 && lengths.length > 0) {
    throw malformedBody("has both transfer-encoding and content-length");
  }
  if (lengths.length > 1) throw malformedBody("has more than one content-length");
  const [lengthText] = lengths;
  if (lengthText !== undefined && !/^\d{1,15}$/.test(lengthText)) {
    throw malformedBody(
      `has the content-length ${JSON.stringify(lengthText.slice(0, 40))}, no number`,
    );
  }
  if (codings.length > 0 && (head.minor === 0 || codings.join(",").toLowerCase() !== "chunked")) {
    throw malformedBody("has a transfer-encoding other than chunked");
  }
  if (method === "HEAD" || head.status === 304) {
    return { framing: { kind: "none" }, keep, coding: null };
  }
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
  const coding = head.fields.all("content-encoding").join(",").trim().toLowerCase();
  return coding === "" || coding === "identity" ? null : coding;
}

/** The error of a body whose framing breaks. */
export function malformedBody(what: string): HubError {
  return new HubError("upstream_malformed", `The upstream's answer ${what}`);
}
