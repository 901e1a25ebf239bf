import { fromUuid } from "../core/id.ts";
import type { Database } from "./database.ts";

/** What a question to people has in its row, whoever asks it. */
export interface AskedRow {
  runId: string;
  toolCallId: string;
  /** The key that answered; null when nobody did, or the command line. */
  decidedBy: string | null;
  createdAt: Date;
  expiresAt: Date;
  decidedAt: Date | null;
}

/**
 * How the question `a` stands that was asked in the run `r`: what nobody has answered ends with its run and its time,
 * which do not wait for a write of their own.
 */
export function askedState({ read }: Database) {
  return read`(case when a.state <> 'pending' then a.state
    when r.finished_at is not null or r.cancel_requested_at is not null then 'cancelled'
    when a.expires_at <= now() then 'expired' else 'pending' end)`;
}

/** The row as the hub knows it: times are RFC 3339. */
export function readAsked<T extends AskedRow>(row: T) {
  return {
    ...row,
    runId: fromUuid("run", row.runId),
    toolCallId: fromUuid("call", row.toolCallId),
    decidedBy: row.decidedBy === null ? null : fromUuid("key", row.decidedBy),
    createdAt: row.createdAt.toISOString(),
    expiresAt: row.expiresAt.toISOString(),
    decidedAt: row.decidedAt?.toISOString() ?? null,
  };
}
