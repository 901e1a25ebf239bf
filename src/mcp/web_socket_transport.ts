import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { type Clock, doneWithin } from "../core/clock.ts";
import { ClientSocket } from "./web_socket/client_socket.ts";

/** Where a WebSocket leads. */
export interface WebSocketOptions {
  url: string;
  clock: Clock;
  headers: Record<string, string>;
  /** Called with each frame; throws for one that is no message. */
  parse(text: string): JSONRPCMessage;
  maxFrameBytes: number;
  /** Randomness of the frames' masks; default: the runtime's. */
  randomBytes?(length: number): Uint8Array;
}

/** A server that does not take leave is left after this. */
const CLOSE_MS = 2000;

/** Speaks to an MCP server over WebSocket (subprotocol `mcp`), which no revision of the protocol describes and some servers offer. */
export class WebSocketTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #options: WebSocketOptions;
  readonly #stopped = new AbortController();
  #socket: ClientSocket | null = null;
  #problem: string | null = null;
  #isOver = false;
  readonly #over = Promise.withResolvers<void>();

  constructor(options: WebSocketOptions) {
    this.#options = options;
  }

  /** Why it ended, when the server was at fault. */
  get ending(): string | null {
    return this.#problem;
  }

  /** Connects. Rejects with the reason when the server cannot be reached or does not speak WebSocket. */
  async start(): Promise<void> {
    const { url, headers, clock, maxFrameBytes } = this.#options;
    const randomBytes = this.#options.randomBytes ??
      ((length: number) => crypto.getRandomValues(new Uint8Array(length)));
    try {
      const socket = await ClientSocket.open({
        url,
        headers,
        clock,
        randomBytes,
        protocol: "mcp",
        maxMessageBytes: maxFrameBytes,
        signal: this.#stopped.signal,
        onText: (text) => this.#take(text),
        onEnd: (problem) => {
          this.#problem ??= problem;
          this.#end();
        },
      });
      this.#socket = socket;
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new Error(`The WebSocket could not be opened: ${reason || "no reason"}`, { cause });
    }
  }

  /** Sends a message. Rejects when the socket is not open. */
  send(message: JSONRPCMessage): Promise<void> {
    if (this.#socket === null || this.#isOver) {
      return Promise.reject(new Error("The WebSocket is not open"));
    }
    return this.#socket.send(JSON.stringify(message));
  }

  async close(): Promise<void> {
    const socket = this.#socket;
    if (socket === null) this.#stopped.abort(new Error("it was closed while it was opened"));
    if (socket === null || this.#isOver) return;
    socket.close();
    if (!await doneWithin(this.#options.clock, CLOSE_MS, this.#over.promise)) socket.destroy();
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#over.resolve();
    this.onclose?.();
  }

  #take(data: string): void {
    if (this.#isOver) return;
    let message: JSONRPCMessage;
    try {
      message = this.#options.parse(data);
    } catch (error) {
      this.onerror?.(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    this.onmessage?.(message);
  }
}
