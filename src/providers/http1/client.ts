import type { Clock } from "../../core/clock.ts";
import { HubError } from "../../core/error.ts";
import type { SendUpstream, UpstreamRequest } from "../transport.ts";
import { Connection, type ConnectionOwner } from "./connection.ts";
import { decodeBody } from "./decoded_body.ts";
import { type Connect, createConnect, dial, unsentError } from "./dial.ts";
import { createEndpointCache, type Endpoint } from "./endpoint.ts";
import { Exchange } from "./exchange.ts";
import { IdlePool } from "./idle_pool.ts";
import { createRequestEncoder } from "./request_bytes.ts";
import type { ResponseHead } from "./response_head.ts";

/** How the client behaves. */
export interface HttpClientOptions {
  clock: Clock;
  /** Opens sockets; default: the runtime's. */
  connect?: Connect;
  /** Certificates (PEM) to trust instead of the runtime's; only for the default `connect`. */
  caCerts?: string[];
  /** Idle connections kept per origin; default 256. */
  maxIdlePerOrigin?: number;
  /** Longest idle time of a connection, in milliseconds; default 45 s, below the usual 60 s of servers and balancers. */
  idleMs?: number;
}

/** Counts since the start, and of now. */
export interface HttpClientStats {
  /** Connections open now, idle ones included. */
  open: number;
  idle: number;
  /** Connections opened so far. */
  connects: number;
  /** Requests that went out on a kept connection. */
  reused: number;
  /** Requests sent again because a kept connection was dead. */
  replays: number;
}

/** A client for HTTP/1.1 upstreams. */
export interface HttpClient {
  send: SendUpstream;
  stats(): HttpClientStats;
  /** Closes every connection, busy ones too; later requests are refused with `shutting_down`. */
  close(): void;
}

const DEFAULT_MAX_IDLE = 256;
const DEFAULT_IDLE_MS = 45_000;
/**
 * A kept connection that ends this soon after a request went out, without a byte of an answer, was most likely closed
 * by the server's idle timer while our bytes were on their way.
 */
const STALE_WINDOW_MS = 1000;

/**
 * Makes a client: keep-alive, no redirects, no proxy, no cookies, nothing remembered but connections.
 *
 * A request is sent again only once, on a fresh connection, and only when all of this holds: it may be (`once`), the
 * connection was a kept one, it ended within a second after the request went out, and no byte of an answer had come. RFC
 * 9110 (9.2.2) and RFC 9112 (9.3.1) leave that to clients that know the request may be repeated. Here the race is narrow,
 * since an idle connection is read all the time and one that has ended is never used; a call of a model changes nothing
 * but the bill, and the router would repeat it anyway. A connection that ends later than that, or a fresh one, has failed
 * while the upstream was at work: `upstream_cut`.
 */
export function createHttpClient(options: HttpClientOptions): HttpClient {
  const { clock, maxIdlePerOrigin = DEFAULT_MAX_IDLE, idleMs = DEFAULT_IDLE_MS } = options;
  const connect = options.connect ??
    createConnect(options.caCerts === undefined ? {} : { caCerts: options.caCerts });
  const pool = new IdlePool({ clock, maxIdlePerOrigin });
  const endpointOf = createEndpointCache();
  const encode = createRequestEncoder();
  const open = new Set<Connection>();
  let connects = 0;
  let reused = 0;
  let replays = 0;
  let closing = false;

  const owner: ConnectionOwner = {
    closed: (connection) => open.delete(connection),
    lost: (connection) => pool.remove(connection),
  };

  function keep(connection: Connection, head: ResponseHead): void {
    if (closing) return connection.close();
    const hint = head.fields.get("keep-alive");
    pool.put(connection, hint === null ? idleMs : Math.min(idleMs, hintedIdleMs(hint)));
  }

  async function openConnection(endpoint: Endpoint, request: UpstreamRequest): Promise<Connection> {
    const { signal, connectTimeoutMs: timeoutMs } = request;
    const socket = await dial(endpoint, { connect, clock, timeoutMs, signal });
    const connection = new Connection(socket, { key: endpoint.key, owner });
    connects++;
    open.add(connection);
    if (closing) connection.close();
    return connection;
  }

  async function send(request: UpstreamRequest) {
    const { method, signal } = request;
    const endpoint = endpointOf(request.url);
    let bytes = encode(request, endpoint);
    if (signal.aborted) throw unsentError(signal);
    if (closing) throw new HubError("shutting_down", "The hub is shutting down");
    const startMs = clock.monotonic();
    const once = request.once === true || request.source !== undefined;
    let connection = once ? null : pool.take(endpoint.key, startMs);
    for (;;) {
      const kept = connection !== null;
      if (kept) reused++;
      connection ??= await openConnection(endpoint, request);
      const exchange = new Exchange({ connection, method, label: endpoint.label, signal, keep });
      try {
        if (!exchange.cancelled) request.onSend?.();
        await exchange.start(bytes, request.source);
        return exchange.coding === null ? exchange : decodeBody(exchange, exchange.coding);
      } catch (error) {
        const stale = kept && !exchange.answered && !exchange.cancelled && !closing &&
          clock.monotonic() - startMs <= STALE_WINDOW_MS;
        if (!stale) throw error;
      }
      replays++;
      connection = null;
      bytes = encode(request, endpoint);
    }
  }

  return {
    send,
    stats: () => ({ open: open.size, idle: pool.size, connects, reused, replays }),
    close() {
      closing = true;
      pool.clear();
      for (const connection of [...open]) connection.close();
    },
  };
}

/** Idle time that a server's `Keep-Alive: timeout=5` allows, a second less than it says; no limit when it says nothing. */
function hintedIdleMs(hint: string): number {
  const seconds = /(?:^|[,\s])timeout=(\d{1,6})/i.exec(hint)?.[1];
  return seconds === undefined ? Infinity : Math.max(0, Number(seconds) * 1000 - 1000);
}
