import type {
  AuthInfo,
  JSONRPCMessage,
  MessageExtraInfo,
  Transport,
} from "@modelcontextprotocol/server";
import type { ByteSource } from "../../http/byte_source.ts";
import { OutQueue } from "./out_queue.ts";

const encoder = new TextEncoder();

/** A client of revision 2024-11-05: the hub's messages on a stream, the client's in posts of their own. */
export class SseConnection implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage, extra?: MessageExtraInfo) => void;
  readonly sessionId: string;
  readonly #out = new OutQueue(() => this.#end());
  #ended = false;

  /** `endpoint` is where the client is to post to. */
  constructor(sessionId: string, endpoint: string) {
    this.sessionId = sessionId;
    this.#out.put(encoder.encode(`event: endpoint\ndata: ${endpoint}\n\n`));
  }

  /** What is sent to the client. */
  get events(): ByteSource {
    return this.#out;
  }

  start(): Promise<void> {
    return Promise.resolve();
  }

  send(message: JSONRPCMessage): Promise<void> {
    if (this.#ended) return Promise.reject(new Error("The client has left"));
    this.#out.put(encoder.encode(`event: message\ndata: ${JSON.stringify(message)}\n\n`));
    return Promise.resolve();
  }

  /** A message that the client has posted. */
  receive(message: JSONRPCMessage, authInfo: AuthInfo): void {
    this.onmessage?.(message, { authInfo });
  }

  close(): Promise<void> {
    this.#out.end();
    this.#end();
    return Promise.resolve();
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.onclose?.();
  }
}
