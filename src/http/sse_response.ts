import type { Clock, Timer } from "../core/clock.ts";
import type { ByteSource } from "./byte_source.ts";
import { type Reply, streamReply } from "./reply.ts";

/** How a stream of events is sent. */
export interface SseOptions {
  clock: Clock;
  /** Silence after which a comment is sent; 0 for never. 15 s unless told. */
  pingMs?: number;
  /** False when the first bytes come from the frames themselves. */
  open?: boolean;
  headers?: Readonly<Record<string, string>>;
  /** Of frames in other words. */
  contentType?: string | undefined;
}

const DEFAULT_PING_MS = 15_000;
const OPEN = new TextEncoder().encode(": open\n\n");
const PING = new TextEncoder().encode(": ping\n\n");
const NEWLINE = 0x0a;
const RETURN = 0x0d;

/** What keeps proxies from storing, compressing or holding back an event stream. */
export const SSE_HEADERS: Readonly<Record<string, string>> = Object.freeze({
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
});

/** Content type of an event stream (WHATWG HTML, 9.2). */
export const SSE_CONTENT_TYPE = "text/event-stream; charset=utf-8";

/**
 * Frames as an event stream: `: open` at once, `: ping` after each `pingMs` of silence, and a broken connection
 * when the source fails. Pings come only between frames, so the source may be bytes passed through from elsewhere.
 */
export function sseReply(frames: ByteSource, options: SseOptions): Reply {
  return streamReply(new PingedSource(frames, options), {
    contentType: options.contentType ?? SSE_CONTENT_TYPE,
    headers: options.headers === undefined ? SSE_HEADERS : { ...SSE_HEADERS, ...options.headers },
    flush: options.open === false,
  });
}

interface Waiting {
  resolve: (bytes: Uint8Array | null) => void;
  reject: (error: unknown) => void;
}

/** Adds the comments. One timer at a time, set anew only when it fires, so that a frame costs no timer. */
class PingedSource implements ByteSource {
  readonly #frames: ByteSource;
  readonly #clock: Clock;
  readonly #pingMs: number;
  #opened: boolean;
  #timer: Timer | null = null;
  #sentMs: number;
  #betweenFrames = true;
  #pulling = false;
  #ready: { bytes: Uint8Array | null } | { error: unknown } | null = null;
  #waiting: Waiting | null = null;
  #closed = false;

  constructor(frames: ByteSource, options: SseOptions) {
    this.#frames = frames;
    this.#clock = options.clock;
    this.#pingMs = options.pingMs ?? DEFAULT_PING_MS;
    this.#opened = options.open === false;
    this.#sentMs = options.clock.coarse();
  }

  pull(): Promise<Uint8Array | null> {
    this.#sentMs = this.#clock.coarse();
    if (!this.#opened) {
      this.#opened = true;
      return Promise.resolve(OPEN);
    }
    const ready = this.#ready;
    if (ready !== null) {
      this.#ready = null;
      return "error" in ready ? Promise.reject(ready.error) : Promise.resolve(ready.bytes);
    }
    const pulled = new Promise<Uint8Array | null>((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
    this.#arm(this.#pingMs);
    if (!this.#pulling) {
      this.#pulling = true;
      this.#frames.pull().then((bytes) => this.#take(bytes), (error) => this.#fail(error));
    }
    return pulled;
  }

  cancel(reason: unknown): void {
    const isOver = this.#closed;
    this.#close();
    this.#waiting = null;
    if (!isOver) this.#frames.cancel(reason);
  }

  #take(bytes: Uint8Array | null): void {
    this.#pulling = false;
    if (bytes === null) this.#close();
    else if (bytes.length > 0) this.#betweenFrames = endsFrame(bytes);
    const waiting = this.#waiting;
    this.#waiting = null;
    if (waiting === null) this.#ready = { bytes };
    else waiting.resolve(bytes);
  }

  #fail(error: unknown): void {
    this.#pulling = false;
    this.#close();
    const waiting = this.#waiting;
    this.#waiting = null;
    if (waiting === null) this.#ready = { error };
    else waiting.reject(error);
  }

  #arm(delayMs: number): void {
    if (this.#timer !== null || this.#pingMs <= 0 || this.#closed) return;
    this.#timer = this.#clock.setTimer(() => {
      this.#timer = null;
      const waiting = this.#waiting;
      // Nobody waits while the client does not read; its next pull sets the timer again.
      if (waiting === null) return;
      const silentMs = this.#clock.coarse() - this.#sentMs;
      if (silentMs < this.#pingMs) this.#arm(this.#pingMs - silentMs);
      else if (this.#betweenFrames) {
        this.#waiting = null;
        waiting.resolve(PING);
      } else this.#arm(this.#pingMs);
    }, delayMs);
  }

  #close(): void {
    this.#closed = true;
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer);
    this.#timer = null;
  }
}

/** True when the bytes end with an empty line, so that a comment may follow. */
function endsFrame(bytes: Uint8Array): boolean {
  const last = bytes.length - 1;
  if (bytes[last] !== NEWLINE) return false;
  return bytes[last - 1] === NEWLINE || (bytes[last - 1] === RETURN && bytes[last - 2] === NEWLINE);
}
