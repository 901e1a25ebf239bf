import type { Socket } from "node:net";
import type { Clock } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import { errorReply } from "./on_error.ts";

/** How long a client may take to read the answer and close. */
const LINGER_MS = 2000;
const REASONS: Readonly<Record<number, string>> = {
  400: "Bad Request",
  408: "Request Timeout",
  413: "Content Too Large",
  431: "Request Header Fields Too Large",
};

/** The error that a failure of the HTTP parser means; null when the connection is simply gone. */
export function fromParserError(code: string | undefined): HubError | null {
  switch (code) {
    case "ECONNRESET":
    case "EPIPE":
    case "ECONNABORTED":
      return null;
    case "HPE_HEADER_OVERFLOW":
      return headersTooLarge("The request header is larger than this server reads");
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return new HubError("body_too_large", "The chunk extensions of the request are too large");
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new HubError("invalid_request", "The request did not arrive in time", {
        status: 408,
        clientCode: "request_timeout",
      });
    default:
      return new HubError("invalid_request", "The request is not valid HTTP/1.1");
  }
}

/** The error of a header with too many bytes or fields. */
export function headersTooLarge(message: string): HubError {
  return new HubError("invalid_request", message, { status: 431, clientCode: "headers_too_large" });
}

/**
 * Answers a request that never became one, in the shape of every other error, and closes. `isAnswering` tells that
 * an answer is under way on this connection: a second one would be read as part of it, so the connection is broken.
 */
export function answerClientError(
  socket: Socket,
  { code, isAnswering, clock }: { code: string | undefined; isAnswering: boolean; clock: Clock },
): void {
  const error = fromParserError(code);
  if (error === null || isAnswering || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, body } = errorReply(error);
  const text = typeof body === "string" ? body : "";
  socket.end(
    `HTTP/1.1 ${status} ${REASONS[status] ?? "Bad Request"}\r\n` +
      `content-type: application/json\r\ncontent-length: ${text.length}\r\n` +
      `x-should-retry: false\r\nconnection: close\r\n\r\n${text}`,
  );
  // What the client still sends is thrown away; closing over unread bytes would reset the connection before the answer is read.
  socket.resume();
  const timer = clock.setTimer(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clock.clearTimer(timer));
}
