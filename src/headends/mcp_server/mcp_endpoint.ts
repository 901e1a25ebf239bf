import {
  type AuthInfo,
  createMcpHandler,
  isLegacyRequest,
  type McpHttpHandler,
} from "@modelcontextprotocol/server";
import type { Clock } from "../../core/clock.ts";
import { isJsonObject, type Json } from "../../core/json.ts";
import type { Call } from "../../http/call.ts";
import type { HandedOptions } from "../../http/handed.ts";
import { Reply } from "../../http/reply.ts";
import { callerOf, toAuthInfo } from "./auth_info.ts";
import type { ConnectionRoom } from "./connection_room.ts";
import type { HandedRoom } from "./handed_room.ts";
import { answerOrStream } from "./late_answer.ts";
import { LISTEN } from "./listen_filter.ts";
import { ListenStreams } from "./listen_streams.ts";
import { McpSessions, SESSION_BOUNDS, type SessionBounds } from "./mcp_sessions.ts";
import { createProtocolServer, type ProtocolOptions } from "./protocol_server.ts";
import type { MirroredHeaders } from "./served_tool.ts";
import { readMessages, toReply, toWebRequest, unreadable } from "./web_exchange.ts";

/** What the endpoint needs. */
export interface EndpointOptions extends ProtocolOptions, HandedOptions {
  clock: Clock;
  randomBytes: (length: number) => Uint8Array;
  /** Silence after which a stream gets a comment. */
  keepaliveMs: number;
  /** Ends streams that wait for news; their readers come back elsewhere. */
  stopped: AbortSignal;
  /** Whether the next request of a client may come to another process, which knows no session of this one's. */
  sharesPort: boolean;
  sessions?: Partial<SessionBounds>;
  /** For streams of news of 2026-07-28. */
  room: ConnectionRoom;
  /** For connections that requests have for themselves. */
  handedRoom: HandedRoom;
}

const CALL = "tools/call";
/** For these a server is connected to that a credential was handed over for. */
const CONNECTING = ["tools/list", CALL];

/** MCP over HTTP: sessions for the revisions up to 2025-11-25 where it has its port for itself, and none for 2026-07-28. */
export class McpEndpoint {
  readonly #options: EndpointOptions;
  readonly #modern: McpHttpHandler;
  readonly #sessions: McpSessions;
  readonly #listens: ListenStreams;
  readonly #unsubscribe: () => void;

  constructor(options: EndpointOptions) {
    this.#options = options;
    const createServer = () => createProtocolServer(options, callerOf);
    const { subscriptions, room, clock, randomBytes, keepaliveMs: keepAliveMs } = options;
    const legacy = options.sharesPort ? "stateless" : "reject";
    this.#modern = createMcpHandler(
      ({ era }) =>
        era === "legacy" ? createProtocolServer(withoutNews(options), callerOf) : createServer(),
      { legacy, keepAliveMs },
    );
    this.#listens = new ListenStreams({ createServer, keepAliveMs, room, subscriptions });
    this.#sessions = new McpSessions({
      ...SESSION_BOUNDS,
      ...options.sessions,
      clock,
      randomBytes,
      keepAliveMs,
      createServer,
    });
    this.#unsubscribe = options.catalog.onChange((news) => {
      this.#listens.tell(news);
      this.#sessions.tell(news);
    });
  }

  /** Sessions that are kept. */
  get sessions(): number {
    return this.#sessions.size;
  }

  /** Answers a request of a caller whose key was checked. */
  async handle(call: Call): Promise<Reply> {
    const isPost = call.request.method === "POST";
    let request: Request;
    let message: Json = null;
    try {
      request = toWebRequest(call);
      if (isPost) message = await readMessages(call);
    } catch (failure) {
      return unreadable(failure);
    }
    let isRefused = false;
    const { request: asked } = call;
    const mirrored: MirroredHeaders = {
      get: (name) => asked.isRepeated(name.toLowerCase()) ? null : asked.header(name.toLowerCase()),
      refuse: () => void (isRefused = true),
    };
    const startedMs = call.clock.monotonic();
    const { stopped, handedRoom } = this.#options;
    try {
      const hasSessions = !this.#options.sharesPort &&
        await isLegacyRequest(request, isPost ? message : undefined);
      if (hasSessions) {
        const ends = isPost ? null : stopped;
        const { keyId } = call.principal;
        const authInfo = toAuthInfo(call, this.#options);
        if (connects(message)) handedRoom.assertFor(callerOf({ http: { authInfo } }));
        return await this.#sessions.handle({ request, message, authInfo, keyId, ends });
      }
      const authInfo = toAuthInfo(call, this.#options, mirrored);
      if (connects(message)) handedRoom.assertFor(callerOf({ http: { authInfo } }));
      const reply = await this.#answerModern({ request, message, authInfo });
      if (!isRefused) return reply;
      const { body, headers, flush } = reply;
      return new Reply(body, { status: 400, headers, flush });
    } finally {
      call.addUpstreamWait(call.clock.monotonic() - startedMs);
    }
  }

  async #answerModern(
    { request, message, authInfo }: { request: Request; message: Json; authInfo: AuthInfo },
  ): Promise<Reply> {
    const { clock, keepaliveMs } = this.#options;
    if (isJsonObject(message) && message["method"] === LISTEN) {
      const caller = callerOf({ http: { authInfo } });
      const stream = await this.#listens.handle({ request, message, authInfo, caller });
      return await toReply(stream, { ends: null, onEnd() {} });
    }
    const answer = this.#modern.fetch(request, { authInfo, parsedBody: message });
    const isCall = isJsonObject(message) && message["method"] === CALL;
    const takesEvents = (request.headers.get("accept") ?? "").includes("text/event-stream");
    const response = isCall && takesEvents && keepaliveMs > 0
      ? await answerOrStream({ answer, waitMs: keepaliveMs, clock })
      : await answer;
    if (response instanceof Reply) return response;
    return await toReply(response, { ends: null, onEnd() {} });
  }

  /** These keys hold no more: their sessions end. */
  endFor(keyIds: ReadonlySet<string>): void {
    this.#sessions.endFor(keyIds);
  }

  /** Ends all sessions and whatever goes on in them. */
  async close(): Promise<void> {
    this.#unsubscribe();
    await Promise.allSettled([
      this.#modern.close(),
      this.#listens.close(),
      this.#sessions.close(),
    ]);
  }
}

/** Nothing comes behind the answer to a request: there is nothing to be followed. */
function withoutNews({ subscriptions: _, ...options }: EndpointOptions): ProtocolOptions {
  return options;
}

function connects(message: Json): boolean {
  const messages = Array.isArray(message) ? message : [message];
  return messages.some((one) => isJsonObject(one) && CONNECTING.includes(String(one["method"])));
}
