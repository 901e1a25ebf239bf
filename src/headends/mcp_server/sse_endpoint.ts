import type { Clock } from "../../core/clock.ts";
import { HubError } from "../../core/error.ts";
import type { Call } from "../../http/call.ts";
import type { HandedOptions } from "../../http/handed.ts";
import { bytesReply, jsonReply, type Reply } from "../../http/reply.ts";
import { sseReply } from "../../http/sse_response.ts";
import { callerOf, toAuthInfo } from "./auth_info.ts";
import type { ConnectionRoom } from "./connection_room.ts";
import { onServerClose } from "./on_server_close.ts";
import { createProtocolServer, type ProtocolOptions, tellNews } from "./protocol_server.ts";
import { readMessage } from "./read_message.ts";
import { concerns } from "./tool_catalog.ts";
import { SseConnection } from "./sse_connection.ts";

/** What serving streams needs. */
export interface SseEndpointOptions extends ProtocolOptions, HandedOptions {
  clock: Clock;
  randomBytes: (length: number) => Uint8Array;
  keepaliveMs: number;
  room: ConnectionRoom;
}

const MESSAGES = "/mcp/sse/message";

/** MCP over HTTP as revision 2024-11-05 has it. */
export class SseEndpoint {
  readonly #options: SseEndpointOptions;
  readonly #open = new Map<string, { keyId: string; connection: SseConnection }>();

  constructor(options: SseEndpointOptions) {
    this.#options = options;
  }

  /** Opens a stream. Throws `rate_limit_exceeded` when the key has too many. */
  async open({ principal: { keyId } }: Call): Promise<Reply> {
    const { clock, keepaliveMs, randomBytes, room, catalog } = this.#options;
    room.assertFor(keyId);
    const id = randomBytes(24).toHex();
    const connection = new SseConnection(id, `${MESSAGES}?sessionId=${id}`);
    const server = createProtocolServer(this.#options, callerOf);
    const forgetChanges = catalog.onChange((news) => {
      if (concerns(news, keyId)) tellNews(server, news);
    });
    onServerClose(server, () => {
      forgetChanges();
      room.leave(connection);
      this.#open.delete(id);
    });
    room.enter(connection, keyId);
    this.#open.set(id, { keyId, connection });
    await server.connect(connection);
    return sseReply(connection.events, { clock, pingMs: keepaliveMs, open: false });
  }

  /** Takes a message for a stream; what there is to say to it comes on the stream. */
  async post(call: Call<unknown, { sessionId: string }>): Promise<Reply> {
    const open = this.#open.get(call.query.sessionId);
    if (open === undefined || open.keyId !== call.principal.keyId) {
      throw new HubError("not_found", "There is no such MCP stream: open one at /mcp/sse");
    }
    const read = await readMessage(await call.readBody());
    if ("refusal" in read) return jsonReply(read.refusal, { status: 400 });
    open.connection.receive(read.message, toAuthInfo(call, this.#options));
    return bytesReply("Accepted", { contentType: "text/plain", status: 202 });
  }
}
