import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as startTls, type TLSSocket } from "node:tls";
import type { ByteSocket } from "./byte_socket.ts";

/** Where and how to connect. */
export interface TlsOptions {
  /** What the certificate must be for. */
  hostname: string;
  /** Where the socket goes. */
  address: string;
  port: number;
  signal: AbortSignal;
  /** Certificates (PEM) to trust; without them those of the runtime (`DENO_CERT`, `DENO_TLS_CA_STORE`). */
  caCerts?: string[];
}

/** Bytes that wait for a read before the socket is told to stop. */
const MAX_WAITING = 64 * 1024;
/** Bytes handed to the socket at a time, so that a large body is not encrypted into memory at once. */
const MAX_WRITE = 64 * 1024;

/**
 * Opens a TLS connection and waits for its handshake; HTTP/1.1 is offered by ALPN. It stands on `node:tls` since
 * `Deno.TlsConn` keeps its socket open after `close()` for as long as the other side stalls, in the handshake and in the
 * middle of a write (seen with Deno 2.9.6); and it needs half the memory. Rejects with the runtime's error.
 * A connection that ends without TLS's own farewell reads as ended, so that a body which only the end delimits can be cut
 * unseen here; what the body says about its own end has to tell.
 */
export function connectTls(options: TlsOptions): Promise<ByteSocket> {
  const { hostname, address, port, signal, caCerts } = options;
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const tcp = connectTcp({ host: address, port, noDelay: true });
    let secure: TLSSocket | null = null;
    const onAbort = () => fail(signal.reason);
    const onClose = () => fail(new Error("the connection was closed in the handshake"));
    const settle = () => {
      signal.removeEventListener("abort", onAbort);
      for (const socket of [tcp, secure]) {
        socket?.off("error", fail).off("close", onClose);
        // Errors of a socket that nobody waits for any more.
        socket?.on("error", () => {});
      }
    };
    const fail = (error: unknown) => {
      settle();
      secure?.destroy();
      tcp.destroy();
      reject(error);
    };
    signal.addEventListener("abort", onAbort);
    tcp.on("error", fail).on("close", onClose).on("connect", () => {
      const wrapped = startTls({
        socket: tcp,
        host: hostname,
        ALPNProtocols: ["http/1.1"],
        // Said here, so that no environment variable (NODE_TLS_REJECT_UNAUTHORIZED) can switch it off.
        rejectUnauthorized: true,
        // The name for SNI; an address has no place there (RFC 6066, 3).
        ...(isIP(hostname) === 0 ? { servername: hostname } : {}),
        ...(caCerts === undefined ? {} : { ca: caCerts }),
      });
      secure = wrapped;
      wrapped.on("error", fail).on("close", onClose).on("secureConnect", () => {
        settle();
        resolve(new TlsByteSocket(wrapped, tcp));
      });
    });
  });
}

/**
 * Switches reading from a TCP socket on or off. Pausing the TLS stream above it does neither hold the other side back
 * nor give everything back when it goes on (seen with Deno 2.9.6), so this asks the socket's handle, which is no public
 * part of it; the test about a reader that does not read watches over it.
 */
function switchReading(tcp: Socket, on: boolean): void {
  const handle: unknown = Reflect.get(tcp, "_handle");
  if (typeof handle !== "object" || handle === null) return;
  const change: unknown = Reflect.get(handle, on ? "readStart" : "readStop");
  if (typeof change === "function") change.call(handle);
}

interface WaitingRead {
  into: Uint8Array;
  resolve(count: number | null): void;
  reject(error: unknown): void;
}

/** A TLS socket that is read on demand: the other side is held back while more waits than a reader takes. */
class TlsByteSocket implements ByteSocket {
  readonly #socket: TLSSocket;
  readonly #tcp: Socket;
  #stopped = false;
  #pieces: Uint8Array[] = [];
  #waiting = 0;
  #reader: WaitingRead | null = null;
  #ended = false;
  #error: unknown = null;

  constructor(socket: TLSSocket, tcp: Socket) {
    this.#socket = socket;
    this.#tcp = tcp;
    socket.on("data", (piece: Uint8Array) => {
      this.#pieces.push(piece);
      this.#waiting += piece.length;
      if (this.#reader !== null) this.#give(this.#reader);
      if (this.#waiting > MAX_WAITING && !this.#stopped) {
        this.#stopped = true;
        switchReading(tcp, false);
      }
    });
    socket.on("end", () => {
      this.#ended = true;
      this.#finish();
    });
    socket.on("error", (error: unknown) => {
      this.#error ??= error;
      this.#finish();
    });
    socket.on("close", () => {
      if (!this.#ended) this.#error ??= new Error("the connection was closed");
      this.#finish();
    });
  }

  read(into: Uint8Array): Promise<number | null> {
    return new Promise((resolve, reject) => {
      const reader = { into, resolve, reject };
      if (this.#waiting > 0) this.#give(reader);
      else if (this.#error !== null) reject(this.#error);
      else if (this.#ended) resolve(null);
      else this.#reader = reader;
    });
  }

  write(bytes: Uint8Array): Promise<number> {
    const part = bytes.length > MAX_WRITE ? bytes.subarray(0, MAX_WRITE) : bytes;
    return new Promise((resolve, reject) => {
      this.#socket.write(part, (error) => {
        if (error === undefined || error === null) resolve(part.length);
        else reject(error);
      });
    });
  }

  close(): void {
    this.#error ??= new Error("the connection was closed here");
    this.#pieces = [];
    this.#waiting = 0;
    this.#socket.destroy();
    this.#tcp.destroy();
    this.#finish();
  }

  #give(reader: WaitingRead): void {
    this.#reader = null;
    const { into } = reader;
    let count = 0;
    while (count < into.length) {
      const piece = this.#pieces[0];
      if (piece === undefined) break;
      const taken = Math.min(piece.length, into.length - count);
      into.set(taken < piece.length ? piece.subarray(0, taken) : piece, count);
      count += taken;
      if (taken === piece.length) this.#pieces.shift();
      else this.#pieces[0] = piece.subarray(taken);
    }
    this.#waiting -= count;
    if (this.#waiting <= MAX_WAITING && this.#stopped) {
      this.#stopped = false;
      switchReading(this.#tcp, true);
    }
    reader.resolve(count);
  }

  #finish(): void {
    const reader = this.#reader;
    if (reader === null) return;
    this.#reader = null;
    if (this.#error !== null) reader.reject(this.#error);
    else reader.resolve(null);
  }
}
