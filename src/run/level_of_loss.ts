import type { HubError } from "../core/error.ts";
import type { LogLevel } from "../core/log.ts";

/** Failures after which a run goes on: at another replica, or when Postgres is back. */
const PASSING: ReadonlySet<string> = new Set([
  "lease_lost",
  "shutting_down",
  "database_unavailable",
]);

/** The level at which it is logged that a replica lost a run, or could not take one over: only a defect is an error. */
export function levelOfLoss({ code }: HubError): LogLevel {
  return PASSING.has(code) ? "warn" : "error";
}
