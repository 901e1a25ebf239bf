import assert from "node:assert/strict";
import { toUuid } from "../../src/core/id.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import {
  countedRows,
  encodeUsageRow,
  insertUsage,
  usageInsert,
  type UsageRow,
} from "../../src/store/usage_rows.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { eventually } from "../support/test_hub.ts";

const tenantId = DEFAULT_TENANT_ID;
const keyId = testIds.next("key");

function rowOf(facts: Partial<UsageRow> = {}): UsageRow & { usageId: `usg_${string}` } {
  return {
    tenantId,
    keyId,
    requestId: "req-1",
    kind: "proxy",
    provider: "openai",
    model: "gpt",
    publicModel: "fast",
    streamed: true,
    outcome: "ok",
    status: 200,
    errorCode: null,
    usage: {
      promptTokens: 10,
      completionTokens: 20,
      totalTokens: 30,
      cachedTokens: 4,
      reasoningTokens: 5,
    },
    estimated: false,
    costMicros: 1234,
    startedAt: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
    firstTokenMs: 50,
    durationMs: 900,
    bytesOut: 4096,
    attempts: [{ target: "openai/gpt", outcome: "ok", status: 200, durationMs: 900 }],
    ...facts,
    usageId: testIds.next("usg"),
  };
}

Deno.test("usage rows in Postgres", async (t) => {
  await withDatabase(async (db) => {
    const read = (row: { usageId: `usg_${string}` }) =>
      db.within(db.read`select * from hub.usage where usage_id = ${toUuid(row.usageId)}`)
        .then((rows) => rows[0]);
    const count = async () =>
      (await db.within(db.read<{ count: number }[]>`select count(*)::int from hub.usage`))[0]
        ?.count;

    await t.step(
      "two that write the same rows at once do not wait each for the other",
      async () => {
        const rows = [rowOf(), rowOf(), rowOf()];
        const [, between] = rows;
        assert.ok(between !== undefined);
        const encoded = rows.map(encodeUsageRow);
        await insertUsage(db, [encodeUsageRow(between)]);
        const waiting = (count: number) =>
          eventually(async () => {
            const [row] = await db.read<{ waiting: number }[]>`
            select count(*)::int as waiting from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock'`;
            return row?.waiting === count || null;
          });
        // Each is watched from its start: it may fail before the transaction's end is known here.
        const wrote: Promise<PromiseSettledResult<unknown>[]>[] = [];
        await db.runs.begin(async (tx) => {
          await tx`delete from hub.usage where usage_id = ${toUuid(between.usageId)}`;
          wrote.push(Promise.allSettled([usageInsert(db.control, encoded).execute()]));
          await waiting(1);
          wrote.push(Promise.allSettled([usageInsert(db.control, encoded.toReversed()).execute()]));
          await waiting(2);
        });
        // A database that serializes may tell one of them to write again, which is no wait.
        const failed = (await Promise.all(wrote)).flat().filter((end) =>
          end.status === "rejected" && end.reason.code !== "40001"
        );
        assert.deepEqual(failed, []);
      },
    );

    await t.step("every field has its column", async () => {
      const sessionId = testIds.next("ses");
      const runId = testIds.next("run");
      const row = rowOf({ kind: "run", sessionId, runId, step: 3 });
      await insertUsage(db, [row].map(encodeUsageRow));
      assert.deepEqual(await read(row), {
        tenant_id: tenantId,
        usage_id: toUuid(row.usageId),
        key_id: toUuid(keyId),
        request_id: "req-1",
        session_id: toUuid(sessionId),
        run_id: toUuid(runId),
        step: 3,
        kind: "run",
        provider: "openai",
        model: "gpt",
        public_model: "fast",
        streamed: true,
        outcome: "ok",
        status: 200,
        error_code: null,
        prompt_tokens: "10",
        completion_tokens: "20",
        cached_tokens: "4",
        reasoning_tokens: "5",
        estimated: false,
        cost_micros: "1234",
        started_at: new Date(row.startedAt),
        first_token_ms: 50,
        duration_ms: 900,
        bytes_out: "4096",
        cache_write_tokens: null,
        budget_windows: null,
        from_cache: false,
        attempts: row.attempts,
      });
    });

    await t.step("a row of the cache says so, and settles nothing", async () => {
      const row = rowOf({
        fromCache: true,
        status: null,
        usage: null,
        costMicros: 0,
        attempts: [],
      });
      const encoded = encodeUsageRow(row);
      assert.deepEqual(countedRows([encoded]), []);
      await insertUsage(db, [encoded]);
      const stored = await read(row);
      assert.deepEqual([stored?.["from_cache"], stored?.["cost_micros"]], [true, "0"]);
    });

    await t.step("what is unknown is null, never zero", async () => {
      const row = rowOf({
        outcome: "error",
        status: null,
        errorCode: "upstream_cut",
        usage: null,
        costMicros: null,
        firstTokenMs: null,
      });
      await insertUsage(db, [row].map(encodeUsageRow));
      const stored = await read(row);
      const unknown = ["session_id", "run_id", "step", "status", "prompt_tokens", "cost_micros"];
      for (const name of [...unknown, "first_token_ms"]) assert.equal(stored?.[name], null, name);
      assert.equal(stored?.["error_code"], "upstream_cut");
    });

    await t.step("a batch that is written again adds nothing and changes nothing", async () => {
      const rows = Array.from({ length: 1000 }, (_, index) => rowOf({ bytesOut: index }));
      const before = await count() ?? 0;
      await insertUsage(db, rows.map(encodeUsageRow));
      assert.equal(await count(), before + 1000);
      const [first = rowOf()] = rows;
      const fresh = rowOf();
      const again = { ...first, model: "changed" };
      await insertUsage(db, [again, ...rows.slice(1, 500), fresh, fresh].map(encodeUsageRow));
      assert.equal(await count(), before + 1001);
      assert.equal((await read(first))?.["model"], "gpt");
      await insertUsage(db, []);
      assert.equal(await count(), before + 1001);
    });

    await t.step(
      "the row of a lost call gives way to its own figures, and to nothing else",
      async () => {
        const own = rowOf({ model: "own" });
        const lost = { ...own, model: "guess", errorCode: "orphaned", costMicros: 9 };
        const readModel = async () => (await read(own))?.["model"];
        await insertUsage(db, [lost].map(encodeUsageRow));
        await insertUsage(db, [{ ...lost, model: "other guess" }].map(encodeUsageRow));
        assert.equal(await readModel(), "guess");
        await insertUsage(db, [own, lost].map(encodeUsageRow));
        assert.equal(await readModel(), "own");
        assert.equal(Number((await read(own))?.["cost_micros"]), own.costMicros);
        await insertUsage(db, [lost].map(encodeUsageRow));
        assert.equal(await readModel(), "own");
        const both = [rowOf({ errorCode: "orphaned" }), rowOf()];
        const [estimate, real] = both.map((row) => ({ ...row, usageId: both[0]?.usageId ?? "" }));
        assert.ok(estimate !== undefined && real !== undefined);
        for (const rows of [[estimate, real], [real, estimate]]) {
          await db.control`delete from hub.usage where usage_id = ${
            toUuid(both[0]?.usageId ?? own.usageId)
          }`;
          await insertUsage(db, rows.map(encodeUsageRow));
          assert.equal((await read(both[0] ?? own))?.["error_code"], null);
        }
      },
    );

    await t.step("the same id in two tenants is two rows", async () => {
      const row = rowOf();
      const other = { ...row, tenantId: "00000000-0000-7000-8000-000000000002" };
      const before = await count() ?? 0;
      await insertUsage(db, [row, other].map(encodeUsageRow));
      assert.equal(await count(), before + 2);
    });

    await t.step(
      "a model's name that Postgres cannot keep does not hold up its batch",
      async () => {
        const name = "openai/x\0y\ud800z \\u0000";
        const attempts = [{ target: name, outcome: "ok", status: 200, durationMs: 1 }];
        const rows = [rowOf(), rowOf({ model: name, publicModel: name, attempts }), rowOf()];
        await insertUsage(db, rows.map(encodeUsageRow));
        const stored = await Promise.all(rows.map(read));
        const kept = "openai/x\ufffdy\ufffdz \\u0000";
        assert.deepEqual(stored.map((row) => row?.["model"]), ["gpt", kept, "gpt"]);
        assert.equal(stored[1]?.["public_model"], kept);
        assert.equal(stored[1]?.["attempts"][0].target, kept);
      },
    );

    await t.step("the largest numbers fit", async () => {
      const huge = Number.MAX_SAFE_INTEGER;
      const usage = {
        promptTokens: huge,
        completionTokens: huge,
        totalTokens: huge,
        cachedTokens: huge,
        reasoningTokens: huge,
      };
      const row = rowOf({ usage, costMicros: huge, bytesOut: huge });
      await insertUsage(db, [row].map(encodeUsageRow));
      assert.equal((await read(row))?.["prompt_tokens"], String(huge));
    });
  });
});
