import assert from "node:assert/strict";
import postgres from "postgres";
import { toUuid } from "../../src/core/id.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import { createSession } from "../../src/store/sessions.ts";
import { pruneEvents } from "../../src/store/prune_events.ts";
import { readEvents } from "../../src/store/runs.ts";
import { beginRun, tenantId, write } from "../run/run_rig.ts";
import { testIds, withDatabase } from "../support/postgres.ts";

Deno.test("event logs are pruned in bounded batches, each run once", async () => {
  await withDatabase(async (db) => {
    const runs = [];
    for (let at = 0; at < 7; at++) {
      const run = await beginRun(db);
      runs.push(run);
      await write(db, run, [run.start]);
      if (at === 6) continue;
      await write(db, run, [{
        type: "finish",
        finishReason: "stop",
        usage: NO_USAGE,
        costMicros: 0,
        metadata: { model: "m", provider: "p" },
      }], {
        after: 1,
        finish: {
          status: "completed",
          finishReason: "stop",
          usage: NO_USAGE,
          costMicros: 0,
          provider: "p",
          model: "m",
        },
      });
      if (at === 5) continue;
      await db.control`update hub.runs set finished_at = now() - interval '2 hours'
        where run_id = ${toUuid(run.runId)}`;
    }
    let statements = 0;
    const counting = {
      ...db,
      within: <T>(query: PromiseLike<T> & { cancel?: () => void }) => {
        statements++;
        return db.within(query);
      },
    };
    assert.equal(await pruneEvents(counting, 1, { batch: 2 }), 10);
    // In batches of two: three, or a look each and six runs one by one.
    assert.equal(statements, db.skipLocked ? 3 : 3 + 5);
    const left = await Promise.all(runs.map(async ({ runId }) => {
      return (await readEvents(db, { tenantId, runId, afterSeq: 0, limit: 10 })).length;
    }));
    assert.deepEqual(left, [0, 0, 0, 0, 0, 2, 1]);
    assert.equal(await pruneEvents(db, 1), 0);

    // What is left to look at is found by an index, however many runs there have been.
    const plan = await db.control.begin(async (tx) => {
      await tx`set local enable_seqscan = off`;
      return await tx`explain select 1 from hub.runs
        where events_pruned_at is null and finished_at < now() order by finished_at limit 10`;
    });
    assert.match(JSON.stringify(plan), /runs_unpruned/);
  });
});

Deno.test("the operators' views show a reader what its own rights show", async () => {
  await withDatabase(async (db, url) => {
    const keyId = testIds.next("key");
    const other = crypto.randomUUID();
    for (const tenant of [tenantId, other]) {
      const sessionId = testIds.next("ses");
      await createSession(db, { tenantId: tenant, sessionId, agent: "default", keyId });
    }
    const [version] = await db.read`select current_setting('server_version_num')::int as number`;
    if (version?.["number"] < 150_000) return;
    const role = `reader_${crypto.randomUUID().replaceAll("-", "")}`;
    const sql = postgres(url, { max: 1, onnotice() {} });
    try {
      await sql.unsafe(`create role ${role}; grant ${role} to current_user;
        grant usage on schema hub to ${role};
        grant select on all tables in schema hub to ${role}`);
      const views = await sql<{ name: string }[]>`
        select c.relname as name from pg_class c
        where c.relnamespace = 'hub'::regnamespace and c.relkind = 'v'
          and not coalesce(c.reloptions @> '{security_invoker=true}', false)`;
      assert.deepEqual(views.map(({ name }) => name), []);
      await sql.unsafe(`set role ${role}`);
      const seen = async () =>
        (await sql<{ tenant: string }[]>`
          select tenant_id as tenant from hub.session_overview`).map(({ tenant }) => tenant);
      assert.deepEqual(await seen(), []);
      await sql`select set_config('app.tenant', ${other}, false)`;
      assert.deepEqual(await seen(), [other]);
    } finally {
      await sql.unsafe(`reset role; drop owned by ${role}; drop role ${role}`);
      await sql.end();
    }
  });
});
