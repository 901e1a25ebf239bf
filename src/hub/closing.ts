import { ClosingOrder } from "../core/closing_order.ts";
import type { Log } from "../core/log.ts";

/** The hub's end. Each part still has all that stands behind it: runs write and stream their ends, cut answers are accounted. */
const CLOSING_ORDER = [
  "readiness",
  "listener",
  "housekeeping",
  "runs",
  "background responses",
  "server",
  "mcp",
  "kept answers",
  "cached answers",
  "kept responses",
  "fan-out",
  "keys",
  "providers",
  "mcp approvals",
  "mcp servers",
  "upstreams",
  "deadlines",
  "usage",
  "database",
  "driver guard",
  "postgres",
] as const;

/** Where each part of the hub says how it ends. */
export type Closing = ClosingOrder<typeof CLOSING_ORDER[number]>;

/** The order for one hub. */
export function createClosing(log: Log): Closing {
  return new ClosingOrder(
    CLOSING_ORDER,
    (part, error) => log.error("A part of the hub did not end well", { part, error }),
  );
}
