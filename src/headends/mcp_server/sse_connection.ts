import {
  type AuthInfo,
  type JSONRPCMessage,
  type MessageExtraInfo,
  type Transport,
} from "@modelcontextprotocol/server";
import type { ByteSource } from "../../http/byte_source.ts";

/** What a client that does not read may leave behind. */
const MAX_QUEUED_BYTES = 8 * 1024 * 1024;
const encoder = new TextEncoder();

/** A client of revision 2024-11-05: the hub's messages on a stream, the client's in posts of their own. */
export class SseConnection implements Transport, ByteSource {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage, extra?: MessageExtraInfo) => void;
  readonly sessionId: string;
  #queue: Uint8Array[] = [];
  #queued = 0;
  #waiting: ((bytes: Uint8Array | null) => void) | null = null;
  #closed = false;

  /** `endpoint` is where the client is to post to. */
  constructor(sessionId: string, endpoint: string) {
    this.sessionId = sessionId;
    this.#put(`event: endpoint\ndata: ${endpoint}\n\n`);
  }

  start(): Promise<void> {
    return Promise.resolve();
  }

  send(message: JSONRPCMessage): Promise<void> {
    if (this.#closed) return Promise.reject(new Error("The client has left"));
    this.#put(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
    return this.#queued > MAX_QUEUED_BYTES ? this.close() : Promise.resolve();
  }

  /** A message that the client has posted. */
  receive(message: JSONRPCMessage, authInfo: AuthInfo): void {
    this.onmessage?.(message, { authInfo });
  }

  close(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    this.#closed = true;
    this.#queue = [];
    this.#waiting?.(null);
    this.onclose?.();
    return Promise.resolve();
  }

  pull(): Promise<Uint8Array | null> {
    const bytes = this.#queue.shift();
    if (bytes !== undefined) {
      this.#queued -= bytes.length;
      return Promise.resolve(bytes);
    }
    if (this.#closed) return Promise.resolve(null);
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  cancel(): void {
    void this.close();
  }

  #put(text: string): void {
    const bytes = encoder.encode(text);
    const waiting = this.#waiting;
    this.#waiting = null;
    if (waiting !== null) return waiting(bytes);
    this.#queue.push(bytes);
    this.#queued += bytes.length;
  }
}
