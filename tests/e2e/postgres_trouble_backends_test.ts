import assert from "node:assert/strict";
import postgres from "postgres";
import { checkLog } from "../../src/core/check_log.ts";
import { type Id, toUuid } from "../../src/core/id.ts";
import { eventually, tookUnder } from "../support/test_hub.ts";
import {
  ask,
  beginRun,
  eventsOf,
  newSession,
  scriptSteps,
  statusOf,
  TEXT,
  textOf,
  withTroubleRig,
} from "../support/trouble_rig.ts";

const KILL = "select pg_terminate_backend(pid) from pg_stat_activity " +
  "where application_name = 'loophub' and pid <> pg_backend_pid()";

Deno.test("backends that are terminated and pools that are exhausted", async (t) => {
  await withTroubleRig({ deadlineMs: 1500 }, async ({ hub, server, upstream }) => {
    await t.step(
      "every backend terminated again and again while a run goes on",
      async () => {
        const steps = 6;
        const gate = Promise.withResolvers<void>();
        scriptSteps(upstream, { gate: gate.promise, steps });
        const { runId, state, done } = await beginRun(hub, await newSession(hub));
        await eventually(() => Promise.resolve(state.text.includes("word15") || null));
        let over = false;
        void done.then(() => over = true);
        gate.resolve();
        let kills = 0;
        let kept = 0;
        do {
          await server.admin(KILL);
          kills++;
          assert.equal(await statusOf(ask(hub)), 200);
          // The next blow falls when the run has got further in spite of this one.
          kept = await eventually(async () => {
            const [row] = await server.admin<{ last: number }>(
              `select last_seq::int as last from hub.runs where run_id = '${toUuid(runId as Id)}'`,
            );
            return over || (row?.last ?? 0) > kept ? row?.last ?? null : null;
          });
        } while (!over);
        const seen = await done;
        assert.deepEqual(checkLog(seen), []);
        assert.equal(textOf(seen).length, steps * TEXT.length);
        assert.equal(seen.filter(({ event }) => event.type === "finish").length, 1);
        assert.ok(kills > 1, `${kills} kills`);
        await eventually(async () => (await statusOf(hub.call("/readyz"))) === 200 || null);
      },
    );

    await t.step(
      "a session that is locked takes all connections of requests: they are refused in time, a run goes on",
      async () => {
        const gate = Promise.withResolvers<void>();
        scriptSteps(upstream, { gate: gate.promise, steps: 2 });
        const { runId, state, done } = await beginRun(hub, await newSession(hub));
        await eventually(() => Promise.resolve(state.text.includes("word15") || null));
        const other = await newSession(hub);
        const locker = postgres(server.url, { max: 1, onnotice() {} });
        const release = Promise.withResolvers<void>();
        const locked = Promise.withResolvers<void>();
        const held = locker.begin(async (sql) => {
          await sql`select 1 from hub.sessions where session_id = ${
            toUuid(other as Id)
          } for update`;
          locked.resolve();
          await release.promise;
        });
        try {
          await locked.promise;
          let stop = false;
          const answers: string[] = [];
          /** One that needs the lock, and the milliseconds until its answer. */
          const refused = async () => {
            const startedMs = performance.now();
            const path = `/v1/sessions/${other}/messages`;
            const answer = await hub.call(path, { body: { text: "Now?" } });
            const { error } = await answer.json();
            answers.push(`${answer.status} ${error?.code} ${answer.headers.get("retry-after")}`);
            return performance.now() - startedMs;
          };
          const crowd = Array.from({ length: 20 }, async () => {
            while (!stop) await refused();
          });
          await eventually(() => Promise.resolve(answers.length >= 20 || null));
          gate.resolve();
          // The first step ends and the second one is said, all of it durable, while the crowd waits for the lock.
          await eventually(async () => {
            const rows = await server.admin<{ step: number }>(
              "select step from hub.steps where state = 'done'",
            );
            const events = eventsOf(state.text);
            const isSaid = textOf(events).length === 2 * TEXT.length;
            return isSaid && rows.length > 0 ? true : null;
          });
          assert.equal(await statusOf(ask(hub)), 200);
          stop = true;
          await Promise.all(crowd);
          // Nobody waits for the lock: the deadline ends it, also for those who wait for a connection.
          await tookUnder(2000, async () => {
            return Math.max(...await Promise.all(Array.from({ length: 20 }, refused)));
          });
          assert.deepEqual([...new Set(answers)], ["503 database_unavailable 1"]);
        } finally {
          release.resolve();
          await held;
          await locker.end();
        }
        const seen = await done;
        assert.deepEqual(checkLog(seen), []);
        assert.equal(seen.at(-1)?.event.type, "finish");
        const { status } = await (await hub.call(`/v1/runs/${runId}`)).json();
        assert.equal(status, "completed");
      },
    );
  });
});

Deno.test("Postgres away for longer than a lease: the run is taken up again, and its log is whole", async () => {
  await withTroubleRig({ deadlineMs: 1500, leaseMs: 5000 }, async ({ hub, server, upstream }) => {
    const session = await newSession(hub);
    const gate = Promise.withResolvers<void>();
    scriptSteps(upstream, { gate: gate.promise, steps: 2 });
    const { runId, state, done } = await beginRun(hub, session);
    await eventually(() => Promise.resolve(state.text.includes("word15") || null));
    await server.stop("immediate");
    gate.resolve();
    const seen = await done;
    assert.ok(!seen.some(({ event }) => event.type === "finish"));
    assert.ok(!state.text.includes("[DONE]"));
    await server.start();
    const ended = await eventually(async () => {
      const answer = await hub.call(`/v1/runs/${runId}`);
      const run = await answer.json();
      return run.status === "running" ? null : run;
    });
    assert.equal(ended.status, "completed");
    const log = eventsOf(await (await hub.call(`/v1/runs/${runId}/stream`)).text());
    assert.deepEqual(checkLog(log), []);
    assert.equal(log.filter(({ event }) => event.type === "finish").length, 1);
    // Who was cut off sees no number twice, and nothing else under a number that it knows.
    const known = new Map(seen.map(({ seq, event }) => [seq, event]));
    for (const { seq, event } of log) if (known.has(seq)) assert.deepEqual(event, known.get(seq));
    const cursor = String(seen.at(-1)?.seq);
    const rest = eventsOf(
      await (await hub.call(`/v1/runs/${runId}/stream?after=${cursor}`)).text(),
    );
    assert.deepEqual(rest, log.filter(({ seq }) => seq > Number(cursor)));
    scriptSteps(upstream, { gate: Promise.resolve(), steps: 1 });
    const next = await beginRun(hub, session);
    assert.equal(textOf(await next.done), TEXT);
  });
});
