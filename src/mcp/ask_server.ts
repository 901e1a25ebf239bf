import type { Clock } from "../core/clock.ts";
import type { Json } from "../core/json.ts";
import type { McpRequest } from "./connection_state.ts";
import { isInDoubt } from "../core/outcome_unknown.ts";
import { describeFailure, describeToClient, isNeedsAuth, lostInCall, statusOf } from "./failure.ts";
import type { OpenedClient } from "./open_client.ts";
import { isLost, sendRequest } from "./send_request.ts";
import { untilAborted } from "./until_aborted.ts";

/** The connection that a request goes over. */
export interface AskedServer {
  name: string;
  clock: Clock;
  idleMs: number;
  /** Gives the client, connected if need be. */
  ready(): Promise<OpenedClient>;
  /** Throws for what must not be asked of the server as it is now. */
  check(): void;
  /** The server has forgotten the session. */
  onStale(opened: OpenedClient): void;
  onUnauthorized(opened: OpenedClient, error: unknown): void;
}

/**
 * Asks a server, once more where it has forgotten the session, or where the connection was lost and the request may be
 * repeated. Rejects with what the caller may read.
 */
export async function askServer(asked: McpRequest, server: AskedServer): Promise<Json> {
  const { name, clock, idleMs } = server;
  for (let tries = 0;; tries++) {
    const opened = await untilAborted(server.ready(), asked.signal);
    server.check();
    try {
      return await sendRequest(opened, asked, { clock, idleMs });
    } catch (error) {
      if (asked.signal.aborted) throw error;
      const status = statusOf(error);
      const isStale = opened.hasSession() && (status === 404 || status === 400 || status === 401);
      if (isStale) server.onStale(opened);
      else if (status === 401 || isNeedsAuth(error)) server.onUnauthorized(opened, error);
      // A gateway that lost the server behind it knows no more than the hub.
      const lost = isLost(error) || status === 502 || status === 504;
      if (tries === 0 && (isStale || lost && asked.pure)) continue;
      if (isInDoubt(error)) throw error;
      if (!lost) throw new Error(describeToClient(error), { cause: error });
      const reason = opened.ending() ?? describeFailure(error);
      throw lostInCall(name, { reason, cause: error });
    }
  }
}
