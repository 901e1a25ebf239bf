import type { Clock } from "../../core/clock.ts";
import type { IdSource } from "../../core/id.ts";
import type { Call } from "../../http/call.ts";
import type { Reply } from "../../http/reply.ts";
import { handedOf, type HandedOptions } from "../../http/handed.ts";
import { hasToken, webSocketReply } from "../../http/upgrade.ts";
import { type Authenticate, tokenFromHeaders } from "../../policy/authenticate.ts";
import type { ConnectionRoom } from "./connection_room.ts";
import type { ProtocolOptions } from "./protocol_server.ts";
import { serveConnection } from "./serve_connection.ts";
import { WsConnection } from "./ws_connection.ts";

/** What serving WebSockets needs. */
export interface WsEndpointOptions extends ProtocolOptions, HandedOptions {
  clock: Clock;
  ids: IdSource;
  keepaliveMs: number;
  room: ConnectionRoom;
  authenticate: Authenticate;
}

/** The subprotocol that the library's clients ask for. */
const PROTOCOL = "mcp";

/** MCP over WebSockets, which is none of its own transports but one that clients have. */
export class WsEndpoint {
  readonly #options: WsEndpointOptions;

  constructor(options: WsEndpointOptions) {
    this.#options = options;
  }

  /** Goes on as a WebSocket. Throws `rate_limit_exceeded` when the key has too many. */
  open(call: Call): Reply {
    const { request, principal } = call;
    const handed = handedOf(call, this.#options);
    const { clock, ids, keepaliveMs, room, authenticate } = this.#options;
    room.assertFor(principal.keyId);
    const token = tokenFromHeaders((name) => request.header(name));
    const connection = new WsConnection({
      request,
      clock,
      pingMs: keepaliveMs,
      assertKey: async () => await authenticate(token),
      onEnd: (connection) => room.leave(connection),
    });
    const asks = hasToken(request.header("sec-websocket-protocol"), PROTOCOL);
    const reply = webSocketReply(request, {
      frames: connection.frames,
      protocol: asks ? PROTOCOL : undefined,
    });
    room.enter(connection, principal.keyId);
    serveConnection(connection, {
      protocol: this.#options,
      nextCaller: () => ({ principal, requestId: ids.next("req"), span: null, handed }),
    });
    return reply;
  }
}
