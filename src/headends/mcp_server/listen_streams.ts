import {
  type AuthInfo,
  createMcpHandler,
  type McpHttpHandler,
  type McpServerFactory,
  type ServerEvent,
  type ServerEventBus,
} from "@modelcontextprotocol/server";
import { HubError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import type { ConnectionRoom, StayingConnection } from "./connection_room.ts";
import { followListened, listenedUris } from "./listen_filter.ts";
import type { Caller } from "./served_tool.ts";
import type { ClientSubscriptions, Subscriptions } from "./subscriptions.ts";
import { type CatalogNews, concerns } from "./tool_catalog.ts";

/** What serving streams needs. */
export interface ListenStreamsOptions {
  createServer: McpServerFactory;
  keepAliveMs: number;
  room: ConnectionRoom;
  /** Left out where nothing can be followed. */
  subscriptions?: Subscriptions | undefined;
  maxTotal?: number;
}

const MAX_TOTAL = 1024;

/** Streams of news of revision 2026-07-28 over HTTP: each has those of its own client. */
export class ListenStreams {
  readonly #options: ListenStreamsOptions;
  readonly #open = new Set<ListenStream>();

  constructor(options: ListenStreamsOptions) {
    this.#options = options;
  }

  /** Answers `subscriptions/listen`. Throws `rate_limit_exceeded` or `overloaded` when there is no room for another stream. */
  async handle(
    { request, message, authInfo, caller }: {
      request: Request;
      message: JsonObject;
      authInfo: AuthInfo;
      caller: Caller;
    },
  ): Promise<Response> {
    const { room, subscriptions, maxTotal = MAX_TOTAL } = this.#options;
    const { keyId } = caller.principal;
    room.assertFor(keyId);
    if (this.#open.size >= maxTotal) {
      throw new HubError("overloaded", `The hub has ${maxTotal} streams of MCP news already`);
    }
    const stream = new ListenStream(this.#options, {
      keyId,
      onEnd: () => {
        this.#open.delete(stream);
        room.leave(stream);
      },
    });
    this.#open.add(stream);
    room.enter(stream, keyId);
    try {
      const isFollowing = subscriptions !== undefined && listenedUris(message).length > 0;
      const parsedBody = isFollowing
        ? await stream.follow(message, { subscriptions, caller })
        : message;
      return await stream.handler.fetch(request, { authInfo, parsedBody });
    } finally {
      if (!stream.isHeard) stream.end();
    }
  }

  /** Tells clients what may be another now. */
  tell(news: CatalogNews): void {
    const { tools, content } = news;
    for (const stream of [...this.#open]) {
      if (!concerns(news, stream.keyId)) continue;
      if (tools) stream.publish({ kind: "tools_list_changed" });
      if (!content) continue;
      stream.publish({ kind: "resources_list_changed" });
      stream.publish({ kind: "prompts_list_changed" });
    }
  }

  /** Ends all of them. */
  async close(): Promise<void> {
    await Promise.allSettled([...this.#open].map((stream) => stream.close()));
  }
}

/** One stream: it hears what is published to it alone. */
class ListenStream implements ServerEventBus, StayingConnection {
  readonly keyId: string;
  readonly handler: McpHttpHandler;
  readonly #onEnd: () => void;
  #listener: ((event: ServerEvent) => void) | null = null;
  /** What was published before anybody heard. */
  #early: ServerEvent[] = [];
  #own: ClientSubscriptions | null = null;
  #ended = false;

  constructor(
    { createServer, keepAliveMs }: ListenStreamsOptions,
    { keyId, onEnd }: { keyId: string; onEnd: () => void },
  ) {
    this.keyId = keyId;
    this.#onEnd = onEnd;
    this.handler = createMcpHandler(createServer, { legacy: "reject", keepAliveMs, bus: this });
  }

  get isHeard(): boolean {
    return this.#listener !== null;
  }

  async follow(
    message: JsonObject,
    { subscriptions, caller }: { subscriptions: Subscriptions; caller: Caller },
  ): Promise<JsonObject> {
    const tell = (uri: string) => this.publish({ kind: "resource_updated", uri });
    const followed = await followListened(message, { subscriptions, caller, tell });
    this.#own = followed.own;
    if (this.#ended) followed.own.close();
    return followed.message;
  }

  publish(event: ServerEvent): void {
    if (this.#listener !== null) this.#listener(event);
    else if (this.#early.length < MAX_EARLY) this.#early.push(event);
  }

  subscribe(listener: (event: ServerEvent) => void): () => void {
    this.#listener = listener;
    const early = this.#early;
    this.#early = [];
    for (const event of early) listener(event);
    return () => this.end();
  }

  /** The client has left, or was told of the end. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#own?.close();
    this.#onEnd();
  }

  async close(): Promise<void> {
    await this.handler.close();
    this.end();
  }
}

const MAX_EARLY = 1000;
