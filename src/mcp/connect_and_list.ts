import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import { connectDeadline } from "./connect_deadline.ts";
import type { openClient, OpenedClient } from "./open_client.ts";
import type { OpenOptions } from "./open_options.ts";
import { readTools, type ToolListing } from "./read_tools.ts";

/** What connecting to a server and asking for its tools needs. */
export interface ConnectOptions extends Omit<OpenOptions, "onClose"> {
  open: typeof openClient;
  /** Called when a connection that was given has ended. */
  onLost(opened: OpenedClient): void;
}

/** Connects to a server and reads its tools, both within its `connectTimeoutMs`. Rejects with what counts for what is done next. */
export async function connectAndList(
  server: LoadedMcpServer,
  { open, onLost, ...options }: ConnectOptions,
): Promise<{ opened: OpenedClient; listing: ToolListing }> {
  const { connectTimeoutMs: timeoutMs } = server;
  const ended = options.signal;
  const { signal, clear } = connectDeadline(options.clock, { ms: timeoutMs, ended });
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
    if (signal.aborted) throw signal.reason;
    const ending = opened?.ending() ?? null;
    throw ending === null ? error : new Error(ending, { cause: error });
  } finally {
    clear();
  }
}
