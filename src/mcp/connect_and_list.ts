import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import { describeFailure } from "./failure.ts";
import type { openClient, OpenedClient, OpenOptions } from "./open_client.ts";
import { readTools, type ToolListing } from "./read_tools.ts";

/** What connecting to a server and asking for its tools needs. */
export interface ConnectOptions extends Omit<OpenOptions, "onClose"> {
  open: typeof openClient;
  /** Called when a connection that was given has ended. */
  onLost(opened: OpenedClient): void;
}

/** A server could not be connected to. */
export class ConnectFailure extends Error {
  /** What it was that counts for what is done next. */
  readonly reason: unknown;

  constructor(name: string, reason: unknown, options: ErrorOptions) {
    super(`The MCP server ${name} is not available: ${describeFailure(reason)}`, options);
    this.reason = reason;
  }
}

/** Connects to a server and reads its tools, both within its `connectTimeoutMs`. Rejects with `ConnectFailure`. */
export async function connectAndList(
  name: string,
  server: LoadedMcpServer,
  { open, onLost, ...options }: ConnectOptions,
): Promise<{ opened: OpenedClient; listing: ToolListing }> {
  const { clock } = options;
  const late = new AbortController();
  const { connectTimeoutMs: timeoutMs } = server;
  const timer = clock.setTimer(
    () => late.abort(new Error(`it did not answer within ${timeoutMs} ms`)),
    timeoutMs,
  );
  const signal = AbortSignal.any([late.signal, options.signal]);
  let opened: OpenedClient | null = null;
  let closed = false;
  try {
    signal.throwIfAborted();
    const onClose = () => {
      closed = true;
      if (opened !== null) onLost(opened);
    };
    opened = await open(server, { ...options, signal, onClose });
    const listing = await readTools(opened.client, { signal, timeoutMs });
    if (closed) throw new Error(opened.ending() ?? "the connection ended at once");
    return { opened, listing };
  } catch (error) {
    await opened?.close();
    const ending = signal.aborted ? null : opened?.ending() ?? null;
    const failure = signal.aborted ? signal.reason : error;
    const reason = ending === null ? failure : new Error(ending, { cause: error });
    throw new ConnectFailure(name, reason, { cause: error });
  } finally {
    clock.clearTimer(timer);
  }
}
