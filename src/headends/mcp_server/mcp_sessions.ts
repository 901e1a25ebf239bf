import {
  isInitializeRequest,
  type Server,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import type { AuthInfo } from "@modelcontextprotocol/server";
import type { Clock } from "../../core/clock.ts";
import { type Deadline, Deadlines } from "../../core/deadlines.ts";
import { HubError } from "../../core/error.ts";
import type { Json } from "../../core/json.ts";
import type { Reply } from "../../http/reply.ts";
import { tellNews } from "./protocol_server.ts";
import { RecentEvents } from "./recent_events.ts";
import { type CatalogNews, concerns } from "./tool_catalog.ts";
import { rpcError, toReply } from "./web_exchange.ts";

/** Bounds of the sessions that protocol revisions before 2026-07-28 have. */
export interface SessionBounds {
  maxPerKey: number;
  maxTotal: number;
  /** Silence after which one ends; an open stream is no silence. */
  idleMs: number;
}

/** Clients begin one each time they start, and many never end it. */
export const SESSION_BOUNDS: Readonly<SessionBounds> = Object.freeze({
  maxPerKey: 100,
  maxTotal: 2000,
  idleMs: 60 * 60_000,
});

/** What keeping sessions needs. */
export interface SessionsOptions extends SessionBounds {
  clock: Clock;
  randomBytes: (length: number) => Uint8Array;
  keepAliveMs: number;
  createServer(): Server;
}

/** A request of a session, or one that begins it. */
export interface SessionRequest {
  request: Request;
  /** Of a POST; null for others. */
  message: Json;
  authInfo: AuthInfo;
  keyId: string;
  /** Ends the answer when it is a stream for whatever comes; null for answers to messages. */
  ends: AbortSignal | null;
}

const NOT_FOUND = { code: -32001, message: "There is no such session: initialize a new one" };

/** Sessions of one replica, each of the key that began it. */
export class McpSessions {
  readonly #options: SessionsOptions;
  readonly #deadlines: Deadlines;
  /** In the order of their last use. */
  readonly #sessions = new Map<string, Session>();
  #closed = false;

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.#deadlines = new Deadlines(options.clock);
  }

  /** How many there are. */
  get size(): number {
    return this.#sessions.size;
  }

  /** Answers a request. Throws `rate_limit_exceeded` or `overloaded` when there is no room for another session. */
  async handle(asked: SessionRequest): Promise<Reply> {
    const { request, message, authInfo, ends } = asked;
    const session = this.#find(asked) ?? await this.#begin(asked);
    if (session === null) {
      return request.headers.has("mcp-session-id") ? rpcError(404, NOT_FOUND) : rpcError(400, {
        code: -32000,
        message: "The request has no Mcp-Session-Id: initialize first",
      });
    }
    this.#enter(session);
    const onEnd = () => this.#leave(session);
    try {
      const options = request.method === "POST" ? { authInfo, parsedBody: message } : { authInfo };
      const response = await session.transport.handleRequest(request, options);
      return await toReply(response, { ends, onEnd });
    } catch (error) {
      onEnd();
      throw error;
    }
  }

  /** Tells all clients that what they may use may be another. */
  tell(news: CatalogNews): void {
    for (const { server, keyId } of this.#sessions.values()) {
      if (concerns(news, keyId)) tellNews(server, news);
    }
  }

  /** These keys hold no more. */
  endFor(keyIds: ReadonlySet<string>): void {
    for (const session of [...this.#sessions.values()]) {
      if (keyIds.has(session.keyId)) this.#expire(session);
    }
  }

  /** Ends all of them. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#deadlines.close();
    const sessions = [...this.#sessions.values()];
    this.#sessions.clear();
    await Promise.allSettled(sessions.map(({ server }) => server.close()));
  }

  #find({ request, keyId }: SessionRequest): Session | null {
    const id = request.headers.get("mcp-session-id");
    const session = id === null ? undefined : this.#sessions.get(id);
    return session?.keyId === keyId ? session : null;
  }

  async #begin({ request, message, keyId }: SessionRequest): Promise<Session | null> {
    if (request.headers.has("mcp-session-id") || !isInitializeRequest(message)) return null;
    this.#makeRoom(keyId);
    const { randomBytes, keepAliveMs } = this.#options;
    const id = randomBytes(24).toHex();
    const transport: Session["transport"] = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      onsessionclosed: (): void => this.#forget(session),
      keepAliveMs,
      eventStore: new RecentEvents(),
    });
    const server = this.#options.createServer();
    const session: Session = new Session(
      { id, keyId, transport, server },
      () => this.#expire(session),
    );
    this.#sessions.set(id, session);
    await server.connect(transport);
    return session;
  }

  #makeRoom(keyId: string): void {
    const { maxPerKey, maxTotal } = this.#options;
    if (this.#closed) throw new HubError("shutting_down", "The hub is stopping");
    const own = [...this.#sessions.values()].filter((session) => session.keyId === keyId);
    if (own.length < maxPerKey && this.#sessions.size < maxTotal) return;
    const oldest = own.find(({ open }) => open === 0);
    if (oldest !== undefined) return this.#expire(oldest);
    if (own.length >= maxPerKey) {
      throw new HubError(
        "rate_limit_exceeded",
        `The API key has ${maxPerKey} MCP sessions in use, as many as it may have`,
        { retryAfterMs: 1000 },
      );
    }
    throw new HubError("overloaded", `The hub has ${maxTotal} MCP sessions already`, {
      retryAfterMs: 1000,
    });
  }

  #enter(session: Session): void {
    session.open++;
    this.#deadlines.remove(session);
    this.#sessions.delete(session.id);
    this.#sessions.set(session.id, session);
  }

  #leave(session: Session): void {
    session.open--;
    if (session.open > 0 || !this.#sessions.has(session.id)) return;
    const { clock, idleMs } = this.#options;
    this.#deadlines.set(session, clock.monotonic() + idleMs);
  }

  #expire(session: Session): void {
    this.#forget(session);
    session.server.close().catch(() => {/* it is given up */});
  }

  #forget(session: Session): void {
    this.#deadlines.remove(session);
    this.#sessions.delete(session.id);
  }
}

class Session implements Deadline {
  readonly id: string;
  readonly keyId: string;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  readonly server: Server;
  /** Requests and streams that are under way. */
  open = 0;
  dueMs = Infinity;
  place = -1;
  readonly #onExpire: () => void;

  constructor(
    parts: Pick<Session, "id" | "keyId" | "transport" | "server">,
    onExpire: () => void,
  ) {
    this.id = parts.id;
    this.keyId = parts.keyId;
    this.transport = parts.transport;
    this.server = parts.server;
    this.#onExpire = onExpire;
  }

  expire(): void {
    this.#onExpire();
  }
}
