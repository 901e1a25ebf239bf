import type { Clock } from "../core/clock.ts";
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

/** What all parts may take together beside the grace of answers under way, in milliseconds. */
const BEYOND_GRACE_MS = 3500;
/** What a part may still take when that is over; a Postgres of the hub's own stops for longer. */
const LEAST_MS = 50;
const LEAST_POSTGRES_MS = 1000;

/** The order for one hub, which has ended `graceMs` and five seconds after its end began. */
export function createClosing(
  { log, clock, graceMs }: { log: Log; clock: Clock; graceMs: number },
): Closing {
  return new ClosingOrder(
    CLOSING_ORDER,
    (part, error) => log.error("A part of the hub did not end well", { part, error }),
    {
      clock,
      withinMs: graceMs + BEYOND_GRACE_MS,
      leastMs: (part) => part === "postgres" ? LEAST_POSTGRES_MS : LEAST_MS,
    },
  );
}
