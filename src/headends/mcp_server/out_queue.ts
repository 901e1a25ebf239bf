import type { ByteSource } from "../../http/byte_source.ts";

/** What a client that does not read may leave behind. */
const MAX_QUEUED_BYTES = 8 * 1024 * 1024;
/** A piece costs some 200 bytes besides its own. */
const MAX_QUEUED_PIECES = 16_384;

/** Bytes for a client, as they come up. */
export class OutQueue implements ByteSource {
  readonly #onLeft: () => void;
  #queue: Uint8Array[] = [];
  #queued = 0;
  #waiting: ((bytes: Uint8Array | null) => void) | null = null;
  #ended = false;

  /** `onLeft` is called once, when the client is gone or reads too slowly. */
  constructor(onLeft: () => void) {
    this.#onLeft = onLeft;
  }

  /** Adds bytes; none behind the end. */
  put(bytes: Uint8Array): void {
    if (this.#ended) return;
    const waiting = this.#waiting;
    this.#waiting = null;
    if (waiting !== null) return waiting(bytes);
    this.#queue.push(bytes);
    this.#queued += bytes.length;
    if (this.#queued > MAX_QUEUED_BYTES || this.#queue.length > MAX_QUEUED_PIECES) this.cancel();
  }

  /** Nothing more comes. */
  end(): void {
    this.#ended = true;
    const waiting = this.#waiting;
    this.#waiting = null;
    waiting?.(null);
  }

  pull(): Promise<Uint8Array | null> {
    const bytes = this.#queue.shift();
    if (bytes !== undefined) {
      this.#queued -= bytes.length;
      return Promise.resolve(bytes);
    }
    if (this.#ended) return Promise.resolve(null);
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  cancel(): void {
    this.#queue = [];
    this.#queued = 0;
    if (this.#ended) return;
    this.end();
    this.#onLeft();
  }
}
