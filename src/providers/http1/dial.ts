import type { AbortLike } from "../../core/abort.ts";
import type { Clock } from "../../core/clock.ts";
import { HubError } from "../../core/error.ts";
import type { ByteSocket } from "../../wire/sockets/byte_socket.ts";
import type { Endpoint } from "./endpoint.ts";
import { connectTls } from "../../wire/sockets/tls_socket.ts";

/** Where a socket leads. */
export interface Destination {
  hostname: string;
  /** What the name stands for, when that has been found out. */
  address?: string;
  port: number;
  tls: boolean;
  signal: AbortSignal;
}

/** Opens a socket, TLS included. Rejects with the runtime's own error; ends early when the signal aborts. */
export type Connect = (to: Destination) => Promise<ByteSocket>;

/** What one connection attempt is bound to. */
export interface DialOptions {
  connect: Connect;
  clock: Clock;
  timeoutMs: number;
  signal: AbortLike;
}

/** Opens sockets with the runtime. `caCerts` (PEM) are the certificates to trust instead of the runtime's. */
export function createConnect(options: { caCerts?: string[] } = {}): Connect {
  return async ({ hostname, address = hostname, port, tls, signal }) => {
    if (tls) return await connectTls({ ...options, hostname, address, port, signal });
    const tcp = await Deno.connect({ hostname: address, port, signal });
    tcp.setNoDelay(true);
    return tcp;
  };
}

/**
 * Connects within `timeoutMs`. Rejects with `upstream_unreachable`, `upstream_timeout` or `aborted`, at once, even when
 * `connect` itself does not listen; a socket that comes too late is closed.
 */
export function dial(endpoint: Endpoint, options: DialOptions): Promise<ByteSocket> {
  const { connect, clock, timeoutMs, signal } = options;
  const { hostname, port, tls, label } = endpoint;
  if (signal.aborted) return Promise.reject(unsentError(signal));
  return new Promise((resolve, reject) => {
    const stop = new AbortController();
    let over = false;
    const finish = () => {
      over = true;
      clock.clearTimer(timer);
      signal.removeEventListener("abort", onAbort);
    };
    const giveUp = (error: HubError) => {
      if (over) return;
      finish();
      reject(error);
      stop.abort();
    };
    const onAbort = () => giveUp(unsentError(signal));
    const timer = clock.setTimer(
      () =>
        giveUp(
          new HubError(
            "upstream_timeout",
            `Connecting to the upstream took longer than ${timeoutMs} ms`,
            { details: { address: label } },
          ),
        ),
      timeoutMs,
    );
    signal.addEventListener("abort", onAbort);
    connect({ hostname, port, tls, signal: stop.signal }).then(
      (socket) => {
        if (over) return closeQuietly(socket);
        finish();
        resolve(socket);
      },
      (error) => giveUp(unreachable(label, error)),
    );
  });
}

/** What a caller gets whose signal has aborted; the signal's reason is the cause. */
export function abortedError(signal: AbortLike | null): HubError {
  return new HubError("aborted", "The call to the upstream was stopped", { cause: signal?.reason });
}

/** The same, of a call of which nothing was sent. */
export function unsentError(signal: AbortLike): HubError {
  const details = { isUnsent: true };
  return new HubError("aborted", "The call to the upstream was stopped before it was sent", {
    cause: signal.reason,
    details,
  });
}

function unreachable(label: string, error: unknown): HubError {
  const message = `Connecting to the upstream failed: ${reasonOf(error)}`;
  return new HubError("upstream_unreachable", message, {
    details: { address: label },
    cause: error,
  });
}

function reasonOf(error: unknown): string {
  if (error instanceof Deno.errors.ConnectionRefused) return "connection refused";
  if (error instanceof Deno.errors.NotCapable) return "the hub has no network permission for it";
  const text = error instanceof Error ? error.message : String(error);
  if (/getaddrinfo|lookup|resolve|nodename|name or service/i.test(text)) {
    return "its name cannot be resolved";
  }
  return text.slice(0, 200);
}

function closeQuietly(socket: ByteSocket): void {
  try {
    socket.close();
  } catch {
    // Closed before; there is nothing left to do.
  }
}
