import postgres from "postgres";
import { HubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import { toDatabaseError } from "./database.ts";

/** Any fixed number: replicas that start together take this advisory lock in turn. */
const MIGRATION_LOCK = 4_141_000_001;

/** What a migration run did. */
export interface Migrated {
  /** File names applied now, in order. */
  applied: string[];
  /** File names that the database has in all. */
  total: number;
}

/**
 * Applies the SQL files of `folder` that the database lacks, in the order of their names, each in a transaction of
 * its own. Several replicas may start at once: one works, the others wait and find it done. Throws
 * `invalid_configuration` when a file that was applied has changed since, or the database is newer than the files;
 * an error that names the file when one fails.
 */
export async function migrate(
  url: string,
  options: { folder: URL; log: Log },
): Promise<Migrated> {
  const files = await readMigrations(options.folder);
  const sql = postgres(url, { max: 1, onnotice() {}, connect_timeout: 10 });
  try {
    await sql`select pg_advisory_lock(${MIGRATION_LOCK})`;
    await sql`create schema if not exists hub`;
    await sql`create table if not exists hub.schema_migrations (
      name text primary key, checksum text not null, applied_at timestamptz not null default now())`;
    const rows = await sql<{ name: string; checksum: string }[]>`
      select name, checksum from hub.schema_migrations order by name`;
    const known = new Map(rows.map((row) => [row.name, row.checksum]));
    for (const name of known.keys()) {
      if (!files.some((file) => file.name === name)) {
        throw new HubError(
          "invalid_configuration",
          `The database has migration ${name}, which this version of the hub does not know: start the newer version`,
        );
      }
    }
    const applied: string[] = [];
    for (const { name, text, checksum } of files) {
      const before = known.get(name);
      if (before === checksum) continue;
      if (before !== undefined) {
        throw new HubError(
          "invalid_configuration",
          `Migration ${name} has changed since it was applied: put the old file back and add a new one`,
        );
      }
      await apply(sql, { name, text, checksum });
      options.log.info("Migration applied", { name });
      applied.push(name);
    }
    return { applied, total: files.length };
  } finally {
    await sql.end({ timeout: 2 });
  }
}

/** Runs a file and records it in one transaction. Name and checksum are safe as literals by their form. */
async function apply(
  sql: postgres.Sql,
  { name, text, checksum }: { name: string; text: string; checksum: string },
): Promise<void> {
  const record =
    `insert into hub.schema_migrations (name, checksum) values ('${name}', '${checksum}')`;
  try {
    await sql.unsafe(`begin; ${text}\n; ${record}; commit;`).simple();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new HubError(toDatabaseError(cause).code, `Migration ${name} failed: ${reason}`, {
      cause,
    });
  }
}

async function readMigrations(folder: URL) {
  const names: string[] = [];
  for await (const entry of Deno.readDir(folder)) {
    if (/^\d{4}_\w+\.sql$/.test(entry.name)) names.push(entry.name);
  }
  return await Promise.all(
    names.sort().map(async (name) => {
      const bytes = await Deno.readFile(new URL(name, folder));
      const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
      return { name, text: new TextDecoder().decode(bytes), checksum: digest.toHex() };
    }),
  );
}
