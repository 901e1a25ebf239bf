import { HubError } from "../../core/error.ts";
import type { ByteSocket } from "../../wire/sockets/byte_socket.ts";

/** Told when a connection ends. */
export interface ConnectionOwner {
  /** It was closed, by whichever side; called once. */
  closed(connection: Connection): void;
  /** While parked it ended, or sent bytes that nobody asked for. It is closed already. */
  lost(connection: Connection): void;
}

const SMALLEST = 4 * 1024;
const LARGEST = 64 * 1024;
/** A rest of the buffer smaller than this is not worth a read. */
const LEAST_ROOM = 512;
/** A buffer filled by more reads than this is larger than the traffic needs. */
const MANY_READS = 8;

/**
 * A socket and the buffer it reads into. Making a buffer costs more than a small read, so one buffer serves many reads:
 * each piece is a view that is never written to again, and a fresh buffer is made when the rest is too small. Buffers grow
 * while reads fill them whole and shrink again, so that thousands of slow streams stay at 4 KiB each.
 */
export class Connection {
  /** Name of the pool it belongs to. */
  readonly key: string;
  /** It has carried an exchange before. */
  reused = false;
  /** Monotonic time until which it may lie idle, in milliseconds. */
  idleUntilMs = 0;
  readonly #socket: ByteSocket;
  readonly #owner: ConnectionOwner;
  #buffer: Uint8Array = new Uint8Array(SMALLEST);
  #from = 0;
  #size = SMALLEST;
  #reads = 0;
  #view: Uint8Array = this.#buffer;
  #pending: Promise<number | null> | null = null;
  #closed = false;

  constructor(socket: ByteSocket, options: { key: string; owner: ConnectionOwner }) {
    this.#socket = socket;
    this.key = options.key;
    this.#owner = options.owner;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Writes everything; rejects with the socket's error. */
  async write(bytes: Uint8Array): Promise<void> {
    let at = await this.#socket.write(bytes);
    while (at < bytes.length) at += await this.#socket.write(bytes.subarray(at));
  }

  /**
   * Starts a read, or joins the one that began when the connection was parked. Give the count to `taken`; null is the
   * end. `wanted` is a hint of how much will come. One read at a time.
   */
  read(wanted = 0): Promise<number | null> {
    const pending = this.#pending;
    if (pending !== null) {
      this.#pending = null;
      return pending;
    }
    const room = this.#buffer.length - this.#from;
    if (room < LEAST_ROOM || (wanted > room && room < LARGEST)) this.#renew(wanted);
    this.#view = this.#from === 0 ? this.#buffer : this.#buffer.subarray(this.#from);
    return this.#socket.read(this.#view);
  }

  /** The bytes of the read that has just given this count. */
  taken(count: number): Uint8Array {
    const view = this.#view;
    if (view.length < count) {
      throw new HubError("internal_error", "A buffer of the upstream connection was transferred");
    }
    this.#reads++;
    this.#from += count;
    if (count < view.length) return view.subarray(0, count);
    if (this.#reads === 1) this.#size = Math.min(LARGEST, this.#size * 4);
    return view;
  }

  /**
   * Makes it wait for its next exchange, with a read already under way: that read sees at once when the other side
   * closes, and later becomes the read of the next answer.
   */
  park(): void {
    this.reused = true;
    this.#size = SMALLEST;
    if (this.#buffer.length > SMALLEST) this.#renew(0);
    this.#pending = this.read();
    this.#pending.then(this.#onParkedRead, this.#onParkedRead);
  }

  /** Closes the socket at once; idempotent. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#socket.close();
    this.#owner.closed(this);
  }

  readonly #onParkedRead = () => {
    // Not pending any more: an exchange has joined the read.
    if (this.#pending === null) return;
    this.#pending = null;
    if (this.#closed) return;
    this.close();
    this.#owner.lost(this);
  };

  #renew(wanted: number): void {
    if (this.#reads > MANY_READS) this.#size = Math.max(SMALLEST, this.#size / 4);
    const length = Math.max(this.#size, Math.min(wanted, LARGEST));
    this.#buffer = new Uint8Array(length);
    this.#from = 0;
    this.#reads = 0;
  }
}
