import type { Clock } from "../../core/clock.ts";
import { WorkStretch } from "../../core/next_turn.ts";
import type { ByteSocket } from "../../wire/sockets/byte_socket.ts";
import { connectTls } from "../../wire/sockets/tls_socket.ts";
import { ControlRate } from "../../wire/websocket/control_rate.ts";
import {
  CLOSE,
  closeFrame,
  pongFrame,
  textFrame,
  type WebSocketEvent,
} from "../../wire/websocket/frames.ts";
import { handshakeRequest, readHandshake } from "../../wire/websocket/handshake.ts";
import { WebSocketReader } from "../../wire/websocket/reader.ts";

/** What a socket is opened from. */
export interface ClientSocketOptions {
  url: string;
  protocol: string;
  headers: Record<string, string>;
  /** Largest message of the server, in bytes, however many frames it has. */
  maxMessageBytes: number;
  clock: Clock;
  randomBytes(length: number): Uint8Array;
  /** Gives the opening up. */
  signal: AbortSignal;
  onText(text: string): void;
  /** Called once. `problem` says what the server did wrong, null when it did nothing. */
  onEnd(problem: string | null): void;
}

const READ_BYTES = 64 * 1024;
/** Bytes read between two turns of the event loop; a frame counts as at least `FRAME_UNITS`. */
const STRETCH_UNITS = 256 * 1024;
const FRAME_UNITS = 1024;
/** What a server that does not read may leave behind, in bytes. */
const MAX_UNSENT_BYTES = 32 * 1024 * 1024;

/**
 * The client's side of a WebSocket. The runtime's own joins the frames of a message without a bound: a server that never
 * ends a message takes all memory (seen with Deno 2.9.6).
 */
export class ClientSocket {
  readonly #socket: ByteSocket;
  readonly #options: ClientSocketOptions;
  readonly #reader: WebSocketReader;
  readonly #rate = new ControlRate();
  #writing: Promise<void> = Promise.resolve();
  #unsent = 0;
  #isPonging = false;
  #isClosing = false;
  #ended = false;

  private constructor(socket: ByteSocket, options: ClientSocketOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#reader = new WebSocketReader(options.maxMessageBytes, { from: "server" });
  }

  /** Connects and shakes hands. Rejects with the reason; nothing stays open then. */
  static async open(options: ClientSocketOptions): Promise<ClientSocket> {
    const { protocol, headers, signal } = options;
    const url = new URL(options.url);
    const key = options.randomBytes(16).toBase64();
    const request = handshakeRequest({ url, protocol, headers, key });
    const socket = await connect(url, signal);
    const onAbort = () => close(socket);
    signal.addEventListener("abort", onAbort);
    try {
      await writeAll(socket, request);
      let come = new Uint8Array(0);
      const buffer = new Uint8Array(4096);
      for (;;) {
        const count = await socket.read(buffer);
        if (count === null) throw new Error("the connection ended before the answer was whole");
        const longer = new Uint8Array(come.length + count);
        longer.set(come);
        longer.set(buffer.subarray(0, count), come.length);
        come = longer;
        const end = readHandshake(come, { key, protocol });
        if (end < 0) continue;
        const opened = new ClientSocket(socket, options);
        void opened.#read(come.subarray(end));
        return opened;
      }
    } catch (error) {
      close(socket);
      throw signal.aborted ? signal.reason : error;
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Sends a message; resolves once the system has taken it. Rejects when the socket has ended. */
  send(text: string): Promise<void> {
    if (this.#ended || this.#isClosing) return Promise.reject(new Error("The WebSocket has ended"));
    return this.#write(textFrame(text, this.#mask()));
  }

  /** Says goodbye; the end comes when the server has answered, or with `destroy`. */
  close(): void {
    if (this.#ended || this.#isClosing) return;
    this.#isClosing = true;
    this.#write(closeFrame(CLOSE.normal, this.#mask())).catch(() => this.#end(null));
  }

  /** Ends it at once. */
  destroy(): void {
    this.#end(null);
  }

  async #read(first: Uint8Array): Promise<void> {
    const buffer = new Uint8Array(READ_BYTES);
    const stretch = new WorkStretch(STRETCH_UNITS);
    try {
      for (let bytes = first; !this.#ended;) {
        const events = this.#reader.push(bytes);
        for (const event of events) {
          if (!this.#ended) this.#take(event);
          await stretch.spend(FRAME_UNITS);
        }
        await stretch.spend(bytes.length);
        if (this.#ended) return;
        const count = await this.#socket.read(buffer);
        if (count === null) break;
        bytes = buffer.subarray(0, count);
      }
    } catch {
      // The connection broke; the end tells.
    }
    this.#end(null);
  }

  #take(event: WebSocketEvent): void {
    if (event.type !== "text" && !this.#rate.take(this.#options.clock.monotonic())) {
      return this.#end("the server sent too many control frames");
    }
    switch (event.type) {
      case "text":
        return this.#options.onText(event.text);
      case "ping":
        return this.#pong(event.payload);
      case "pong":
        return;
      case "close":
        if (this.#isClosing) return this.#end(null);
        this.#isClosing = true;
        this.#write(closeFrame(CLOSE.normal, this.#mask())).then(
          () => this.#end(null),
          () => this.#end(null),
        );
        return;
      case "failed": {
        const { maxMessageBytes } = this.#options;
        return this.#end(
          event.code === CLOSE.tooBig
            ? `the server sent a frame of more than ${maxMessageBytes} bytes`
            : `the server broke the WebSocket protocol: ${event.reason}`,
        );
      }
    }
  }

  /** One answer at a time: a ping that comes before it has gone out needs none of its own (RFC 6455, 5.5.3). */
  #pong(payload: Uint8Array): void {
    if (this.#isPonging || this.#isClosing) return;
    this.#isPonging = true;
    this.#write(pongFrame(payload, this.#mask())).then(
      () => this.#isPonging = false,
      () => this.#end(null),
    );
  }

  #write(bytes: Uint8Array): Promise<void> {
    this.#unsent += bytes.length;
    if (this.#unsent > MAX_UNSENT_BYTES) {
      this.#end("the server does not read what it is sent");
      return Promise.reject(new Error("The WebSocket has ended"));
    }
    const written = this.#writing.then(() => writeAll(this.#socket, bytes));
    this.#writing = written.then(() => {
      this.#unsent -= bytes.length;
    }, () => this.#end(null));
    return written;
  }

  #mask(): Uint8Array {
    return this.#options.randomBytes(4);
  }

  #end(problem: string | null): void {
    if (this.#ended) return;
    this.#ended = true;
    close(this.#socket);
    this.#options.onEnd(problem);
  }
}

async function connect(url: URL, signal: AbortSignal): Promise<ByteSocket> {
  const tls = url.protocol === "wss:" || url.protocol === "https:";
  const hostname = url.hostname.replace(/^\[|\]$/g, "");
  const port = url.port === "" ? (tls ? 443 : 80) : Number(url.port);
  if (tls) return await connectTls({ hostname, address: hostname, port, signal });
  const socket = await Deno.connect({ hostname, port, signal });
  socket.setNoDelay(true);
  return socket;
}

async function writeAll(socket: ByteSocket, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await socket.write(bytes.subarray(at));
}

function close(socket: ByteSocket): void {
  try {
    socket.close();
  } catch {
    // Closed before; there is nothing left to do.
  }
}
