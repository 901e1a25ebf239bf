import postgres from "postgres";
import { HubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import { isConflict, stateOf, toDatabaseError } from "./database.ts";

/** What a migration run did. */
export interface Migrated {
  /** File names applied now, in order. */
  applied: string[];
  /** File names that the database has in all. */
  total: number;
}

/**
 * Applies the SQL files of `folder` that the database lacks, in the order of their names, each in a transaction of
 * its own. Several replicas may start at once: each file is applied by one of them, and the others wait for it. A
 * database that a newer hub has brought further serves this one too, with a warning, since migrations only add. Throws
 * `invalid_configuration` when a file that was applied has changed since, the database has files that this hub cannot
 * serve beside or does not hold all text; an error that names the file when one fails, or the database when it cannot be
 * used at all.
 */
export async function migrate(
  url: string,
  options: { folder: URL; log: Log },
): Promise<Migrated> {
  const { log } = options;
  const files = await readMigrations(options.folder);
  const sql = postgres(url, {
    max: 1,
    prepare: false,
    onnotice() {},
    connect_timeout: 10,
    connection: { application_name: "loophub migrations" },
  });
  try {
    const known = await openRecords(sql).catch((error) => {
      throw notUsable(url, error);
    });
    const newer = newerThan(files, known);
    if (newer.length > 0) {
      log.warn("The database is of a newer version of the hub, beside which this one may go on", {
        migrations: newer,
      });
    }
    const applied: string[] = [];
    for (const file of files) {
      const before = known.get(file.name);
      if (before === undefined) {
        if (!await apply(sql, file)) continue;
        log.debug("Migration applied", { name: file.name });
        applied.push(file.name);
      } else assertSame(file, before);
    }
    if (applied.length > 0) {
      log.info("Database is up to date", { migrationsApplied: applied.length });
    }
    return { applied, total: files.length + newer.length };
  } finally {
    await sql.end({ timeout: 2 });
  }
}

interface Migration {
  name: string;
  text: string;
  checksum: string;
}

/** A file after which older hubs must not start says so by its name: `0040_name_needs_0035.sql` wants one that knows 0035. */
const NEEDS = /_needs_(\d{4})\.sql$/;

/** What the database has behind all files of this hub. Throws when it cannot serve a hub that knows these alone. */
function newerThan(files: readonly Migration[], known: ReadonlyMap<string, string>): string[] {
  const last = files.at(-1)?.name ?? "";
  const unknown = [...known.keys()].filter((name) => !files.some((file) => file.name === name));
  const isWhole = files.every(({ name }) => known.has(name));
  for (const name of unknown) {
    const needs = NEEDS.exec(name)?.[1] ?? "";
    if (isWhole && name > last && needs <= last.slice(0, 4)) continue;
    throw new HubError(
      "invalid_configuration",
      `The database has migration ${name}, which this version of the hub does not know: start the newer version`,
    );
  }
  return unknown;
}

function assertSame({ name, checksum }: Migration, before: string): void {
  if (before === checksum) return;
  throw new HubError(
    "invalid_configuration",
    `Migration ${name} has changed since it was applied: put the old file back and add a new one`,
  );
}

async function openRecords(sql: postgres.Sql): Promise<Map<string, string>> {
  const [row] = await sql<{ encoding: string }[]>`
    select current_setting('server_encoding') as encoding`;
  if (row !== undefined && row.encoding !== "UTF8") {
    throw new HubError(
      "invalid_configuration",
      `The database is encoded as ${row.encoding}: make one with the encoding UTF8`,
    );
  }
  await createRecords(sql);
  return await readRecords(sql);
}

/** Names the database, without its user and password. */
function notUsable(url: string, cause: unknown): HubError {
  if (cause instanceof HubError) return cause;
  const { host, pathname } = new URL(url);
  const reason = cause instanceof Error && cause.message !== "" ? cause.message : stateOf(cause);
  return new HubError(
    toDatabaseError(cause).code,
    `Postgres at ${host}${pathname} cannot be used: ${reason}`,
    { cause },
  );
}

/** "If not exists" does not see what another replica is about to commit: it fails instead, and the next attempt sees it. */
async function createRecords(sql: postgres.Sql): Promise<void> {
  for (let attempt = 1;; attempt++) {
    try {
      await sql`create schema if not exists hub`;
      await sql`create table if not exists hub.schema_migrations (
        name text primary key, checksum text not null, applied_at timestamptz not null default now())`;
      return;
    } catch (error) {
      if (!MET_ANOTHER.test(stateOf(error)) || attempt === MAX_ATTEMPTS) throw error;
    }
  }
}

/** Checksums by name of what the database has. */
async function readRecords(sql: postgres.Sql): Promise<Map<string, string>> {
  const rows = await sql<{ name: string; checksum: string }[]>`
    select name, checksum from hub.schema_migrations order by name`;
  return new Map(rows.map((row) => [row.name, row.checksum]));
}

/**
 * Records a file and runs it in one transaction. The record comes first: its key makes replicas that start together wait
 * for each other, without a lock that not every database has. False when another one was first. Name and checksum are
 * safe as literals by their form.
 */
async function apply(sql: postgres.Sql, file: Migration): Promise<boolean> {
  const { name, text, checksum } = file;
  const record =
    `insert into hub.schema_migrations (name, checksum) values ('${name}', '${checksum}')`;
  for (let attempt = 1;; attempt++) {
    try {
      await sql.unsafe(`begin; ${record}; ${text}\n; commit;`).simple();
      return true;
    } catch (cause) {
      if (MET_ANOTHER.test(stateOf(cause))) {
        await sql`rollback`;
        const before = (await readRecords(sql)).get(name);
        if (before !== undefined) {
          assertSame(file, before);
          return false;
        }
        if (isConflict(cause) && attempt < MAX_ATTEMPTS) continue;
      }
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new HubError(toDatabaseError(cause).code, `Migration ${name} failed: ${reason}`, {
        cause,
      });
    }
  }
}

/** SQLSTATEs of a conflict with another transaction, or that what is to be made was just made. */
const MET_ANOTHER = /^(40001|40P01|23505|42710|42P0[67])$/;
const MAX_ATTEMPTS = 5;

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
