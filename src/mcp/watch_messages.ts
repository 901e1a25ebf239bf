import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";

/** What looks at the messages of a transport. */
export interface MessageWatch {
  /** Gives the message as whoever takes it reads it. */
  received(message: JSONRPCMessage): JSONRPCMessage;
  sent(message: JSONRPCMessage): void;
}

/** Shows each message of a transport that is not started yet. */
export function watchMessages(
  transport: Pick<Transport, "onmessage" | "send">,
  watch: MessageWatch,
): void {
  let take: Transport["onmessage"];
  const send = transport.send.bind(transport);
  Object.defineProperty(transport, "onmessage", {
    configurable: true,
    get: () => take,
    set(next: Transport["onmessage"]) {
      take = next && ((message, extra) => next(watch.received(message), extra));
    },
  });
  const watched: Transport["send"] = (message, options) => {
    watch.sent(message);
    return send(message, options);
  };
  Object.defineProperty(transport, "send", { configurable: true, value: watched });
}
