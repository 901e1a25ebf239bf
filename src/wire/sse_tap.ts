import { HubError } from "../core/error.ts";
import { joinBytes } from "../core/join_bytes.ts";
import { MAX_SSE_EVENT_BYTES } from "../core/limits.ts";
import type { Usage } from "../core/usage.ts";
import type { ProviderError } from "./errors/read_error.ts";

/** What the tap has seen of a stream so far. */
export interface TapFacts {
  /** Content, reasoning, a tool call, a refusal or an end has come: the attempt may be committed. */
  content: boolean;
  /** The answer has said why it ended, each choice of it. */
  finished: boolean;
  /** The frame that ends a stream has come. */
  done: boolean;
  usage: Usage | null;
  /** Who answers, by its own name, and why each choice has ended; as far as the dialect says so. */
  model: string | null;
  finishReasons: readonly string[];
  /** An error inside the stream; nothing passes from there on. */
  error: ProviderError | null;
  malformedFrames: number;
  bytes: number;
}

/** What the frames of one dialect mean. */
export interface FrameReader {
  /** Whether frames behind the first content, as Latin-1, may carry something that the hub must know. */
  wants(text: string): boolean;
  /** Takes one frame's data and writes down what it says; true when the frame must not reach the client. */
  read(data: string, facts: TapFacts): boolean;
  /** What the client gets in place of a frame, given as Latin-1 and decoded on demand; null where it passes as it came. */
  rewrite?(frame: string, decode: () => string): string | null;
}

const latin1 = new TextDecoder("latin1");
const utf8 = new TextDecoder();
const encoder = new TextEncoder();
const EMPTY = new Uint8Array(0);

/**
 * Watches a stream on its way to the client. Whole frames pass as the very bytes that came; only frames that may
 * carry something the hub must know are parsed. An unfinished frame waits for its end, so the stream can always be
 * ended, or a comment put in, between two frames.
 */
export class SseTap {
  readonly #reader: FrameReader;
  /** The beginning of a frame, in a buffer that doubles: however a frame is cut, its bytes are copied at most three times. */
  #rest: Uint8Array = EMPTY;
  #restLength = 0;
  readonly facts: TapFacts = {
    content: false,
    finished: false,
    done: false,
    usage: null,
    model: null,
    finishReasons: [],
    error: null,
    malformedFrames: 0,
    bytes: 0,
  };

  constructor(reader: FrameReader) {
    this.#reader = reader;
  }

  /** Takes the bytes of one read, gives the frames that pass (may be empty). Throws `upstream_malformed` for an endless frame. */
  push(chunk: Uint8Array): Uint8Array {
    this.facts.bytes += chunk.length;
    const cut = this.#lastBoundary(chunk);
    if (cut === 0) {
      this.#keep(chunk);
      return EMPTY;
    }
    const end = cut === chunk.length ? chunk : chunk.subarray(0, cut);
    let frames = end;
    if (this.#restLength > 0) {
      this.#append(end);
      frames = this.#rest.subarray(0, this.#restLength);
      this.#rest = EMPTY;
      this.#restLength = 0;
    }
    if (cut < chunk.length) this.#keep(chunk.subarray(cut));
    return this.#watch(frames);
  }

  /** The bytes of a last frame that has no end; they are no frame by the rules of SSE and are dropped. */
  get unfinished(): number {
    return this.#restLength;
  }

  /** What is left at the end of a stream that passes to its last byte, looked at like a frame. */
  finish(): Uint8Array {
    const rest = this.#rest.subarray(0, this.#restLength);
    this.#restLength = 0;
    return rest.length === 0 ? EMPTY : this.#watch(rest);
  }

  /** End of the last whole frame in the chunk: the index behind its last blank line, which may begin in the rest. */
  #lastBoundary(chunk: Uint8Array): number {
    for (let at = chunk.length - 1; at >= 0; at--) {
      const byte = chunk[at];
      if (byte !== 0x0a && byte !== 0x0d) continue;
      const before = this.#byteAt(chunk, at - 1);
      if (byte === before) return at + 1;
      if (byte === 0x0a && before === 0x0d && this.#byteAt(chunk, at - 2) === 0x0a) return at + 1;
    }
    return 0;
  }

  /** A byte of the chunk, or with an index below 0 of what came before it. */
  #byteAt(chunk: Uint8Array, at: number): number | undefined {
    return at >= 0 ? chunk[at] : this.#rest[this.#restLength + at];
  }

  #keep(bytes: Uint8Array): void {
    if (this.#restLength + bytes.length > MAX_SSE_EVENT_BYTES) {
      throw new HubError(
        "upstream_malformed",
        `The provider sent an event of more than ${MAX_SSE_EVENT_BYTES} bytes`,
      );
    }
    this.#append(bytes);
  }

  #append(bytes: Uint8Array): void {
    const length = this.#restLength + bytes.length;
    if (length > this.#rest.length) {
      const grown = new Uint8Array(Math.max(length, 2 * this.#restLength));
      grown.set(this.#rest.subarray(0, this.#restLength));
      this.#rest = grown;
    }
    this.#rest.set(bytes, this.#restLength);
    this.#restLength = length;
  }

  #watch(frames: Uint8Array): Uint8Array {
    const text = latin1.decode(frames);
    const look = !this.facts.content || this.#reader.wants(text);
    return look ? this.#inspect(frames, text) : frames;
  }

  /**
   * Parses the frames; cuts out the usage frame when it is not the client's, and an error with all that follows, and puts in
   * what the reader rewrites.
   */
  #inspect(frames: Uint8Array, text: string): Uint8Array {
    let kept: Uint8Array[] | null = null;
    let keptFrom = 0;
    let from = 0;
    while (from < text.length) {
      const to = nextBoundary(text, from);
      const frame = text.slice(from, to);
      const decode = () => utf8.decode(frames.subarray(from, to));
      const data = dataOf(frame, decode);
      const isCut = data !== null && this.#reader.read(data, this.facts);
      const other = isCut ? "" : this.#reader.rewrite?.(frame, decode) ?? null;
      if (other !== null) {
        kept ??= [];
        if (from > keptFrom) kept.push(frames.subarray(keptFrom, from));
        if (other !== "") kept.push(encoder.encode(other));
        keptFrom = this.facts.error === null ? to : frames.length;
      }
      from = Math.max(to, keptFrom);
    }
    if (kept === null) return frames;
    if (keptFrom < frames.length) kept.push(frames.subarray(keptFrom));
    return joinBytes(kept);
  }
}

/** The text of a frame's data lines; null for frames that have neither JSON nor `[DONE]` in them. */
function dataOf(frame: string, decode: () => string): string | null {
  if (!frame.includes("{") && !frame.includes("[DONE]")) return null;
  const lines = decode().split(/\r\n|\n|\r/);
  const data = lines.filter((line) => line.replace(/^\ufeff/, "").startsWith("data:"))
    .map((line) => line.slice(line.indexOf(":") + 1).replace(/^ /, ""));
  return data.join("\n");
}

/** End of the frame that begins at `from`. */
function nextBoundary(text: string, from: number): number {
  const boundary = /\n\n|\r\r|\n\r\n/g;
  boundary.lastIndex = from;
  return boundary.exec(text) === null ? text.length : boundary.lastIndex;
}
