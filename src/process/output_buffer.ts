import { joinBytes } from "../core/join_bytes.ts";

/** Keeps the beginning and the end of what a program writes, however much that is. */
export class OutputBuffer {
  readonly #half: number;
  readonly #head: Uint8Array[] = [];
  #tail: Uint8Array[] = [];
  #headBytes = 0;
  #tailBytes = 0;
  #bytes = 0;

  /** `maxBytes` are kept, one half of the beginning and one of the end. */
  constructor(maxBytes: number) {
    this.#half = Math.ceil(maxBytes / 2);
  }

  /** How much was written. */
  get bytes(): number {
    return this.#bytes;
  }

  add(chunk: Uint8Array): void {
    this.#bytes += chunk.length;
    const room = this.#half - this.#headBytes;
    if (room > 0) {
      const part = chunk.subarray(0, room);
      this.#head.push(part);
      this.#headBytes += part.length;
    }
    if (chunk.length <= room) return;
    const rest = room > 0 ? chunk.subarray(room) : chunk;
    this.#tail.push(rest);
    this.#tailBytes += rest.length;
    if (this.#tailBytes < 2 * this.#half) return;
    const kept = joinBytes(this.#tail).slice(-this.#half);
    this.#tail = [kept];
    this.#tailBytes = kept.length;
  }

  /** What was kept as text, with a line where something is left out. */
  text(): string {
    const tail = joinBytes(this.#tail).subarray(-this.#half);
    const left = this.#bytes - this.#headBytes - tail.length;
    if (left === 0) return decode([...this.#head, tail]);
    return `${decode(this.#head)}\n[… ${left} bytes are left out here …]\n${decode([tail])}`;
  }
}

function decode(pieces: Uint8Array[]): string {
  return new TextDecoder().decode(joinBytes(pieces));
}
