import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/server";
import type { Clock, Timer } from "../../core/clock.ts";
import { WorkStretch } from "../../core/next_turn.ts";
import type { ByteSource } from "../../http/byte_source.ts";
import type { HubRequest } from "../../http/hub_request.ts";
import { ControlRate } from "../../wire/websocket/control_rate.ts";
import {
  CLOSE,
  closeFrame,
  pingFrame,
  pongFrame,
  textFrame,
  type WebSocketEvent,
} from "../../wire/websocket/frames.ts";
import { WebSocketReader } from "../../wire/websocket/reader.ts";
import { OutQueue } from "./out_queue.ts";
import { readMessage } from "./read_message.ts";

/** What a connection is made from. */
export interface WsOptions {
  request: Pick<HubRequest, "readUpgraded">;
  clock: Clock;
  /** Time between pings; 0 sends none. */
  pingMs: number;
  /** Rejects once the caller's key holds no more; asked for each message. */
  assertKey: () => Promise<unknown>;
  /** Called once at its end. */
  onEnd(connection: WsConnection): void;
}

const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;
/** Pings without a sign of life after which the client counts as gone. */
const MAX_SILENT_PINGS = 3;
/** Bytes read between two turns of the event loop; a frame counts as at least `FRAME_UNITS`. */
const STRETCH_UNITS = 256 * 1024;
const FRAME_UNITS = 1024;
const encoder = new TextEncoder();

/** MCP over a WebSocket: a message is a text. */
export class WsConnection implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #options: WsOptions;
  readonly #out = new OutQueue(() => this.#end());
  readonly #rate = new ControlRate();
  #timer: Timer | null = null;
  #silentPings = 0;
  #ended = false;

  constructor(options: WsOptions) {
    this.#options = options;
  }

  /** What is sent to the client. */
  get frames(): ByteSource {
    return this.#out;
  }

  start(): Promise<void> {
    this.#arm();
    void this.#read();
    return Promise.resolve();
  }

  send(message: JSONRPCMessage): Promise<void> {
    if (this.#ended) return Promise.reject(new Error("The connection has ended"));
    this.#out.put(textFrame(JSON.stringify(message)));
    return Promise.resolve();
  }

  close(why: "stopping" | "revoked" = "stopping"): Promise<void> {
    this.#finish(why === "revoked" ? CLOSE.policy : CLOSE.goingAway);
    return Promise.resolve();
  }

  async #read(): Promise<void> {
    const reader = new WebSocketReader(MAX_MESSAGE_BYTES);
    const stretch = new WorkStretch(STRETCH_UNITS);
    try {
      while (!this.#ended) {
        const bytes = await this.#options.request.readUpgraded();
        if (bytes === null) break;
        this.#silentPings = 0;
        for (const event of reader.push(bytes)) {
          if (!this.#ended) await this.#take(event);
          await stretch.spend(FRAME_UNITS);
        }
        await stretch.spend(bytes.length);
      }
    } catch (error) {
      this.onerror?.(error instanceof Error ? error : new Error(String(error)));
    }
    this.#finish(CLOSE.normal);
  }

  async #take(event: WebSocketEvent): Promise<void> {
    if (event.type !== "text" && !this.#rate.take(this.#options.clock.monotonic())) {
      return this.#finish(CLOSE.policy);
    }
    switch (event.type) {
      case "text": {
        try {
          await this.#options.assertKey();
        } catch {
          return this.#finish(CLOSE.policy);
        }
        const read = await readMessage(encoder.encode(event.text));
        if ("message" in read) this.onmessage?.(read.message);
        else this.#out.put(textFrame(JSON.stringify(read.refusal)));
        return;
      }
      case "ping":
        return this.#out.put(pongFrame(event.payload));
      case "pong":
        return;
      case "close":
        return this.#finish(event.code === CLOSE.noStatus ? CLOSE.noStatus : CLOSE.normal);
      case "failed":
        return this.#finish(event.code);
    }
  }

  #arm(): void {
    const { clock, pingMs } = this.#options;
    if (pingMs > 0) this.#timer = clock.setTimer(this.#ping, pingMs);
  }

  readonly #ping = () => {
    this.#timer = null;
    if (++this.#silentPings > MAX_SILENT_PINGS) return this.#finish(CLOSE.goingAway);
    this.#out.put(pingFrame());
    this.#arm();
  };

  #finish(code: number): void {
    if (this.#ended) return;
    this.#out.put(closeFrame(code));
    this.#out.end();
    this.#end();
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#timer !== null) this.#options.clock.clearTimer(this.#timer);
    this.#options.onEnd(this);
    this.onclose?.();
  }
}
