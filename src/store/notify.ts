import postgres from "postgres";
import type { Database } from "./database.ts";
import { toPayloads, type Wakeup } from "./wakeup.ts";

const CHANNEL = "loophub";

/** Tells all replicas of this database, the sender too. One statement, in no transaction of anybody. */
export async function notify(db: Database, wakeup: Wakeup): Promise<void> {
  const payloads = toPayloads(wakeup);
  await db.within(db.control`
    select pg_notify(${CHANNEL}, payload)
    from jsonb_array_elements_text(${db.control.json(payloads)}::jsonb) as payload`);
}

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
 * Opens a connection of its own for LISTEN. It never comes back by itself: the driver's own `listen` gives up for good,
 * in silence, when its one attempt to listen again fails.
 */
export function openListenConnection(url: string, handlers: ListenHandlers): ListenConnection {
  let closed = false;
  const options = {
    max: 1,
    prepare: false,
    fetch_types: false,
    onnotice() {},
    connect_timeout: 5,
    idle_timeout: 0,
    max_lifetime: null,
    connection: { application_name: "loophub listener" },
    // Known to the driver, not to its types.
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
    },
  };
}
