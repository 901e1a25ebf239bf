import assert from "node:assert/strict";
import postgres from "postgres";
import { createIdSource } from "../../src/core/id.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { type Database, type DatabaseOptions, openDatabase } from "../../src/store/database.ts";
import { startEmbeddedPostgres } from "../../src/store/embedded_postgres.ts";
import { migrate } from "../../src/store/migrate.ts";
import { startPickyPostgres } from "./picky_postgres.ts";
import { systemClock } from "./system_clock.ts";

/** A Postgres server of a test's own. */
export interface TestPostgres {
  url: string;
  stop(): Promise<void>;
}

export const MIGRATIONS = new URL("../../migrations/", import.meta.url);

/**
 * Whether all tests do without what distributed databases and poolers lack, behind a door that refuses it, and in
 * transactions that are serializable: `deno task test:distributed`.
 */
const IS_DISTRIBUTED = Deno.env.get("LOOPHUB_TEST_DISTRIBUTED") === "1";

/** The settings of `database` that say what there is. */
export const SWITCHES = {
  prepare: !IS_DISTRIBUTED,
  skipLocked: !IS_DISTRIBUTED,
  notify: !IS_DISTRIBUTED,
} as const;

/** Gives a fresh, migrated database: starts a server on a new folder, or makes a database on the one in `LOOPHUB_TEST_DATABASE_URL`. */
export async function startTestPostgres(
  options: { migrated?: boolean } = {},
): Promise<TestPostgres> {
  const given = Deno.env.get("LOOPHUB_TEST_DATABASE_URL");
  const server = given === undefined ? await startServer() : { url: given, stop: async () => {} };
  const name = `test_${crypto.randomUUID().replaceAll("-", "")}`;
  const admin = postgres(server.url, { max: 1, onnotice() {} });
  await admin.unsafe(`create database ${name}`);
  if (IS_DISTRIBUTED) {
    await admin.unsafe(`alter database ${name} set default_transaction_isolation = 'serializable'`);
  }
  await admin.end();
  const door = IS_DISTRIBUTED ? await startPickyPostgres(server.url) : null;
  const url = new URL(door?.url ?? server.url);
  url.pathname = `/${name}`;
  if (options.migrated !== false) {
    await migrate(url.href, { folder: MIGRATIONS, log: SILENT_LOG });
  }
  return {
    url: url.href,
    async stop() {
      await door?.stop();
      await server.stop();
      assert.deepEqual(door?.refused ?? [], [], "sent in spite of the switches");
    },
  };
}

/** Starts a server on a new folder of its own, without a database for tests. */
export async function startServer(): Promise<TestPostgres> {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-test-" });
  await Deno.chmod(folder, 0o755);
  const server = await startEmbeddedPostgres({
    dataDir: `${folder}/data`,
    log: SILENT_LOG,
    clock: systemClock,
  });
  return {
    url: server.url,
    async stop() {
      await server.stop();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** The pools of a replica of a test's own. */
export function openTestDatabase(url: string, options: Partial<DatabaseOptions> = {}): Database {
  return openDatabase({
    url,
    poolSize: 4,
    readPoolSize: 4,
    deadlineMs: 10_000,
    prepare: SWITCHES.prepare,
    skipLocked: SWITCHES.skipLocked,
    clock: systemClock,
    ...options,
  });
}

/** Runs a body with a migrated database and its pools, then stops everything. */
export async function withDatabase(
  body: (db: Database, url: string) => Promise<void>,
  options: { deadlineMs?: number } = {},
): Promise<void> {
  const server = await startTestPostgres();
  const db = openTestDatabase(server.url, options);
  try {
    await body(db, server.url);
  } finally {
    await db.close();
    await server.stop();
  }
}

/** Ids that are new in each process. */
export const testIds = createIdSource(
  () => Date.now(),
  (length) => crypto.getRandomValues(new Uint8Array(length)),
);
