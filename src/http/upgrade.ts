import { HubError } from "../core/error.ts";
import { acceptOf } from "../wire/websocket/handshake.ts";
import type { ByteSource } from "./byte_source.ts";
import type { HubRequest } from "./hub_request.ts";
import { Reply } from "./reply.ts";

const KEY = /^[A-Za-z0-9+/]{22}==$/;

/** Whether a request asks to go on as a WebSocket. */
export function wantsWebSocket(request: HubRequest): boolean {
  return request.method === "GET" && hasToken(request.header("upgrade"), "websocket") &&
    hasToken(request.header("connection"), "upgrade");
}

/**
 * The answer after which the connection is a WebSocket (RFC 6455, 4.2.2): `frames` is what is sent on it; what comes is
 * read with `request.readUpgraded`. Throws `invalid_request` for a handshake that is none.
 */
export function webSocketReply(
  request: HubRequest,
  { frames, protocol }: { frames: ByteSource; protocol?: string | undefined },
): Reply {
  const key = request.header("sec-websocket-key");
  if (request.header("sec-websocket-version") !== "13") {
    throw new HubError("invalid_request", "The WebSocket has an unknown version, wanted 13", {
      status: 426,
      headers: { "sec-websocket-version": "13" },
    });
  }
  const hasBody = request.header("transfer-encoding") !== null ||
    (request.header("content-length") ?? "0") !== "0";
  if (key === null || !KEY.test(key) || request.httpVersion !== "1.1" || hasBody) {
    throw new HubError("invalid_request", "The request is no handshake of a WebSocket");
  }
  return new Reply(frames, {
    status: 101,
    flush: true,
    headers: {
      upgrade: "websocket",
      "sec-websocket-accept": acceptOf(key),
      ...(protocol === undefined ? {} : { "sec-websocket-protocol": protocol }),
    },
  });
}

/** Whether a list in a header has a word, whatever its case. */
export function hasToken(list: string | null, word: string): boolean {
  return list?.toLowerCase().split(",").some((item) => item.trim() === word) ?? false;
}
