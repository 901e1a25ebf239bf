import {
  type JSONRPCMessage,
  type MessageExtraInfo,
  SUBSCRIPTION_ID_META_KEY,
  type Transport,
} from "@modelcontextprotocol/server";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { followListened, listenedUris } from "./listen_filter.ts";
import type { Caller } from "./served_tool.ts";
import type { ClientSubscriptions, Subscriptions } from "./subscriptions.ts";

/** A connection of a client that may listen. */
export interface ListeningOptions {
  subscriptions: Subscriptions;
  nextCaller: () => Caller;
}

const CANCELLED = "notifications/cancelled";
const ACKNOWLEDGED = "notifications/subscriptions/acknowledged";

/**
 * A connection that stays, of which requests to listen come with the resources only that the client may follow; those are
 * followed until it cancels the request or leaves.
 */
export class NarrowedListens implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage, extra?: MessageExtraInfo) => void;
  readonly #transport: Transport;
  readonly #options: ListeningOptions;
  /** By the id of the request. */
  readonly #listens = new Map<Json, Listen>();

  constructor(transport: Transport, options: ListeningOptions) {
    this.#transport = transport;
    this.#options = options;
  }

  start(): Promise<void> {
    const onclose = () => {
      for (const id of [...this.#listens.keys()]) this.#forget(id);
      this.onclose?.();
    };
    const onerror = (error: Error) => this.onerror?.(error);
    const onmessage = (message: JSONRPCMessage, extra?: MessageExtraInfo) =>
      this.#take(message, extra);
    Object.assign(this.#transport, { onclose, onerror, onmessage });
    return this.#transport.start();
  }

  async send(...sent: Parameters<Transport["send"]>): Promise<void> {
    const { method, params, id = null } = sent[0] as unknown as JsonObject;
    const isAnswer = method === undefined && this.#listens.has(id);
    await this.#transport.send(...sent);
    if (isAnswer) this.#forget(id);
    if (method === ACKNOWLEDGED) this.#acknowledged(subscriptionOf(params));
  }

  close(): Promise<void> {
    return this.#transport.close();
  }

  #take(message: JSONRPCMessage, extra?: MessageExtraInfo): void {
    const read = message as unknown as JsonObject;
    const { id, method, params } = read;
    if (id !== undefined && listenedUris(read).length > 0) return void this.#listen(read, extra);
    if (method === CANCELLED && isJsonObject(params)) this.#forget(params["requestId"] ?? null);
    this.onmessage?.(message, extra);
  }

  async #listen(message: JsonObject, extra?: MessageExtraInfo): Promise<void> {
    const { id = null } = message;
    this.#forget(id);
    const listen: Listen = { own: null, early: new Set() };
    this.#listens.set(id, listen);
    const { subscriptions, nextCaller } = this.#options;
    const tell = (uri: string) => {
      if (listen.early === null) this.#tell(id, uri);
      else listen.early.add(uri);
    };
    const followed = await followListened(message, { subscriptions, caller: nextCaller(), tell });
    if (this.#listens.get(id) !== listen) return followed.own.close();
    listen.own = followed.own;
    this.onmessage?.(followed.message as unknown as JSONRPCMessage, extra);
  }

  /** Nothing may come before the client knows what it will hear of. */
  #acknowledged(id: Json): void {
    const listen = this.#listens.get(id);
    const early = listen?.early ?? [];
    if (listen !== undefined) listen.early = null;
    for (const uri of early) this.#tell(id, uri);
  }

  #tell(id: Json, uri: string): void {
    const params = { uri, _meta: { [SUBSCRIPTION_ID_META_KEY]: id } };
    const message = { jsonrpc: "2.0", method: "notifications/resources/updated", params };
    this.#transport.send(message as unknown as JSONRPCMessage)
      .catch(() => {/* the client has left, which is told elsewhere */});
  }

  #forget(id: Json): void {
    const listen = this.#listens.get(id);
    this.#listens.delete(id);
    listen?.own?.close();
  }
}

interface Listen {
  /** Null while the servers are asked. */
  own: ClientSubscriptions | null;
  /** What has changed before the request was acknowledged; null afterwards. */
  early: Set<string> | null;
}

function subscriptionOf(params: Json | undefined): Json {
  const meta = isJsonObject(params) ? params["_meta"] : undefined;
  return isJsonObject(meta) ? meta[SUBSCRIPTION_ID_META_KEY] ?? null : null;
}
