import assert from "node:assert/strict";
import postgres from "postgres";
import { SILENT_LOG } from "../../src/core/log.ts";
import { openDatabase } from "../../src/store/database.ts";
import { settleUsage } from "../../src/store/settle_budgets.ts";
import { DEFAULT_TENANT_ID as tenantId } from "../../src/store/tenant.ts";
import { createRandom } from "../support/random.ts";
import { systemClock } from "../support/system_clock.ts";
import { chatStream } from "../support/scripted_upstream.ts";
import { eventually, startTestHub } from "../support/test_hub.ts";
import { MONEY_CONFIG, sampleBudgets, used, withMoney } from "./money_rig.ts";

const CAP = 1_000_000;
const CALLS = 200;
const MAX_TOKENS = 10_000;

Deno.test("200 calls on three hubs against a key with a dollar: spent and reserved never pass it", async () => {
  await withMoney({}, async ({ hub, upstream, makeKey, ask }) => {
    const others = await Promise.all([1, 2].map(() =>
      startTestHub(MONEY_CONFIG(upstream.url), {
        databaseUrl: hub.databaseUrl,
        dataDir: hub.dataDir,
        key: hub.key,
        log: SILENT_LOG,
      })
    ));
    const hubs = [hub, ...others];
    const sql = postgres(hub.databaseUrl, { max: 2 });
    const random = createRandom(20_261_121);
    upstream.script((request) => {
      const usage = { promptTokens: 20, completionTokens: Math.floor(random() * MAX_TOKENS) };
      const delayMs = Math.ceil(random() * 10);
      if (request.json.stream !== true) return used(usage);
      const whole = { deltas: Array(20).fill("word "), usage, delayMs };
      const fate = random();
      if (fate < 0.25) return chatStream({ ...whole, endAfter: 8, end: "reset" });
      return fate < 0.4 ? chatStream({ ...whole, errorFrameAfter: 5 }) : chatStream(whole);
    });
    const { token } = await makeKey({ budgets: { total: { hardMicros: CAP } } });

    const sampling = sampleBudgets(sql, CAP);

    const statuses = new Map<number, number>();
    const call = async (index: number) => {
      const at = hubs[index % hubs.length] ?? hub;
      const leave = new AbortController();
      const stream = random() < 0.6;
      const timer = random() < 0.3
        ? setTimeout(() => leave.abort(), Math.ceil(random() * 120))
        : undefined;
      try {
        const answer = await ask(token, { stream, max_tokens: MAX_TOKENS }, {
          hub: at,
          signal: leave.signal,
        });
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
        await answer.text();
      } catch {
        // It left, or was cut.
      } finally {
        clearTimeout(timer);
      }
    };
    try {
      // Three times, so that what is settled makes room and in the end there is none.
      for (let round = 0; round < 3; round++) {
        await Promise.all(Array.from({ length: CALLS }, (_, index) => call(index)));
      }
      const settled = await eventually(async () => {
        const [row] =
          await sql`select spent_micros::float8 as spent, reserved_micros::float8 as reserved
          from hub.budget_windows where window_id = 'total'`;
        return row?.["reserved"] === 0 ? row : null;
      });
      const read = async () =>
        (await sql`select (select sum(cost_micros)::float8 from hub.usage) as cost,
          (select spent_micros::float8 from hub.budget_windows where window_id = 'total') as spent,
          (select count(*)::int from hub.usage u where not exists (select 1 from hub.reservations r
            where r.reservation_id = u.usage_id and r.settled_at is not null)) as unsettled,
          (select count(*)::int from hub.usage where outcome = 'aborted' and first_token_ms is null) as unanswered,
          (select count(*)::int from hub.usage) as rows`)[0];
      const before = await read();
      assert.equal(before?.["cost"], settled["spent"]);
      assert.equal(before?.["unsettled"], 0);
      // A call that was left while it was on its way has a row, whether its provider came to read it or not.
      const unread = before?.["rows"] - upstream.requests.length;
      assert.ok(
        unread >= 0 && unread <= before?.["unanswered"],
        `${unread} more rows than requests`,
      );

      const db = openDatabase({
        url: hub.databaseUrl,
        poolSize: 2,
        readPoolSize: 1,
        deadlineMs: 10_000,
        prepare: true,
        skipLocked: true,
        clock: systemClock,
      });
      const all = await sql`select usage_id::text as id from hub.usage`;
      await settleUsage(
        db,
        all.map(({ id }) => ({ tenantId, usageId: `usg_${id.replaceAll("-", "")}` })),
      );
      await db.close();
      assert.deepEqual(await read(), before);
      assert.ok((statuses.get(429) ?? 0) > 0 && (statuses.get(200) ?? 0) > 20, `${[...statuses]}`);
      assert.deepEqual(
        [...statuses.keys()].filter((status) => ![200, 429, 502].includes(status)),
        [],
      );
    } finally {
      const { samples, most } = await sampling.end();
      await sql.end();
      for (const other of others) await other.close();
      assert.ok(samples > 20, `${samples} samples`);
      assert.ok(most > CAP * 0.9, `at most ${most} were taken`);
    }
  });
});
