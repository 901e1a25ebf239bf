import postgres from "postgres";
import { createIdSource } from "../../src/core/id.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { type Database, openDatabase } from "../../src/store/database.ts";
import { startEmbeddedPostgres } from "../../src/store/embedded_postgres.ts";
import { migrate } from "../../src/store/migrate.ts";
import { systemClock } from "./system_clock.ts";

/** A Postgres server of a test's own. */
export interface TestPostgres {
  /** Address of a fresh, migrated database. */
  url: string;
  stop(): Promise<void>;
}

export const MIGRATIONS = new URL("../../migrations/", import.meta.url);

/** Starts a server on a new folder, or makes a database on the one in `LOOPHUB_TEST_DATABASE_URL`. */
export async function startTestPostgres(
  options: { migrated?: boolean } = {},
): Promise<TestPostgres> {
  const given = Deno.env.get("LOOPHUB_TEST_DATABASE_URL");
  const server = given === undefined ? await startOwn() : { url: given, stop: async () => {} };
  const name = `test_${crypto.randomUUID().replaceAll("-", "")}`;
  const admin = postgres(server.url, { max: 1, onnotice() {} });
  await admin.unsafe(`create database ${name}`);
  await admin.end();
  const url = new URL(server.url);
  url.pathname = `/${name}`;
  if (options.migrated !== false) {
    await migrate(url.href, { folder: MIGRATIONS, log: SILENT_LOG });
  }
  return { url: url.href, stop: server.stop };
}

async function startOwn() {
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

/** Runs a body with a migrated database and its pools, then stops everything. */
export async function withDatabase(
  body: (db: Database, url: string) => Promise<void>,
  options: { deadlineMs?: number } = {},
): Promise<void> {
  const server = await startTestPostgres();
  const db = openDatabase({
    url: server.url,
    poolSize: 4,
    readPoolSize: 4,
    deadlineMs: options.deadlineMs ?? 10_000,
    prepare: true,
    clock: systemClock,
  });
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
