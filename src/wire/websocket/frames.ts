/** What the other side has said (RFC 6455). `close` and `failed` are the last. */
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

/** Kinds of frames (RFC 6455, 5.2). */
export const OPCODE = {
  continuation: 0x0,
  text: 0x1,
  binary: 0x2,
  close: 0x8,
  ping: 0x9,
  pong: 0xa,
} as const;

const NO_BYTES = new Uint8Array(0);

/** A text as one frame of a server's, or of a client's when it has a mask of 4 bytes. */
export function textFrame(text: string, mask?: Uint8Array): Uint8Array {
  return frame(OPCODE.text, new TextEncoder().encode(text), mask);
}

/** A ping without a payload. */
export function pingFrame(): Uint8Array {
  return frame(OPCODE.ping, NO_BYTES);
}

/** The answer to a ping. */
export function pongFrame(payload: Uint8Array, mask?: Uint8Array): Uint8Array {
  return frame(OPCODE.pong, payload, mask);
}

/** The end, and why. */
export function closeFrame(code: number, mask?: Uint8Array): Uint8Array {
  const payload = code === CLOSE.noStatus ? NO_BYTES : new Uint8Array([code >> 8, code & 0xff]);
  return frame(OPCODE.close, payload, mask);
}

function frame(opcode: number, payload: Uint8Array, mask?: Uint8Array): Uint8Array {
  const { length } = payload;
  const size = length < 126 ? 2 : length < 65_536 ? 4 : 10;
  const start = mask === undefined ? size : size + 4;
  const bytes = new Uint8Array(start + length);
  const view = new DataView(bytes.buffer);
  const masked = mask === undefined ? 0 : 0x80;
  bytes[0] = 0x80 | opcode;
  if (size === 2) bytes[1] = masked | length;
  else if (size === 4) {
    bytes[1] = masked | 126;
    view.setUint16(2, length);
  } else {
    bytes[1] = masked | 127;
    view.setUint32(2, Math.floor(length / 2 ** 32));
    view.setUint32(6, length % 2 ** 32);
  }
  bytes.set(payload, start);
  if (mask !== undefined) {
    bytes.set(mask.subarray(0, 4), size);
    unmask(bytes.subarray(start), mask, 0);
  }
  return bytes;
}

/** Puts a mask on bytes, or takes it off, in place; `at` is how many bytes of the payload came before these. */
export function unmask(bytes: Uint8Array, mask: Uint8Array, at: number): void {
  for (let i = 0; i < bytes.length; i++) {
    bytes[i] = (bytes[i] ?? 0) ^ (mask[(at + i) & 3] ?? 0);
  }
}
