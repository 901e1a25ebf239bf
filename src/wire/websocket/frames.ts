import { joinBytes } from "../../core/join_bytes.ts";

/** What a client has said (RFC 6455). `close` and `failed` are the last. */
export type WebSocketEvent =
  | { type: "text"; text: string }
  | { type: "ping"; payload: Uint8Array }
  | { type: "pong" }
  | { type: "close"; code: number }
  | { type: "failed"; code: number; reason: string };

/** Status codes of ends (RFC 6455, 7.4.1). */
export const CLOSE = {
  normal: 1000,
  goingAway: 1001,
  protocol: 1002,
  notText: 1003,
  noStatus: 1005,
  notUtf8: 1007,
  policy: 1008,
  tooBig: 1009,
} as const;

const TEXT = 0x1;
const BINARY = 0x2;
const CLOSING = 0x8;
const PING = 0x9;
const PONG = 0xa;
const MAX_CONTROL_BYTES = 125;
const NO_BYTES = new Uint8Array(0);

interface Frame {
  isLast: boolean;
  opcode: number;
  payload: Uint8Array;
}

/** Reads the frames of a client, which may be cut anywhere. */
export class WebSocketReader {
  readonly #maxBytes: number;
  /** What has come and is not read, joined once it is as much as the next frame has. */
  #come: Uint8Array[] = [];
  #comeBytes = 0;
  #needed = 2;
  #rest: Uint8Array = NO_BYTES;
  #pieces: Uint8Array[] | null = null;
  #size = 0;
  #ended = false;

  /** `maxBytes` bounds a message, however many frames it has. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** What these bytes complete. Nothing is read behind an end. */
  push(bytes: Uint8Array): WebSocketEvent[] {
    const events: WebSocketEvent[] = [];
    if (this.#ended) return events;
    this.#come.push(bytes);
    this.#comeBytes += bytes.length;
    if (this.#comeBytes < this.#needed) return events;
    this.#rest = this.#come.length === 1 ? bytes : joinBytes(this.#come);
    try {
      for (let frame = this.#next(); frame !== null; frame = this.#next()) {
        const event = this.#read(frame);
        if (event !== null) events.push(event);
        if (event?.type === "close") return this.#end(events);
      }
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      events.push({ type: "failed", code: error.code, reason: error.message });
      return this.#end(events);
    }
    this.#come = this.#rest.length === 0 ? [] : [this.#rest];
    this.#comeBytes = this.#rest.length;
    this.#rest = NO_BYTES;
    return events;
  }

  #end(events: WebSocketEvent[]): WebSocketEvent[] {
    this.#ended = true;
    this.#come = [];
    this.#rest = NO_BYTES;
    this.#pieces = null;
    return events;
  }

  #next(): Frame | null {
    const bytes = this.#rest;
    const [first, second] = bytes;
    this.#needed = 2;
    if (first === undefined || second === undefined) return null;
    if ((first & 0x70) !== 0) throw new Violation(CLOSE.protocol, "Reserved bits are set");
    if ((second & 0x80) === 0) throw new Violation(CLOSE.protocol, "A frame is not masked");
    const opcode = first & 0x0f;
    const isLast = (first & 0x80) !== 0;
    const short = second & 0x7f;
    if (opcode >= CLOSING && (short > MAX_CONTROL_BYTES || !isLast)) {
      throw new Violation(CLOSE.protocol, "A control frame is too long or in pieces");
    }
    const start = short < 126 ? 2 : short === 126 ? 4 : 10;
    this.#needed = start;
    if (bytes.length < start) return null;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const length = short < 126
      ? short
      : short === 126
      ? view.getUint16(2)
      : view.getUint32(2) * 2 ** 32 + view.getUint32(6);
    if (length + this.#size > this.#maxBytes) {
      throw new Violation(CLOSE.tooBig, `A message has more than ${this.#maxBytes} bytes`);
    }
    const end = start + 4 + length;
    this.#needed = end;
    if (bytes.length < end) return null;
    const mask = bytes.subarray(start, start + 4);
    const payload = bytes.slice(start + 4, end);
    for (let at = 0; at < length; at++) payload[at] = (payload[at] ?? 0) ^ (mask[at & 3] ?? 0);
    this.#rest = bytes.subarray(end);
    return { isLast, opcode, payload };
  }

  #read({ isLast, opcode, payload }: Frame): WebSocketEvent | null {
    switch (opcode) {
      case PING:
        return { type: "ping", payload };
      case PONG:
        return { type: "pong" };
      case CLOSING:
        return { type: "close", code: closeCode(payload) };
      case BINARY:
        throw new Violation(CLOSE.notText, "A message is binary, wanted text");
      case TEXT:
        if (this.#pieces !== null) {
          throw new Violation(CLOSE.protocol, "A message begins in another one");
        }
        this.#pieces = [];
        break;
      case 0:
        if (this.#pieces === null) {
          throw new Violation(CLOSE.protocol, "A message goes on that has not begun");
        }
        break;
      default:
        throw new Violation(CLOSE.protocol, "A frame has an unknown opcode");
    }
    const pieces = this.#pieces ?? [];
    pieces.push(payload);
    this.#size += payload.length;
    if (!isLast) return null;
    this.#pieces = null;
    this.#size = 0;
    try {
      return {
        type: "text",
        text: new TextDecoder("utf-8", { fatal: true }).decode(joinBytes(pieces)),
      };
    } catch {
      throw new Violation(CLOSE.notUtf8, "A message is not UTF-8");
    }
  }
}

class Violation extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

function closeCode(payload: Uint8Array): number {
  if (payload.length === 0) return CLOSE.noStatus;
  if (payload.length === 1) throw new Violation(CLOSE.protocol, "A close has half a status");
  return ((payload[0] ?? 0) << 8) | (payload[1] ?? 0);
}

/** A text as one frame of a server's. */
export function textFrame(text: string): Uint8Array {
  return frame(TEXT, new TextEncoder().encode(text));
}

/** A ping without a payload. */
export function pingFrame(): Uint8Array {
  return frame(PING, NO_BYTES);
}

/** The answer to a ping. */
export function pongFrame(payload: Uint8Array): Uint8Array {
  return frame(PONG, payload);
}

/** The end, and why. */
export function closeFrame(code: number): Uint8Array {
  return frame(
    CLOSING,
    code === CLOSE.noStatus ? new Uint8Array(0) : new Uint8Array([code >> 8, code & 0xff]),
  );
}

function frame(opcode: number, payload: Uint8Array): Uint8Array {
  const { length } = payload;
  const start = length < 126 ? 2 : length < 65_536 ? 4 : 10;
  const bytes = new Uint8Array(start + length);
  const view = new DataView(bytes.buffer);
  bytes[0] = 0x80 | opcode;
  if (start === 2) bytes[1] = length;
  else if (start === 4) {
    bytes[1] = 126;
    view.setUint16(2, length);
  } else {
    bytes[1] = 127;
    view.setUint32(2, Math.floor(length / 2 ** 32));
    view.setUint32(6, length % 2 ** 32);
  }
  bytes.set(payload, start);
  return bytes;
}
