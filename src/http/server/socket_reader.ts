/** The part of a socket that the server needs; `Deno.TcpConn` is such. */
export interface ServerSocket {
  /** Bytes read into the front of `into`, null at the end. */
  read(into: Uint8Array): Promise<number | null>;
  /** Number of bytes taken, at least one. */
  write(bytes: Uint8Array): Promise<number>;
  /** Ends the sending side; the client can still send. */
  closeWrite(): Promise<void>;
  /** Ends pending reads and writes too. */
  close(): void;
}

const BUFFER_BYTES = 4 * 1024;
/** A rest of the buffer smaller than this is not worth a read. */
const LEAST_ROOM = 512;
/** What is read ahead while nobody wants it, before reading pauses. */
const MAX_AHEAD = 64 * 1024;

/**
 * Reads a client's bytes. What was given out is never written to again: reads go on behind it, in a fresh buffer when the
 * rest is too small, so that heads and small bodies need no copy. While a request is answered a read is under way all the
 * time, which sees at once when the client leaves.
 */
export class SocketReader {
  readonly #socket: ServerSocket;
  readonly #onGone: () => void;
  #buffer: Uint8Array = new Uint8Array(BUFFER_BYTES);
  #start = 0;
  #end = 0;
  #reading = false;
  #watching = false;
  #gone = false;
  #wake: ((isThere: boolean) => void) | null = null;

  /** `onGone` is called once, when the client has closed its side or the connection broke. */
  constructor(socket: ServerSocket, onGone: () => void) {
    this.#socket = socket;
    this.#onGone = onGone;
  }

  /** True once no more bytes will come. */
  get gone(): boolean {
    return this.#gone;
  }

  /** Bytes that have come and were not taken. */
  get size(): number {
    return this.#end - this.#start;
  }

  /** The bytes that have come and were not taken. */
  peek(): Uint8Array {
    return this.#buffer.subarray(this.#start, this.#end);
  }

  /** Takes the first `count` bytes. */
  take(count: number): Uint8Array {
    const from = this.#start;
    this.#start += count;
    return this.#buffer.subarray(from, this.#start);
  }

  /** Waits for further bytes; false when none will come. */
  more(): Promise<boolean> {
    if (this.#gone) return Promise.resolve(false);
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#read();
    });
  }

  /** Ends a wait for further bytes as if none would come. */
  giveUp(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.(false);
  }

  /** Reads on by itself, up to a bound, so that a client that leaves is seen. */
  watch(): void {
    this.#watching = true;
    this.#read();
  }

  /** Fills `into` from its place `from`, first with what has come, then past the buffer; false when the client left before it was full. */
  async fill(into: Uint8Array, from: number): Promise<boolean> {
    let at = from;
    for (;;) {
      const come = this.take(Math.min(this.size, into.length - at));
      into.set(come, at);
      at += come.length;
      if (at === into.length) return true;
      // A read that is under way has the next bytes.
      if (!this.#reading) break;
      if (!await this.more()) return false;
    }
    this.#reading = true;
    try {
      while (at < into.length) {
        const count = await this.#socket.read(into.subarray(at));
        if (count === null) break;
        at += count;
      }
    } catch {
      // It is gone, which the length says.
    }
    this.#reading = false;
    if (at < into.length) this.#lose();
    else if (this.#wake !== null) this.#read();
    return at === into.length;
  }

  #read(): void {
    if (this.#reading || this.#gone) return;
    const room = this.#buffer.length - this.#end;
    // A buffer that grew is given up when all of it was taken, so that a connection that waits keeps a small one.
    const isGrown = this.#start === this.#end && this.#buffer.length > BUFFER_BYTES;
    if (room < LEAST_ROOM || isGrown) this.#renew();
    this.#reading = true;
    this.#socket.read(this.#buffer.subarray(this.#end)).then(this.#onRead, this.#onFailure);
  }

  /** A fresh buffer that begins with what was not taken yet. */
  #renew(): void {
    const rest = this.peek();
    const buffer = new Uint8Array(Math.max(BUFFER_BYTES, rest.length * 2));
    buffer.set(rest);
    this.#buffer = buffer;
    this.#start = 0;
    this.#end = rest.length;
  }

  readonly #onRead = (count: number | null) => {
    this.#reading = false;
    if (count === null) return this.#lose();
    this.#end += count;
    const wake = this.#wake;
    if (wake !== null) {
      this.#wake = null;
      wake(true);
    } else if (this.#watching && this.size < MAX_AHEAD) this.#read();
  };

  readonly #onFailure = () => {
    this.#reading = false;
    this.#lose();
  };

  #lose(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#onGone();
    this.giveUp();
  }
}
