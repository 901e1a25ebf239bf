import { connect, type Socket } from "node:net";
import postgres from "postgres";
import type { Address } from "./dialer.ts";
import { CHANNEL } from "./notify.ts";

/** What a connection that listens tells. */
export interface ListenHandlers {
  onPayload(payload: string): void;
  /** The connection is gone; called at most once, and not after `close`. */
  onClosed(): void;
}

/** A connection that listens. */
export interface ListenConnection {
  /** Resolves when notifications arrive from now on; rejects when they never will. */
  readonly ready: Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens a connection of its own for LISTEN, which never comes back by itself. The driver's own ways do not serve: its
 * `listen` gives up in silence when its one attempt to listen again fails, it connects anew 300 times a second to an
 * address that hangs up, and it cannot let go of a connection whose other end is silent.
 */
export function openListenConnection(url: string, handlers: ListenHandlers): ListenConnection {
  const sockets: Socket[] = [];
  let isOpened = false;
  let closed = false;
  const options = {
    max: 1,
    prepare: false,
    fetch_types: false,
    onnotice() {},
    idle_timeout: 0,
    max_lifetime: null,
    connection: { application_name: "loophub listener" },
    // These three are known to the driver, not to its types.
    async socket({ host: hosts, port: ports, path }: Address) {
      if (isOpened) throw new Error("Postgres hung up before LISTEN was done");
      isOpened = true;
      let failure: unknown;
      for (const [index, host] of hosts.entries()) {
        const socket = path === false || path === ""
          ? connect({ host, port: ports[index] ?? 5432 })
          : connect({ path });
        sockets.push(socket);
        try {
          await connected(socket);
          // The name that its certificate is for.
          return Object.assign(socket, { host });
        } catch (error) {
          failure = error;
        }
      }
      throw failure;
    },
    onnotify: (_channel: string, payload: string) => handlers.onPayload(payload),
    onclose() {
      if (!closed) handlers.onClosed();
      closed = true;
    },
  };
  const sql = postgres(url, options);
  return {
    ready: sql.unsafe(`listen ${CHANNEL}`).then(() => {}),
    async close() {
      closed = true;
      await sql.end({ timeout: 0 });
      for (const socket of sockets) socket.destroy();
    },
  };
}

function connected(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    const onClose = () => reject(new Error("The connection was closed"));
    socket.once("close", onClose);
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("close", onClose);
      socket.off("error", reject);
      resolve();
    });
  });
}
