import postgres from "postgres";
import type { TestHub } from "./test_hub.ts";

/** The usage rows of one kind, oldest first, as the driver gives them (a bigint is text). */
export async function usageOf(
  { databaseUrl }: Pick<TestHub, "databaseUrl">,
  kind: string,
): Promise<Record<string, unknown>[]> {
  const sql = postgres(databaseUrl, { max: 1 });
  try {
    return [
      ...await sql`select * from hub.usage where kind = ${kind} order by started_at, usage_id`,
    ];
  } finally {
    await sql.end();
  }
}
