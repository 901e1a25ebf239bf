import { toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import { type Database, isRefusal } from "../store/database.ts";
import { settleUsage } from "../store/settle_budgets.ts";
import {
  countedRows,
  type EncodedUsageRow,
  idsOfUsageRow,
  insertUsage,
} from "../store/usage_rows.ts";

/** How a batch was written. */
export interface WrittenUsage {
  /** Rows that must wait, since Postgres is away; they are the batch's last. */
  left: EncodedUsageRow[];
  /** Rows that Postgres refuses, and that are lost. */
  refused: number;
}

/**
 * Writes rows and settles what they cost; doing it again changes nothing. A row that Postgres refuses is found by halving
 * and dropped alone. Never rejects.
 */
export async function writeUsage(
  rows: EncodedUsageRow[],
  { db, log }: { db: Database; log: Log },
): Promise<WrittenUsage> {
  try {
    await insertUsage(db, rows);
    const counted = countedRows(rows);
    if (counted.length > 0) await settleUsage(db, counted);
    return { left: [], refused: 0 };
  } catch (error) {
    if (!isRefusal(error)) {
      log.warn("Usage rows wait for Postgres", { rows: rows.length, error: toHubError(error) });
      return { left: rows, refused: 0 };
    }
    const [row] = rows;
    if (rows.length === 1 && row !== undefined) {
      log.error("A usage row was lost: Postgres refuses it", { ...idsOfUsageRow(row), error });
      return { left: [], refused: 1 };
    }
    const half = rows.length >> 1;
    const first = await writeUsage(rows.slice(0, half), { db, log });
    if (first.left.length > 0) return { ...first, left: [...first.left, ...rows.slice(half)] };
    const second = await writeUsage(rows.slice(half), { db, log });
    return { left: second.left, refused: first.refused + second.refused };
  }
}
