import assert from "node:assert/strict";
import { SILENT_LOG } from "../../src/core/log.ts";
import { hasPgbouncer, startPgbouncer } from "../support/pgbouncer.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { replicasWork, withHubsAt } from "../support/replica_steps.ts";
import { eventually, startTestHub, type TestHub, tookUnder } from "../support/test_hub.ts";

const POOL_SIZE = 3;

const listenerUp = (hub: TestHub) =>
  eventually(async () => {
    const text = await (await hub.hub.app.request("/metrics")).text();
    return /^loophub_listener_up 1$/m.test(text) || null;
  });

Deno.test({
  name: "replicas work behind PgBouncer that pools by transaction, LISTEN past it",
  ignore: !hasPgbouncer,
  async fn(t) {
    const postgres = await startTestPostgres();
    const bouncer = await startPgbouncer(postgres.url, { poolSize: POOL_SIZE });
    try {
      const settings = { directUrl: postgres.url, prepare: false, notify: true, skipLocked: true };
      await withHubsAt(bouncer.url, settings, async ({ start, upstream }) => {
        const first = await start();
        const second = await start();
        await listenerUp(first);
        await listenerUp(second);
        await replicasWork(t, { first, second, upstream });
        // The backend of the first one's listener ends a moment after its connection.
        const rows = await eventually(async () => {
          const rows = await second.hub.start.db.control<{ name: string; count: number }[]>`
            select application_name as name, count(*)::int as count from pg_stat_activity
            where datname = current_database() and backend_type = 'client backend' group by 1 order by 1`;
          return rows[1]?.count === 1 ? rows : null;
        });
        assert.deepEqual(rows.map(({ name }) => name), ["loophub", "loophub listener"]);
        assert.ok((rows[0]?.count ?? 0) <= POOL_SIZE);
      });
    } finally {
      await bouncer.stop();
      await postgres.stop();
    }
  },
});

Deno.test({
  name: "a hub that has only a pooler's address says at its start that LISTEN hears nothing there",
  ignore: !hasPgbouncer,
  async fn() {
    const postgres = await startTestPostgres();
    const bouncer = await startPgbouncer(postgres.url, { poolSize: POOL_SIZE });
    const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-pooled-" });
    try {
      await tookUnder(4000, async () => {
        const whys: string[] = [];
        const warn = (_: string, fields?: { why?: unknown }) => void whys.push(`${fields?.why}`);
        const database = { directUrl: bouncer.url, prepare: false, notify: true };
        const hub = await startTestHub({ database }, {
          databaseUrl: bouncer.url,
          dataDir,
          log: { ...SILENT_LOG, warn },
        });
        const startedMs = performance.now();
        try {
          const why = await eventually(() => whys.find((why) => why.includes("LISTEN")));
          assert.match(why, /database\.directUrl/);
          const tookMs = performance.now() - startedMs;
          const text = await (await hub.hub.app.request("/metrics")).text();
          assert.doesNotMatch(text, /^loophub_listener_up 1$/m);
          return tookMs;
        } finally {
          await hub.close();
        }
      });
    } finally {
      await bouncer.stop();
      await postgres.stop();
      await Deno.remove(dataDir, { recursive: true });
    }
  },
});
