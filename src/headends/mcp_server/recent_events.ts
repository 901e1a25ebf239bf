import type { EventStore, JSONRPCMessage } from "@modelcontextprotocol/server";

/** An event that a client may have missed. */
interface RecentEvent {
  id: string;
  streamId: string;
  message: JSONRPCMessage;
  chars: number;
}

const MAX_EVENTS = 256;
const MAX_CHARS = 256 * 1024;

/** The last events of a session, for a client whose stream broke off and that comes back with `Last-Event-ID`. */
export class RecentEvents implements EventStore {
  #events: RecentEvent[] = [];
  #chars = 0;
  #count = 0;

  storeEvent(streamId: string, message: JSONRPCMessage): Promise<string> {
    const id = `${streamId}|${++this.#count}`;
    const { length: chars } = JSON.stringify(message);
    this.#events.push({ id, streamId, message, chars });
    this.#chars += chars;
    while (this.#events.length > MAX_EVENTS || this.#chars > MAX_CHARS) {
      this.#chars -= this.#events.shift()?.chars ?? 0;
    }
    return Promise.resolve(id);
  }

  getStreamIdForEventId(id: string): Promise<string | undefined> {
    return Promise.resolve(this.#events.find((event) => event.id === id)?.streamId);
  }

  /** Sends what came behind an event on its stream. Rejects when that event is not known any more. */
  async replayEventsAfter(
    lastId: string,
    { send }: { send: (id: string, message: JSONRPCMessage) => Promise<void> },
  ): Promise<string> {
    const at = this.#events.findIndex(({ id }) => id === lastId);
    const last = this.#events[at];
    if (last === undefined) throw new Error("The event is not known any more");
    for (const { id, streamId, message } of this.#events.slice(at + 1)) {
      // An event without a message only told where a stream begins.
      if (streamId === last.streamId && "jsonrpc" in message) await send(id, message);
    }
    return last.streamId;
  }
}
