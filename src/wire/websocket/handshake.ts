import { createHash } from "node:crypto";
import { CONNECTION_HEADERS } from "../../core/connection_headers.ts";
import { findBlankLine, latin1, MalformedHead, parseFields } from "../http1/header_fields.ts";

/** Largest head of a server's answer, in bytes. */
export const MAX_ANSWER_HEAD = 16 * 1024;
const MAX_FIELDS = 100;
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** What a server answers to the `sec-websocket-key` of a handshake. */
export function acceptOf(key: string): string {
  return createHash("sha1").update(key + GUID).digest("base64");
}

/** What a client asks for. */
export interface HandshakeRequest {
  url: URL;
  protocol: string;
  headers: Record<string, string>;
  /** 16 random bytes in base64. */
  key: string;
}

/** The request of a WebSocket's opening (RFC 6455, 4.1). Throws `TypeError` for header fields that are none. */
export function handshakeRequest({ url, protocol, headers, key }: HandshakeRequest): Uint8Array {
  const lines = [
    `GET ${url.pathname}${url.search} HTTP/1.1`,
    `host: ${url.host}`,
    "connection: Upgrade",
    "upgrade: websocket",
    "sec-websocket-version: 13",
    `sec-websocket-key: ${key}`,
    `sec-websocket-protocol: ${protocol}`,
  ];
  for (const [name, value] of new Headers(headers)) {
    const isOwn = CONNECTION_HEADERS.has(name) || name.startsWith("sec-websocket-");
    if (!isOwn) lines.push(`${name}: ${value}`);
  }
  const text = `${lines.join("\r\n")}\r\n\r\n`;
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/**
 * Reads the server's answer from the front of `bytes`: where the frames behind it begin, or -1 while the head is not
 * whole. Throws an error that says why the WebSocket was not opened.
 */
export function readHandshake(
  bytes: Uint8Array,
  { key, protocol }: Pick<HandshakeRequest, "key" | "protocol">,
): number {
  const end = findBlankLine(bytes, 0);
  if (end > MAX_ANSWER_HEAD || (end < 0 && bytes.length >= MAX_ANSWER_HEAD)) {
    throw new Error(`the head of the answer is larger than ${MAX_ANSWER_HEAD} bytes`);
  }
  if (end < 0) return -1;
  const line = /^HTTP\/1\.1 (\d{3})(?: [^\r\n]*)?\r\n/.exec(latin1(bytes, 0, Math.min(end, 200)));
  const status = line?.[1];
  if (line === null || status === undefined) throw new Error("the answer is no HTTP/1.1");
  if (status !== "101") throw new Error(`the server answered with status ${status}`);
  const fields = fieldsOf(bytes.subarray(0, end), line[0].length);
  const accept = acceptOf(key);
  if (fields.get("upgrade")?.toLowerCase() !== "websocket") {
    throw new Error("the answer upgrades to something else");
  }
  if (fields.get("sec-websocket-accept") !== accept) {
    throw new Error("the answer has no fitting sec-websocket-accept");
  }
  if (fields.get("sec-websocket-extensions") !== null) {
    throw new Error("the answer has extensions that were not asked for");
  }
  const chosen = fields.get("sec-websocket-protocol");
  if (chosen !== null && chosen !== protocol) {
    throw new Error("the answer has a subprotocol that was not asked for");
  }
  return end;
}

function fieldsOf(head: Uint8Array, from: number) {
  try {
    return parseFields(head, { from, maxFields: MAX_FIELDS });
  } catch (error) {
    throw error instanceof MalformedHead
      ? new Error(`the head of the answer ${error.message}`)
      : error;
  }
}
