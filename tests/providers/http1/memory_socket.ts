import type { ByteSocket } from "../../../src/wire/sockets/byte_socket.ts";

/** A socket whose other side has already said everything: each read gives the next piece, then the end. */
export function memorySocket(pieces: readonly Uint8Array[]): ByteSocket & { written: string } {
  const left = pieces.flatMap((piece) => piece.length === 0 ? [] : [piece]);
  let closed = false;
  return {
    written: "",
    read(into) {
      if (closed) return Promise.reject(new Deno.errors.Interrupted("operation canceled"));
      const piece = left[0];
      if (piece === undefined) return Promise.resolve(null);
      const count = Math.min(into.length, piece.length);
      into.set(piece.subarray(0, count));
      if (count === piece.length) left.shift();
      else left[0] = piece.subarray(count);
      return Promise.resolve(count);
    },
    write(bytes) {
      this.written += new TextDecoder("latin1").decode(bytes);
      return Promise.resolve(bytes.length);
    },
    close() {
      closed = true;
    },
  };
}

/** Latin-1 bytes of a text. */
export function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/** The bytes cut at these places (any order, repetitions ignored). */
export function cutAt(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const sorted = [...new Set(places)].sort((a, b) => a - b);
  const pieces: Uint8Array[] = [];
  let from = 0;
  for (const place of [...sorted, bytes.length]) {
    if (place > from) pieces.push(bytes.slice(from, place));
    from = Math.max(from, place);
  }
  return pieces;
}
