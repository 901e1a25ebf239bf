import type { ResolvedConfig } from "../config/load.ts";
import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import { type HubServer, type ServerOptions, startServer } from "./server/server.ts";

/** What is served, and how the configuration wants it. */
export interface PortOptions {
  app: ServerOptions["app"];
  server: ResolvedConfig["server"];
  reusePort: boolean;
  isLeaving: () => boolean;
  clock: Clock;
  log: Log;
}

/** A listening server that ends in two steps. */
export interface Port {
  server: HubServer;
  /** Takes no new connections from now on, and begins `shutdownGraceMs`. */
  stopListening(): void;
  /** Waits for what is left of `shutdownGraceMs`, then cuts the answers that are still under way. */
  drain(): Promise<void>;
}

/** What answers get at least once all runs are over, so that their streams end whole. */
const LEAST_GRACE_MS = 2000;

/** Listens as the configuration says. Throws `invalid_configuration` when the address cannot be had. */
export function openPort({ server: settings, ...options }: PortOptions): Port {
  const { clock, log } = options;
  const { host, port, headersTimeoutMs, requestTimeoutMs, idleTimeoutMs } = settings;
  const limits = { headersTimeoutMs, requestTimeoutMs, idleTimeoutMs };
  const server = startServer({ ...options, host, port, limits });
  let untilMs = 0;
  return {
    server,
    stopListening() {
      untilMs = clock.monotonic() + settings.shutdownGraceMs;
      server.stopListening();
    },
    async drain() {
      const { cut } = await server.close(Math.max(LEAST_GRACE_MS, untilMs - clock.monotonic()));
      if (cut > 0) log.warn("Answers were cut off: they did not end in time", { cut });
    },
  };
}
