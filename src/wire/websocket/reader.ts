import { CLOSE, OPCODE, unmask, type WebSocketEvent } from "./frames.ts";

/** Most frames of a message: empty ones cost the reader time, although they add no byte. */
export const MAX_MESSAGE_FRAMES = 16_384;
const MAX_CONTROL_BYTES = 125;
/** Two bytes, eight of a length, four of a mask. */
const MAX_HEAD_BYTES = 14;
const FIRST_BYTES = 1024;
/** A message's memory above this is given back behind it. */
const KEPT_BYTES = 64 * 1024;

interface Frame {
  isLast: boolean;
  opcode: number;
  /** Bytes of the payload that are still to come, and that have come. */
  left: number;
  come: number;
  mask: Uint8Array | null;
}

/**
 * Reads the frames of the other side, which may be cut anywhere. What has come of a message is kept in one piece of memory
 * that grows with it, so that neither many frames nor many small reads cost more than their bytes.
 */
export class WebSocketReader {
  readonly #maxBytes: number;
  readonly #isMasked: boolean;
  readonly #head = new Uint8Array(MAX_HEAD_BYTES);
  #headBytes = 0;
  readonly #control = new Uint8Array(MAX_CONTROL_BYTES);
  #frame: Frame | null = null;
  #message: Uint8Array = new Uint8Array(0);
  #size = 0;
  /** Frames of the message so far; 0 between messages. */
  #frames = 0;
  #ended = false;

  /** `maxBytes` bounds a message, however many frames it has. The frames of clients are masked, those of servers are not. */
  constructor(maxBytes: number, { from = "client" }: { from?: "client" | "server" } = {}) {
    this.#maxBytes = maxBytes;
    this.#isMasked = from === "client";
  }

  /** What these bytes complete; they are not kept. Nothing is read behind an end. */
  push(bytes: Uint8Array): WebSocketEvent[] {
    const events: WebSocketEvent[] = [];
    try {
      for (let at = 0; at < bytes.length && !this.#ended;) {
        const frame = this.#frame;
        if (frame === null) {
          this.#head[this.#headBytes++] = bytes[at++] ?? 0;
          this.#frame = this.#readHead();
        } else {
          const end = Math.min(bytes.length, at + frame.left);
          this.#take(frame, bytes.subarray(at, end));
          at = end;
        }
        if (this.#frame?.left !== 0) continue;
        const event = this.#finish(this.#frame);
        this.#frame = null;
        if (event === null) continue;
        events.push(event);
        if (event.type === "close") this.#end();
      }
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      events.push({ type: "failed", code: error.code, reason: error.message });
      this.#end();
    }
    return events;
  }

  #end(): void {
    this.#ended = true;
    this.#message = new Uint8Array(0);
  }

  /** The frame whose head has come whole, or null. */
  #readHead(): Frame | null {
    const head = this.#head;
    const [first = 0, second = 0] = head;
    if (this.#headBytes < 2) return null;
    const opcode = first & 0x0f;
    const isLast = (first & 0x80) !== 0;
    const short = second & 0x7f;
    if (this.#headBytes === 2) this.#checkHead(first, second);
    const start = short < 126 ? 2 : short === 126 ? 4 : 10;
    if (this.#headBytes < start) return null;
    const view = new DataView(head.buffer);
    const length = short < 126
      ? short
      : short === 126
      ? view.getUint16(2)
      : view.getUint32(2) * 2 ** 32 + view.getUint32(6);
    if (opcode < OPCODE.close && length + this.#size > this.#maxBytes) {
      throw new Violation(CLOSE.tooBig, `A message has more than ${this.#maxBytes} bytes`);
    }
    const end = this.#isMasked ? start + 4 : start;
    if (this.#headBytes < end) return null;
    this.#headBytes = 0;
    const mask = this.#isMasked ? head.slice(start, end) : null;
    return { isLast, opcode, left: length, come: 0, mask };
  }

  #checkHead(first: number, second: number): void {
    if ((first & 0x70) !== 0) throw new Violation(CLOSE.protocol, "Reserved bits are set");
    if ((second & 0x80) !== 0 !== this.#isMasked) {
      const how = this.#isMasked ? "is not masked" : "is masked";
      throw new Violation(CLOSE.protocol, `A frame ${how}`);
    }
    const opcode = first & 0x0f;
    if (opcode >= OPCODE.close) {
      if ((second & 0x7f) > MAX_CONTROL_BYTES || (first & 0x80) === 0) {
        throw new Violation(CLOSE.protocol, "A control frame is too long or in pieces");
      }
      if (opcode > OPCODE.pong) throw unknownOpcode();
      return;
    }
    if (opcode === OPCODE.binary) {
      throw new Violation(CLOSE.notText, "A message is binary, wanted text");
    }
    if (opcode > OPCODE.binary) throw unknownOpcode();
    const isFirst = opcode === OPCODE.text;
    if (isFirst && this.#frames > 0) {
      throw new Violation(CLOSE.protocol, "A message begins in another one");
    }
    if (!isFirst && this.#frames === 0) {
      throw new Violation(CLOSE.protocol, "A message goes on that has not begun");
    }
    if (++this.#frames > MAX_MESSAGE_FRAMES) {
      throw new Violation(CLOSE.policy, `A message has more than ${MAX_MESSAGE_FRAMES} frames`);
    }
  }

  /** Copies a part of a frame's payload to where it is kept. */
  #take(frame: Frame, part: Uint8Array): void {
    const isControl = frame.opcode >= OPCODE.close;
    const to = isControl ? frame.come : this.#size;
    if (!isControl) this.#reserve(to + part.length);
    const kept = isControl ? this.#control : this.#message;
    kept.set(part, to);
    if (frame.mask !== null) unmask(kept.subarray(to, to + part.length), frame.mask, frame.come);
    frame.come += part.length;
    frame.left -= part.length;
    if (!isControl) this.#size += part.length;
  }

  #reserve(bytes: number): void {
    if (bytes <= this.#message.length) return;
    const doubled = Math.max(bytes, this.#message.length * 2, FIRST_BYTES);
    const larger = new Uint8Array(Math.min(doubled, this.#maxBytes));
    larger.set(this.#message.subarray(0, this.#size));
    this.#message = larger;
  }

  /** What a whole frame says; null for a message that goes on. */
  #finish({ opcode, come, isLast }: Frame): WebSocketEvent | null {
    const payload = this.#control.slice(0, come);
    if (opcode === OPCODE.ping) return { type: "ping", payload };
    if (opcode === OPCODE.pong) return { type: "pong" };
    if (opcode === OPCODE.close) return { type: "close", code: closeCode(payload) };
    if (!isLast) return null;
    const message = this.#message.subarray(0, this.#size);
    this.#size = 0;
    this.#frames = 0;
    if (this.#message.length > KEPT_BYTES) this.#message = new Uint8Array(0);
    try {
      return { type: "text", text: new TextDecoder("utf-8", { fatal: true }).decode(message) };
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

function unknownOpcode(): Violation {
  return new Violation(CLOSE.protocol, "A frame has an unknown opcode");
}

function closeCode(payload: Uint8Array): number {
  if (payload.length === 0) return CLOSE.noStatus;
  if (payload.length === 1) throw new Violation(CLOSE.protocol, "A close has half a status");
  return ((payload[0] ?? 0) << 8) | (payload[1] ?? 0);
}
