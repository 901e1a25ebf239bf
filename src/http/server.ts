import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Clock } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import { answerClientError, headersTooLarge } from "./client_error.ts";
import { Exchange } from "./exchange.ts";
import type { HubRequest } from "./hub_request.ts";
import { NodeRequest } from "./node_request.ts";
import { errorReply } from "./on_error.ts";
import type { Reply } from "./reply.ts";
import { steadyConnections } from "./steady_connections.ts";

/** Bounds of a server; a client that passes one is answered or cut. */
export interface ServerLimits {
  /** From the connection, or the request before, to the end of the header. */
  headersTimeoutMs: number;
  /** Reading the body, after the header's time. */
  requestTimeoutMs: number;
  /** An idle kept-alive connection. */
  idleTimeoutMs: number;
  maxHeaderBytes: number;
  maxHeaders: number;
  /** A client that takes nothing while bytes wait for it. */
  writeTimeoutMs: number;
}

/** Bounds used where the configuration sets none. */
export const DEFAULT_SERVER_LIMITS: Readonly<ServerLimits> = Object.freeze({
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  idleTimeoutMs: 75_000,
  maxHeaderBytes: 16_384,
  maxHeaders: 100,
  writeTimeoutMs: 60_000,
});

/** What a server needs. */
export interface ServerOptions {
  /** Answers a request; must not throw. */
  app: { handle(request: HubRequest): Reply | Promise<Reply> };
  host: string;
  /** 0 takes any free port. */
  port: number;
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

/** Starts a server (ADR 0001: `node:http`). Rejects `invalid_configuration` when the address cannot be had. */
export async function startServer(options: ServerOptions): Promise<HubServer> {
  const { app, clock, log } = options;
  const limits = { ...DEFAULT_SERVER_LIMITS, ...options.limits };
  /**
   * Exchanges under way by connection, oldest first: a pipelined request has no socket of its own until its turn.
   * No set of all exchanges: see `steadyConnections` for what entries that come and go with each request cost.
   */
  const connections = new Map<Socket, Exchange[]>();
  let active = 0;
  let stopping = false;
  let steady = false;
  let onIdle: (() => void) | null = null;

  const exchangeOptions = {
    clock,
    writeTimeoutMs: limits.writeTimeoutMs,
    isStopping: () => stopping,
    onEnd() {
      active--;
      if (!stopping) return;
      server.closeIdleConnections();
      if (active === 0) onIdle?.();
    },
  };

  const answer = (
    message: IncomingMessage,
    response: ServerResponse,
    expectsContinue: boolean,
  ): void => {
    const request = new NodeRequest(message, response, { expectsContinue });
    const siblings = connections.get(message.socket) ?? [];
    const exchange = new Exchange(request, response, { server: exchangeOptions, siblings });
    active++;
    if (request.headerCount > limits.maxHeaders) {
      const text = `The request has more than ${limits.maxHeaders} header fields`;
      return exchange.send(errorReply(headersTooLarge(text)));
    }
    try {
      const reply = app.handle(request);
      if (!(reply instanceof Promise)) return exchange.send(reply);
      reply.then((reply) => exchange.send(reply)).catch((error) => abandon(exchange, error));
    } catch (error) {
      abandon(exchange, error);
    }
  };

  const abandon = (exchange: Exchange, error: unknown): void => {
    log.error("A request could not be answered", { error });
    exchange.destroy(error);
  };

  const server = createServer({
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.headersTimeoutMs + limits.requestTimeoutMs,
    keepAliveTimeout: limits.idleTimeoutMs,
    connectionsCheckingInterval: Math.min(1000, Math.ceil(limits.headersTimeoutMs / 4)),
    maxHeaderSize: limits.maxHeaderBytes,
    requireHostHeader: false,
  }, (message, response) => answer(message, response, false));
  // Past this number node drops fields silently; the count above refuses them.
  server.maxHeadersCount = 0;
  server.on("checkContinue", (message: IncomingMessage, response: ServerResponse) => {
    answer(message, response, true);
  });
  server.on("connection", (socket: Socket) => {
    const exchanges: Exchange[] = [];
    connections.set(socket, exchanges);
    socket.once("close", () => {
      connections.delete(socket);
      for (const exchange of [...exchanges]) exchange.close();
    });
    steady ||= steadyConnections(server);
  });
  server.on("clientError", (error: Error & { code?: string }, socket: Socket) => {
    const isAnswering = [...connections.get(socket) ?? []].some((each) => each.ownsConnection);
    answerClientError(socket, { code: error.code, isAnswering, clock });
  });

  const port = await listen(server, options);
  const name = options.host.includes(":") ? `[${options.host}]` : options.host;
  const stopListening = () => {
    if (stopping) return;
    stopping = true;
    server.close();
    server.closeIdleConnections();
  };
  return {
    port,
    url: `http://${name}:${port}`,
    active: () => active,
    connections: () => connections.size,
    stopListening,
    async close(graceMs) {
      stopListening();
      if (active > 0) {
        await new Promise<void>((resolve) => {
          const timer = clock.setTimer(resolve, graceMs);
          onIdle = () => {
            clock.clearTimer(timer);
            resolve();
          };
        });
        onIdle = null;
      }
      const cut = active;
      const reason = new HubError("shutting_down", "The hub stopped before the answer was whole");
      for (const exchange of [...connections.values()].flat()) exchange.destroy(reason);
      const gone = [...connections.keys()].map((socket) =>
        new Promise<void>((resolve) => socket.once("close", () => resolve()))
      );
      server.closeAllConnections();
      await Promise.all(gone);
      return { cut };
    },
  };
}

function listen(server: Server, { host, port }: ServerOptions): Promise<number> {
  return new Promise((resolve, reject) => {
    const onError = (cause: Error & { code?: string }) => {
      const why = cause.code === "EADDRINUSE" ? "another program uses it" : cause.message;
      reject(
        new HubError("invalid_configuration", `Cannot listen on ${host}:${port}: ${why}`, {
          cause,
        }),
      );
    };
    server.once("error", onError);
    server.listen(port, host, () => {
      server.removeListener("error", onError);
      resolve((server.address() as AddressInfo).port);
    });
  });
}
