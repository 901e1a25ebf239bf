import { type JSONRPCMessage, parseJSONRPCMessage } from "@modelcontextprotocol/server";
import type { Clock } from "../../core/clock.ts";
import { HubError } from "../../core/error.ts";
import type { Call } from "../../http/call.ts";
import { bytesReply, type Reply } from "../../http/reply.ts";
import { sseReply } from "../../http/sse_response.ts";
import { callerOf, toAuthInfo } from "./auth_info.ts";
import { createProtocolServer, type ProtocolOptions } from "./protocol_server.ts";
import { SseConnection } from "./sse_connection.ts";
import { readMessages, rpcError, unreadable } from "./web_exchange.ts";

/** What serving streams needs. */
export interface SseEndpointOptions extends ProtocolOptions {
  clock: Clock;
  randomBytes: (length: number) => Uint8Array;
  keepaliveMs: number;
  /** Ends the streams. */
  stopped: AbortSignal;
  maxPerKey?: number;
}

/** Streams that one key may have open. */
const MAX_PER_KEY = 100;
const MESSAGES = "/mcp/sse/message";
const INVALID_REQUEST = -32600;

/** MCP over HTTP as revision 2024-11-05 has it. */
export class SseEndpoint {
  readonly #options: SseEndpointOptions;
  readonly #open = new Map<string, { keyId: string; connection: SseConnection }>();

  constructor(options: SseEndpointOptions) {
    this.#options = options;
    options.stopped.addEventListener("abort", () => this.#closeAll(), { once: true });
  }

  /** Streams that are open. */
  get connections(): number {
    return this.#open.size;
  }

  /** Opens a stream. Throws `rate_limit_exceeded` when the key has too many. */
  async open({ principal: { keyId } }: Call): Promise<Reply> {
    const { clock, keepaliveMs, randomBytes, stopped, maxPerKey = MAX_PER_KEY } = this.#options;
    if (stopped.aborted) throw new HubError("shutting_down", "The hub is stopping");
    const own = [...this.#open.values()].filter((open) => open.keyId === keyId);
    if (own.length >= maxPerKey) {
      throw new HubError(
        "rate_limit_exceeded",
        `The API key has ${maxPerKey} MCP streams open, as many as it may have`,
        { retryAfterMs: 1000 },
      );
    }
    const id = randomBytes(24).toHex();
    const connection = new SseConnection(id, `${MESSAGES}?sessionId=${id}`);
    const server = createProtocolServer(this.#options, callerOf);
    const forgetChanges = this.#options.catalog.onChange(() => {
      server.sendToolListChanged().catch(() => {/* the client has left */});
    });
    const onClose = () => {
      forgetChanges();
      this.#open.delete(id);
    };
    server.onclose = onClose;
    this.#open.set(id, { keyId, connection });
    await server.connect(connection);
    return sseReply(connection, { clock, pingMs: keepaliveMs, open: false });
  }

  /** Takes a message for a stream; what there is to say to it comes on the stream. */
  async post(call: Call<unknown, { sessionId: string }>): Promise<Reply> {
    const open = this.#open.get(call.query.sessionId);
    if (open === undefined || open.keyId !== call.principal.keyId) {
      throw new HubError("not_found", "There is no such MCP stream: open one at /mcp/sse");
    }
    let message: JSONRPCMessage;
    try {
      const value = await readMessages(call);
      try {
        message = parseJSONRPCMessage(value);
      } catch {
        return rpcError(400, {
          code: INVALID_REQUEST,
          message: "That is no message of JSON-RPC 2.0",
        });
      }
    } catch (failure) {
      return unreadable(failure);
    }
    open.connection.receive(message, toAuthInfo(call));
    return bytesReply("Accepted", { contentType: "text/plain", status: 202 });
  }

  #closeAll(): void {
    for (const { connection } of [...this.#open.values()]) void connection.close();
  }
}
