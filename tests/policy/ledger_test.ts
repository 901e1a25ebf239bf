import assert from "node:assert/strict";
import fc from "fast-check";
import postgres from "postgres";
import { Aborter } from "../../src/core/abort.ts";
import { type ErrorCode, HubError, toHubError } from "../../src/core/error.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import type { KeyPolicy } from "../../src/policy/key_policy.ts";
import { Ledger } from "../../src/policy/ledger.ts";
import type { Hold } from "../../src/core/metered_call.ts";
import { Spending } from "../../src/policy/spending.ts";
import { readWindows, reserve } from "../../src/store/budgets.ts";
import type { Database } from "../../src/store/database.ts";
import { DEFAULT_TENANT_ID as tenantId } from "../../src/store/tenant.ts";
import { liveOf, newKey, reservedOf, WINDOW_IDS, wishOf } from "../support/budget_wishes.ts";
import { openTestDatabase, SWITCHES, testIds, withDatabase } from "../support/postgres.ts";
import { systemClock } from "../support/system_clock.ts";
import { eventually } from "../support/test_hub.ts";

/** The output of a call is what it costs. */
const PRICE = { inputPerMillion: 0, outputPerMillion: 1 };

/** The database, and what is asked of it. */
function watched(db: Database): { db: Database; statements: string[] } {
  const statements: string[] = [];
  const within: Database["within"] = (query) => {
    statements.push(query.strings?.join("$") ?? "");
    return db.within(query);
  };
  return { db: Object.create(db, { within: { value: within } }), statements };
}

/** Keeps the windows of a key locked while the body runs, so that a batch of reservations is under way. */
async function whileLocked(
  url: string,
  keyId: string,
  body: (sql: postgres.Sql) => Promise<void>,
): Promise<void> {
  const sql = postgres(url, { max: 2, fetch_types: false, prepare: SWITCHES.prepare });
  try {
    await sql.begin(async (tx) => {
      await tx`select 1 from hub.budget_windows
        where tenant_id = ${tenantId} and key_id = ${keyId.slice(4)} for update`;
      await body(sql);
    });
  } finally {
    await sql.end();
  }
}

/** The backend that waits for a lock. */
const waitingBackend = (sql: postgres.Sql) =>
  eventually(async () => {
    const [row] = await sql`select pid from pg_stat_activity
      where wait_event_type = 'Lock' and datname = current_database()`;
    return row?.["pid"] as number | undefined ?? null;
  });

/** What counts calls of a key with this policy, all of them in one minute. */
const spendingOf = (db: Database, policy: KeyPolicy) =>
  new Spending({
    db,
    clock: { ...systemClock, now: () => Date.UTC(2026, 10, 21, 10, 7, 3) },
    log: SILENT_LOG,
    policyOf: () => policy,
    withoutDatabase: "refuse",
    observe() {},
  });

const outcome = <T>(promise: Promise<T>) => promise.catch((error: unknown) => error as Error);

Deno.test("two tries of a call at one time count once, and the other counts when the first one leaves", async () => {
  await withDatabase(async (db) => {
    const policy: KeyPolicy = { requestsPerMinute: 1 };
    const keyId = await newKey(db, policy);
    const spending = spendingOf(db, policy);
    const size = { requestBytes: 0, promptTokens: 0, outputTokens: 1, isLimited: true };
    const enter = () => {
      const caller = { requestId: "req_1", tenantId, keyId, kind: "proxy", publicModel: "m" };
      return spending.enter(caller) ?? assert.fail();
    };
    const left = new Aborter();
    const call = enter();
    const first = outcome(
      call.hold({
        usageId: testIds.next("usg"),
        size,
        price: PRICE,
        target: "one/m",
        signal: left,
      }),
    );
    const second = call.hold({
      usageId: testIds.next("usg"),
      size,
      price: PRICE,
      target: "two/m",
      signal: new Aborter(),
    });
    const third = call.hold({
      usageId: testIds.next("usg"),
      size,
      price: PRICE,
      target: "two/m",
      signal: new Aborter(),
    });
    left.abort(new HubError("client_closed", "The first one lost"));
    await first;
    await Promise.all([second, third]);
    const [minute] = await db
      .read`select hub.sum_of_slices(slices, 0, 0)::int as requests from hub.rate_slices
      where tenant_id = ${tenantId} and key_id = ${keyId.slice(4)}`;
    assert.equal(minute?.["requests"], 1);
    const late = enter().hold({
      usageId: testIds.next("usg"),
      size,
      price: PRICE,
      target: "one/m",
      signal: new Aborter(),
    });
    await assert.rejects(late, { code: "rate_limit_exceeded" });
    await spending.close();
  });
});

Deno.test("calls at once on three replicas: never past a cap or a limit, in few statements, and each has what it was told", async () => {
  await withDatabase(async (home, url) => {
    const others = [openTestDatabase(url), openTestDatabase(url)];
    const replicas = [home, ...others].map(watched);
    const policy: KeyPolicy = {
      budgets: { daily: { hardMicros: 2500 }, total: { hardMicros: 2000 } },
      requestsPerMinute: 150,
    };
    const one = async (amounts: readonly number[], leave: readonly boolean[]) => {
      for (const { statements } of replicas) statements.length = 0;
      const keyId = await newKey(home, policy);
      const spendings = replicas.map(({ db }) => spendingOf(db, policy));
      let over = false;
      const looking = (async () => {
        for (; !over;) {
          const windows = await readWindows(home, { tenantId, keyId, ids: WINDOW_IDS });
          for (const { id, spentMicros, reservedMicros } of windows) {
            assert.ok(spentMicros + reservedMicros <= 2000, `${id}: ${reservedMicros}`);
          }
        }
      })();
      const left = new HubError("client_closed", "The client left");
      const calls = amounts.map((outputTokens, index) => {
        const signal = new Aborter();
        const caller = { requestId: "req_1", tenantId, keyId, kind: "proxy", publicModel: "m" };
        const size = { requestBytes: 0, promptTokens: 0, outputTokens, isLimited: true };
        const call = spendings[index % 3]?.enter(caller);
        const hold = call?.hold({
          usageId: testIds.next("usg"),
          size,
          price: PRICE,
          target: "one/m",
          signal,
        });
        if (leave[index] === true) queueMicrotask(() => signal.abort(left));
        return outcome(hold ?? assert.fail());
      });
      const ends = await Promise.all(calls);
      over = true;
      await looking;
      const held = ends.flatMap((end, index): [Hold, number][] =>
        end instanceof Error ? [] : [[end, amounts[index] ?? 0]]
      );
      const sum = held.reduce((sum, [, amount]) => sum + amount, 0);
      assert.deepEqual(await liveOf(home, keyId), [sum, held.length]);
      assert.equal(await reservedOf(home, keyId), sum);
      const codes = ends.map((end) => end instanceof Error ? toHubError(end).code : "held");
      const told = (code: ErrorCode) => codes.filter((other) => other === code).length;
      const counted = held.length + told("insufficient_quota") + told("budget_reserved");
      assert.equal(counted + told("rate_limit_exceeded") + told("client_closed"), amounts.length);
      const [minute] = await home
        .read`select hub.sum_of_slices(slices, 0, 0)::int as requests from hub.rate_slices
        where tenant_id = ${tenantId} and key_id = ${keyId.slice(4)}`;
      const requests = minute?.["requests"] ?? 0;
      assert.ok(requests <= 150 && requests >= counted, `${counted} let in, ${requests} counted`);
      // A call that left between the two was the one of its replica that was under way.
      assert.ok(requests <= counted + 3, `${counted} let in, ${requests} counted`);
      for (const [hold] of held) hold.end(null, false);
      await Promise.all(spendings.map((spending) => spending.close()));
      assert.deepEqual(await liveOf(home, keyId), [0, 0]);
      assert.equal(await reservedOf(home, keyId) ?? 0, 0);
      const statements = replicas.reduce((sum, { statements }) => sum + statements.length, 0);
      assert.ok(statements < 40 + amounts.length / 10, `${statements} statements`);
      return { held: held.length, refused: amounts.length - held.length };
    };
    try {
      const amounts = fc.array(fc.integer({ min: 1, max: 100 }), {
        minLength: 20,
        maxLength: 240,
        size: "max",
      });
      const leaving = fc.array(fc.boolean(), { maxLength: 240, size: "max" });
      await fc.assert(
        fc.asyncProperty(
          amounts,
          leaving,
          async (amounts, leave) => void await one(amounts, leave),
        ),
        { numRuns: 10, endOnFailure: true },
      );
      const full = await one(Array(240).fill(10), []);
      assert.deepEqual(full, { held: 150, refused: 90 });
      const spent = await one(Array(120).fill(100), []);
      assert.deepEqual(spent, { held: 20, refused: 100 });
    } finally {
      for (const db of others) {
        await db.close();
      }
    }
  });
});

Deno.test("calls that wait for one statement", async (t) => {
  await withDatabase(async (home, url) => {
    const { db, statements } = watched(home);
    const ledger = new Ledger(db);
    const fits = (verdicts: unknown[]) =>
      verdicts.map((verdict) => (verdict as { fits?: boolean }).fits);

    await t.step("the windows of a new key are made once for all its calls", async () => {
      const keyId = await newKey(db, { budgets: { total: { hardMicros: 60 } } });
      statements.length = 0;
      const all = await Promise.all(
        Array.from({ length: 100 }, () => ledger.reserve(wishOf(keyId, 1))),
      );
      assert.equal(fits(all).filter(Boolean).length, 60);
      const opening = statements.filter((text) => text.includes("insert into hub.budget_windows"));
      assert.equal(opening.length, 1);
      assert.ok(statements.length <= 6, `${statements.length} statements`);
      assert.deepEqual(await liveOf(db, keyId), [60, 60]);
    });

    await t.step(
      "who leaves before its batch takes nothing, who leaves later is freed",
      async () => {
        const keyId = await newKey(db, { budgets: { total: { hardMicros: 2 } } });
        await ledger.release(wishOf(keyId, 0));
        await reserve(db, wishOf(keyId, 0));
        const signals = ["first", "second", "third", "fourth"].map(() => new Aborter());
        const wishes = signals.map(() => wishOf(keyId, 1));
        const reason = new Error("left");
        let calls: Promise<unknown>[] = [];
        await whileLocked(url, keyId, async (sql) => {
          calls = wishes.map((wish, index) => outcome(ledger.reserve(wish, signals[index])));
          await waitingBackend(sql);
          for (const signal of signals.slice(0, 2)) signal.abort(reason);
          assert.equal(await calls[1], reason);
        });
        const [first, second, ...rest] = await Promise.all(calls);
        assert.equal(second, reason);
        assert.deepEqual(fits([first, ...rest]), [true, true, false]);
        const [left] = wishes;
        await ledger.release(left ?? assert.fail());
        assert.deepEqual(await liveOf(db, keyId), [1, 2]);
        assert.equal(await reservedOf(db, keyId), 1);
      },
    );

    await t.step("what Postgres refuses of one call fails no other", async () => {
      const [own, other] = await Promise.all(
        [1, 2].map(() => newKey(db, { budgets: { total: { hardMicros: 1000 } } })),
      );
      for (const keyId of [own ?? "", other ?? ""]) await reserve(db, wishOf(keyId, 0));
      const wishes = Array.from({ length: 30 }, (_, index) => ({
        ...wishOf((index % 2 === 0 ? own : other) ?? "", 10),
        requestId: index === 11 ? "nul \0" : `req_${index}`,
      }));
      const all = await Promise.all(wishes.map((wish) => outcome(ledger.reserve(wish))));
      const failed = all.flatMap((end, index) => end instanceof Error ? [index] : []);
      assert.deepEqual(failed, [11]);
      assert.equal((all[11] as { code?: string }).code, "invalid_request");
      assert.equal(await reservedOf(db, own ?? ""), 150);
      assert.equal(await reservedOf(db, other ?? ""), 140);
    });

    await t.step(
      "a batch whose connection is lost has reserved nothing, and the next one goes on",
      async () => {
        const keyId = await newKey(db, { budgets: { total: { hardMicros: 1000 } } });
        await reserve(db, wishOf(keyId, 0));
        let calls: Promise<unknown>[] = [];
        await whileLocked(url, keyId, async (sql) => {
          calls = [outcome(ledger.reserve(wishOf(keyId, 1)))];
          const pid = await waitingBackend(sql);
          calls.push(...Array.from({ length: 9 }, () => outcome(ledger.reserve(wishOf(keyId, 1)))));
          await sql`select pg_terminate_backend(${pid})`;
          assert.equal((await calls[0] as { code?: string }).code, "database_unavailable");
        });
        assert.deepEqual(fits(await Promise.all(calls)).slice(1), Array(9).fill(true));
        assert.deepEqual(await liveOf(db, keyId), [9, 10]);
      },
    );
  });
});
