import assert from "node:assert/strict";
import { type Id, toUuid } from "../../src/core/id.ts";
import { readWindows, reserve } from "../../src/store/budgets.ts";
import type { Database } from "../../src/store/database.ts";
import { createKey } from "../../src/store/keys.ts";
import { correctRate, sliceOf, takeRate } from "../../src/store/rates.ts";
import {
  pruneMoney,
  releaseReservations,
  renewReservations,
  settleUsage,
  sweepReservations,
} from "../../src/store/settle_budgets.ts";
import { DEFAULT_TENANT_ID as tenantId } from "../../src/store/tenant.ts";
import { encodeUsageRow, insertUsage, type UsageRow } from "../../src/store/usage_rows.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { usageRow } from "../support/usage_rows.ts";

const WINDOWS = [
  { id: "2026-11-21", path: ["budgets", "daily"] },
  { id: "total", path: ["budgets", "total"] },
];

async function newKey(db: Database, policy: Record<string, unknown>): Promise<string> {
  const keyId = testIds.next("key");
  const lookupId = keyId.slice(-16);
  await createKey(db, {
    tenantId,
    keyId,
    name: "k",
    role: "user",
    lookupId,
    hash: new Uint8Array(32),
    policy: policy as never,
  });
  return keyId;
}

function wishOf(keyId: string, amountMicros: number, more: Record<string, unknown> = {}) {
  const usageId = testIds.next("usg");
  return {
    tenantId,
    keyId,
    usageId,
    requestId: `req_${usageId}`,
    amountMicros,
    leaseMs: 60_000,
    windows: WINDOWS,
    ...more,
  };
}

const rowOf = (keyId: string, usageId: string, more: Partial<UsageRow> = {}): UsageRow =>
  usageRow(0, {
    ...{ usageId, tenantId, keyId, requestId: "req_1", costMicros: 40 },
    startedAt: Date.UTC(2026, 10, 21, 12),
    budgetWindows: WINDOWS.map(({ id }) => id),
    ...more,
  });

const write = (db: Database, ...rows: UsageRow[]) => insertUsage(db, rows.map(encodeUsageRow));

async function stand(db: Database, keyId: string, ids = ["2026-11-21", "total"]) {
  const windows = await readWindows(db, { tenantId, keyId, ids });
  return windows.toSorted((a, b) => a.id < b.id ? -1 : 1)
    .map(({ spentMicros, reservedMicros }) => [spentMicros, reservedMicros]);
}

Deno.test("budgets in Postgres", async (t) => {
  await withDatabase(async (db) => {
    await t.step("reserves in all windows up to the cap, and then in none", async () => {
      const keyId = await newKey(db, { budgets: { total: { hardMicros: 100 } } });
      assert.equal((await reserve(db, wishOf(keyId, 60))).fits, true);
      const refused = await reserve(db, wishOf(keyId, 41));
      assert.equal(refused.fits, false);
      assert.deepEqual(refused.windows.map((window) => [window.id, window.reservedMicros]), [
        ["2026-11-21", 60],
        ["total", 60],
      ]);
      assert.equal((await reserve(db, wishOf(keyId, 40))).fits, true);
      assert.deepEqual(await stand(db, keyId), [[0, 100], [0, 100]]);
    });

    await t.step("many at once never pass the cap", async () => {
      const keyId = await newKey(db, { budgets: { daily: { hardMicros: 1000 } } });
      const verdicts = await Promise.all(
        Array.from({ length: 60 }, () => reserve(db, wishOf(keyId, 70))),
      );
      assert.equal(verdicts.filter(({ fits }) => fits).length, 14);
      assert.deepEqual(await stand(db, keyId), [[0, 980], [0, 980]]);
    });

    await t.step("a usage row settles its reservation, once", async () => {
      const keyId = await newKey(db, { budgets: { total: { hardMicros: 100 } } });
      const wish = wishOf(keyId, 90);
      await reserve(db, wish);
      await write(db, rowOf(keyId, wish.usageId));
      for (let time = 0; time < 3; time++) await settleUsage(db, [wish]);
      assert.deepEqual(await stand(db, keyId), [[40, 0], [40, 0]]);
      await releaseReservations(db, [wish]);
      await sweepReservations(db);
      assert.deepEqual(await stand(db, keyId), [[40, 0], [40, 0]]);
    });

    await t.step("a call without a reservation is charged all the same", async () => {
      const keyId = await newKey(db, { budgets: { total: { hardMicros: 100 } } });
      await reserve(db, wishOf(keyId, 1));
      const late = { tenantId, usageId: testIds.next("usg") };
      await write(db, rowOf(keyId, late.usageId, { startedAt: Date.now() }));
      await settleUsage(db, [late]);
      await settleUsage(db, [late]);
      assert.deepEqual(await stand(db, keyId), [[40, 1], [40, 1]]);
    });

    await t.step(
      "a call whose settled reservation may be pruned is not charged again",
      async () => {
        const keyId = await newKey(db, { budgets: { total: { hardMicros: 100 } } });
        await reserve(db, wishOf(keyId, 1));
        const old = { tenantId, usageId: testIds.next("usg") };
        const startedAt = Date.now() - 8 * 86_400_000;
        await write(db, rowOf(keyId, old.usageId, { startedAt }));
        await settleUsage(db, [old]);
        assert.deepEqual(await stand(db, keyId), [[0, 1], [0, 1]]);
      },
    );

    await t.step("real figures replace what an orphaned call was charged", async () => {
      for (const cost of [15, 70, null]) {
        const keyId = await newKey(db, { budgets: { total: { hardMicros: 100 } } });
        const wish = wishOf(keyId, 90);
        await reserve(db, wish);
        await write(db, rowOf(keyId, wish.usageId, { errorCode: "orphaned", estimated: true }));
        for (let time = 0; time < 2; time++) await settleUsage(db, [wish]);
        assert.deepEqual(await stand(db, keyId), [[40, 0], [40, 0]]);
        await write(db, rowOf(keyId, wish.usageId, { costMicros: cost }));
        await Promise.all([1, 2, 3].map(() => settleUsage(db, [wish])));
        await write(db, rowOf(keyId, wish.usageId, { errorCode: "orphaned" }));
        await settleUsage(db, [wish]);
        assert.deepEqual(await stand(db, keyId), [[cost ?? 0, 0], [cost ?? 0, 0]]);
      }
    });

    await t.step("what never reached a provider is given back", async () => {
      const keyId = await newKey(db, { budgets: { total: { hardMicros: 100 } } });
      const wish = wishOf(keyId, 90);
      await reserve(db, wish);
      await releaseReservations(db, [wish]);
      await releaseReservations(db, [wish]);
      assert.deepEqual(await stand(db, keyId), [[0, 0], [0, 0]]);
    });

    await t.step("an expired reservation is freed, or settled when its row is there", async () => {
      const keyId = await newKey(db, { budgets: { total: { hardMicros: 1000 } } });
      const lost = wishOf(keyId, 100, { leaseMs: -1 });
      const written = wishOf(keyId, 200, { leaseMs: -1 });
      const renewed = wishOf(keyId, 300, { leaseMs: -1 });
      for (const wish of [lost, written, renewed]) await reserve(db, wish);
      await renewReservations(db, [renewed], 60_000);
      await write(db, rowOf(keyId, written.usageId));
      assert.equal(await sweepReservations(db), 1);
      assert.equal(await sweepReservations(db), 0);
      assert.deepEqual(await stand(db, keyId), [[40, 300], [40, 300]]);
      // Its row comes after all: it costs what it costs, and frees nothing twice.
      await write(db, rowOf(keyId, lost.usageId));
      await settleUsage(db, [lost]);
      assert.deepEqual(await stand(db, keyId), [[80, 300], [80, 300]]);
    });

    await t.step("windows begin with what the key has spent before", async () => {
      const keyId = await newKey(db, {
        budgets: { total: { hardMicros: 100 } },
        agentBudgets: { clerk: { daily: { hardMicros: 100 } } },
      });
      const yesterday = Date.UTC(2026, 10, 20, 12);
      const free = { budgetWindows: null };
      await write(
        db,
        rowOf(keyId, testIds.next("usg"), free),
        rowOf(keyId, testIds.next("usg"), { ...free, startedAt: yesterday }),
        rowOf(keyId, testIds.next("usg"), { ...free, costMicros: null }),
      );
      const windows = [
        ...WINDOWS,
        { id: "2026-11", path: ["budgets", "monthly"] },
        { id: "agent clerk 2026-11-21", path: ["agentBudgets", "clerk", "daily"] },
      ];
      const { windows: states } = await reserve(db, wishOf(keyId, 20, { windows }));
      assert.deepEqual(
        states.map(({ id, spentMicros, hardMicros }) => [id, spentMicros, hardMicros]),
        [
          ["2026-11", 80, null],
          ["2026-11-21", 40, null],
          ["agent clerk 2026-11-21", 0, 100],
          ["total", 80, 100],
        ],
      );
    });

    await t.step("what is settled for a week is dropped", async () => {
      await db
        .control`update hub.reservations set settled_at = now() - interval '8 days' where settled_at is not null`;
      await pruneMoney(db);
      const rows = await db.read`select 1 from hub.reservations where settled_at is not null`;
      assert.equal(rows.length, 0);
    });

    await t.step(
      "any minute has room for so many requests and tokens, over all who ask",
      async () => {
        const keyId = testIds.next("key");
        const slice = sliceOf(Date.UTC(2026, 10, 21, 10, 7, 3));
        const ask = (tokens: number, at = slice) =>
          takeRate(db, { tenantId, keyId, slice: at, tokens, maxRequests: 5, maxTokens: 100 });
        const all = await Promise.all(Array.from({ length: 20 }, () => ask(10)));
        assert.equal(all.filter(({ taken }) => taken).length, 5);
        const full = { taken: false, requests: 5, tokens: 50 };
        assert.deepEqual(await ask(10), { ...full, slice, slices: { [slice]: [5, 50] } });
        assert.equal((await ask(10, slice + 20)).taken, false);
        const next = { taken: true, requests: 1, tokens: 10, slice: slice + 21, slices: null };
        assert.deepEqual(await ask(10, slice + 21), next);
        const other = { tenantId, keyId, slice: slice + 42 };
        const wide = { ...other, maxRequests: null, maxTokens: 100 };
        assert.equal((await takeRate(db, { ...wide, tokens: 101 })).taken, false);
        assert.equal((await takeRate(db, { ...wide, tokens: 90 })).taken, true);
        const later = { ...wide, slice: slice + 44 };
        assert.equal((await takeRate(db, { ...later, tokens: 11 })).taken, false);
        await correctRate(db, { ...other, tokens: -60 });
        await correctRate(db, { ...other, slice: slice + 43, tokens: 60 });
        const verdict = await takeRate(db, { ...later, tokens: 11 });
        assert.deepEqual([verdict.taken, verdict.requests, verdict.tokens], [true, 2, 41]);
      },
    );
  });
});

Deno.test("the queries of each night in docs/operations.md name what does not add up, and nothing else", async () => {
  const docs = await Deno.readTextFile(new URL("../../docs/operations.md", import.meta.url));
  const queries = [...docs.matchAll(/```sql\n(select [^`;]+hub\.budget_windows[^`;]+;)/g)].map((
    m,
  ) => m[1] ?? "");
  assert.equal(queries.length, 2);
  await withDatabase(async (db) => {
    const ask = () =>
      Promise.all(queries.map(async (query) => (await db.read.unsafe(query)).length));
    const keyId = await newKey(db, { budgets: { total: { hardMicros: 1000 } } });
    await write(db, rowOf(keyId, testIds.next("usg"), { budgetWindows: null }));
    const wishes = [wishOf(keyId, 100), wishOf(keyId, 100), wishOf(keyId, 100, { leaseMs: -1 })];
    for (const wish of wishes) await reserve(db, wish);
    const [first] = wishes;
    assert.ok(first !== undefined);
    await write(db, rowOf(keyId, first.usageId));
    assert.deepEqual(await ask(), [2, 0]);
    await settleUsage(db, [first]);
    await sweepReservations(db);
    assert.deepEqual(await ask(), [0, 0]);
    assert.deepEqual(await stand(db, keyId), [[80, 100], [80, 100]]);
    await db.control`update hub.budget_windows set spent_micros = spent_micros + 1,
      reserved_micros = reserved_micros - 1 where window_id = 'total'`;
    assert.deepEqual(await ask(), [1, 1]);
  });
});

Deno.test("settling and reserving of many at a time ends without a deadlock", async () => {
  await withDatabase(async (db) => {
    const keys = await Promise.all(
      Array.from({ length: 6 }, () => newKey(db, { budgets: { total: { hardMicros: 1e9 } } })),
    );
    const wishes = Array.from({ length: 120 }, (_, index) => wishOf(keys[index % 6] ?? "", 10));
    await Promise.all(wishes.map((wish) => reserve(db, wish)));
    await write(
      db,
      ...wishes.map(({ keyId, usageId }) => rowOf(keyId, usageId, { costMicros: 7 })),
    );
    const batches = Array.from(
      { length: 12 },
      (_, batch) =>
        wishes.filter((_, index) => index % 12 === batch).toSorted(() => batch % 2 === 0 ? 1 : -1),
    );
    await Promise.all([
      ...batches.map((batch) => settleUsage(db, batch)),
      ...wishes.map(({ keyId }) => reserve(db, wishOf(keyId, 10))),
      sweepReservations(db),
    ]);
    for (const keyId of keys) assert.deepEqual(await stand(db, keyId), [[140, 200], [140, 200]]);
    const [row] = await db.read`select tenant_id, ${toUuid(keys[0] as Id)}::uuid as key_id,
      count(*)::int as live from hub.reservations
      where settled_at is null and released_at is null group by 1`;
    assert.equal(row?.["live"], 120);
  });
});
