import { type Clock, sleep } from "../../core/clock.ts";
import { Deadlines } from "../../core/deadlines.ts";
import { HubError } from "../../core/error.ts";
import type { Log } from "../../core/log.ts";
import type { HubRequest } from "../hub_request.ts";
import type { Reply } from "../reply.ts";
import { ClientConnection, type ConnectionServer } from "./client_connection.ts";
import { createHeadWriter, ScratchPool } from "./reply_bytes.ts";
import { DEFAULT_SERVER_LIMITS, type ServerLimits } from "./server_limits.ts";

/** What a server needs. */
export interface ServerOptions {
  /** Answers a request; must not throw. */
  app: { handle(request: HubRequest): Reply | Promise<Reply> };
  host: string;
  /** 0 takes any free port. */
  port: number;
  /** Other processes may listen on the same port; the kernel spreads connections over them (Linux). */
  reusePort?: boolean;
  /** True once clients should go elsewhere, although they are still served. */
  isLeaving?: () => boolean;
  clock: Clock;
  log: Log;
  limits?: Partial<ServerLimits>;
}

/** A listening server. */
export interface HubServer {
  readonly port: number;
  /** Base URL without a slash at its end. */
  readonly url: string;
  /** Requests being answered. */
  active(): number;
  connections(): number;
  /** No new connections; idle ones are closed, the rest after their answer. */
  stopListening(): void;
  /** Stops listening, waits up to `graceMs` for answers under way and breaks off the rest. */
  close(graceMs: number): Promise<{ cut: number }>;
}

/** Pause after a failed accept: no file descriptor is free, or memory is short. */
const ACCEPT_PAUSE_MS = 100;
/** Connections that wait to be accepted; one more is tried again by its client's system, a second later. */
const BACKLOG = 4096;

/** Starts a server for HTTP/1.1 (ADR 0001). Throws `invalid_configuration` when the address cannot be had. */
export function startServer(options: ServerOptions): HubServer {
  const { app, clock, log, host } = options;
  const limits = { ...DEFAULT_SERVER_LIMITS, ...options.limits };
  const listener = listen(options);
  const connections = new Set<ClientConnection>();
  const deadlines = new Deadlines(clock);
  const stopped = new AbortController();
  let active = 0;
  const onIdle = new Set<() => void>();

  const server: ConnectionServer = {
    clock,
    deadlines,
    log,
    limits,
    scratches: new ScratchPool(),
    writeHead: createHeadWriter(clock, limits.idleTimeoutMs),
    handle: (request) => app.handle(request),
    isStopping: () => stopped.signal.aborted,
    isLeaving: options.isLeaving ?? (() => false),
    exchangeBegan: () => active++,
    exchangeEnded() {
      if (--active === 0) { for (const resolve of onIdle) resolve(); }
    },
    closed: (connection) => connections.delete(connection),
  };

  const accept = async () => {
    while (!stopped.signal.aborted) {
      let socket: Deno.TcpConn;
      try {
        socket = await listener.accept();
      } catch (error) {
        if (stopped.signal.aborted) return;
        if (hasGone(error)) continue;
        log.error("A connection could not be accepted", { error });
        await sleep(clock, ACCEPT_PAUSE_MS, stopped.signal).catch(() => {});
        continue;
      }
      try {
        // Some systems refuse this for a client that has already gone.
        socket.setNoDelay(true);
      } catch {
        socket.close();
        continue;
      }
      const remoteAddress = socket.remoteAddr.hostname;
      const connection = new ClientConnection(socket, { server, remoteAddress });
      connections.add(connection);
      connection.run();
    }
  };
  const accepting = accept();

  const { port } = listener.addr;
  const stopListening = () => {
    if (stopped.signal.aborted) return;
    stopped.abort();
    listener.close();
    for (const connection of [...connections]) connection.closeIfIdle();
  };
  return {
    port,
    url: `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
    active: () => active,
    connections: () => connections.size,
    stopListening,
    async close(graceMs) {
      stopListening();
      await accepting;
      if (active > 0) {
        const idle = Promise.withResolvers<void>();
        const timer = clock.setTimer(idle.resolve, graceMs);
        onIdle.add(idle.resolve);
        await idle.promise;
        onIdle.delete(idle.resolve);
        clock.clearTimer(timer);
      }
      const cut = active;
      const reason = new HubError("shutting_down", "The hub stopped before the answer was whole");
      for (const connection of [...connections]) connection.destroy(reason);
      deadlines.close();
      return { cut };
    },
  };
}

/** True for a client that left before it was accepted: whoever does that on purpose must not make others wait. */
function hasGone(error: unknown): boolean {
  const { NotConnected, ConnectionReset, ConnectionAborted } = Deno.errors;
  return error instanceof NotConnected || error instanceof ConnectionReset ||
    error instanceof ConnectionAborted;
}

/** Takes a port. Throws `invalid_configuration` that says why it cannot be had. */
export function listen(
  { host: hostname, port, reusePort = false }: Pick<ServerOptions, "host" | "port" | "reusePort">,
): Deno.TcpListener {
  try {
    return Deno.listen({ hostname, port, reusePort, tcpBacklog: BACKLOG });
  } catch (cause) {
    const why = cause instanceof Deno.errors.AddrInUse
      ? "another program uses it; server.port or LOOPHUB_PORT takes another"
      : cause instanceof Error
      ? cause.message
      : String(cause);
    throw new HubError("invalid_configuration", `Cannot listen on ${hostname}:${port}: ${why}`, {
      cause,
    });
  }
}
