import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { type Clock, doneWithin } from "../core/clock.ts";

/** Where a WebSocket leads. */
export interface WebSocketOptions {
  url: string;
  clock: Clock;
  headers: Record<string, string>;
  /** Called with each frame; throws for one that is no message. */
  parse(text: string): JSONRPCMessage;
  maxFrameBytes: number;
}

/** A server that does not take leave is left after this. */
const CLOSE_MS = 2000;

/** Speaks to an MCP server over WebSocket (subprotocol `mcp`), which no revision of the protocol describes and some servers offer. */
export class WebSocketTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #options: WebSocketOptions;
  #socket: WebSocket | null = null;
  #problem: string | null = null;
  #isOver = false;

  constructor(options: WebSocketOptions) {
    this.#options = options;
  }

  /** Why it ended, when the server was at fault. */
  get ending(): string | null {
    return this.#problem;
  }

  async start(): Promise<void> {
    const { url, headers } = this.#options;
    const socket = new WebSocket(url, { protocols: ["mcp"], headers });
    this.#socket = socket;
    await new Promise<void>((resolve, reject) => {
      let opened = false;
      let problem = "";
      socket.addEventListener("open", () => {
        opened = true;
        resolve();
      });
      socket.addEventListener("message", (event) => this.#take(event.data));
      socket.addEventListener("error", (event) => {
        problem = event instanceof ErrorEvent ? event.message : "";
      });
      socket.addEventListener("close", () => {
        if (opened) this.#end();
        else reject(new Error(`The WebSocket could not be opened: ${problem || "no reason"}`));
      });
    });
  }

  /** Hands a message to the socket. Rejects when that is not open. */
  send(message: JSONRPCMessage): Promise<void> {
    return new Promise((resolve) => {
      if (this.#socket?.readyState !== WebSocket.OPEN) throw new Error("The WebSocket is not open");
      this.#socket.send(JSON.stringify(message));
      resolve();
    });
  }

  async close(): Promise<void> {
    const socket = this.#socket;
    if (socket === null || this.#isOver || socket.readyState === WebSocket.CLOSED) return;
    const closed = new Promise((resolve) => socket.addEventListener("close", resolve));
    socket.close();
    if (!await doneWithin(this.#options.clock, CLOSE_MS, closed)) this.#end();
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.onclose?.();
  }

  #take(data: unknown): void {
    if (typeof data !== "string" || this.#isOver) return;
    if (data.length > this.#options.maxFrameBytes) {
      this.#problem = `the server sent a frame of more than ${this.#options.maxFrameBytes} bytes`;
      this.#socket?.close();
      return;
    }
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
