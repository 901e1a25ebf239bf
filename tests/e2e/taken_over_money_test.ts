import assert from "node:assert/strict";
import postgres from "postgres";
import type { JsonObject } from "../../src/core/json.ts";
import { type Id, toUuid } from "../../src/core/id.ts";
import {
  chatStream,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withReplicas } from "../support/test_hub.ts";

const uuid = (id: string) => toUuid(id as Id);

const PRICED = { inputPerMillion: 1, outputPerMillion: 2 };

/** A key's tag chooses the provider. */
const configOf = (plain: string, gold: string) => ({
  providers: Object.fromEntries(
    Object.entries({ plain, gold }).map(([name, baseUrl]) => [
      name,
      { baseUrl, apiKey: `sk-${name}`, maxRetries: 0, models: { m: { pricing: PRICED } } },
    ]),
  ),
  models: {
    sorted: { targets: ["plain/m"], rules: [{ when: { tag: "gold" }, targets: ["gold/m"] }] },
  },
  defaultModel: "sorted",
  server: { shutdownDelayMs: 0, shutdownGraceMs: 300_000 },
  runs: { leaveAfterMs: 500 },
});

interface Rig {
  first: TestHub;
  second: TestHub;
  /** Asked for keys with the tag. */
  gold: ScriptedUpstream;
  sql: postgres.Sql;
  key: { id: string; token: string };
  /** A run of the key's in a session of its own, whose first call is in mid-answer. */
  begin(): Promise<{ runId: string; again(hub: TestHub): Promise<Response>; stop(): void }>;
}

async function withTwo(policy: JsonObject, body: (rig: Rig) => Promise<void>): Promise<void> {
  const plain = await startScriptedUpstream();
  const gold = await startScriptedUpstream();
  gold.script([
    chatStream({ text: "One two", endAfter: 2, end: "stall" }),
    chatStream({ text: "Three four", usage: { promptTokens: 100, completionTokens: 50 } }),
  ]);
  const config = configOf(plain.url, gold.url);
  try {
    await withReplicas([config, config], async (first, second) => {
      const sql = postgres(first.databaseUrl, { max: 1 });
      try {
        const facts = { name: "runner", tags: ["gold"], policy };
        const made = await (await first.call("/v1/admin/keys", { body: facts })).json();
        const key = { id: String(made.key.id), token: String(made.token) };
        const authorization = `Bearer ${key.token}`;
        const begun = await first.call("/v1/sessions", { headers: { authorization }, body: {} });
        const session = (await begun.json()).id;
        const headers = { authorization, "idempotency-key": "once" };
        const ask = (hub: TestHub) =>
          hub.call(`/v1/sessions/${session}/messages`, { headers, body: { text: "Go" } });
        await body({
          first,
          second,
          gold,
          sql,
          key,
          async begin() {
            const answer = await ask(first);
            const runId = answer.headers.get("x-loophub-run") ?? "";
            const reader = (answer.body ?? assert.fail("no body")).getReader();
            for (let text = ""; !text.includes("text-delta");) {
              text += new TextDecoder().decode((await reader.read()).value);
            }
            await eventually(async () =>
              (await sql`select 1 from hub.run_events where run_id = ${uuid(runId)}
                and events::text like '%text-delta%'`)[0]
            );
            return { runId, again: ask, stop: () => void reader.cancel().catch(() => {}) };
          },
        });
      } finally {
        await sql.end();
      }
    });
    assert.equal(plain.requests.length, 0);
    assert.equal(gold.requests.length, 2);
  } finally {
    await plain.stop();
    await gold.stop();
  }
}

Deno.test("a run that is taken over spends its own key's money, once for each call", async () => {
  const policy = { budgets: { total: { hardMicros: 1_000_000 } }, agents: ["default"] };
  await withTwo(policy, async ({ first, second, sql, key, begin }) => {
    const { runId, again, stop } = await begin();
    // The owner is as good as gone: whoever looks next claims the run, and the owner is fenced.
    await sql`update hub.runs set lease_until = now() - interval '1 second'
      where run_id = ${uuid(runId)}`;
    const followed = await again(second);
    assert.equal(followed.headers.get("x-loophub-run"), runId);
    assert.match(await followed.text(), /Three/);
    stop();
    const other = await again(first);
    assert.equal(other.headers.get("x-loophub-run"), runId);
    await other.body?.cancel();
    const rows = await eventually(async () => {
      const rows = await sql`select key_id, request_id, usage_id, cost_micros::int as micros
        from hub.usage where run_id = ${uuid(runId)}`;
      const open = await sql`select 1 from hub.reservations where settled_at is null`;
      return rows.length >= 2 && open.length === 0 ? rows : null;
    });
    assert.equal(rows.length, 2);
    assert.deepEqual([...new Set(rows.map((row) => row["key_id"]))], [uuid(key.id)]);
    assert.equal(new Set(rows.map((row) => row["request_id"])).size, 1);
    assert.ok(rows.every((row) => row["micros"] > 0));
    const settled = await sql`select reservation_id, settled_micros::int as micros
      from hub.reservations where key_id = ${uuid(key.id)}`;
    assert.deepEqual(
      settled.map((row) => [row["reservation_id"], row["micros"]]).sort(),
      rows.map((row) => [row["usage_id"], row["micros"]]).sort(),
    );
    const spent = rows.reduce((sum, row) => sum + row["micros"], 0);
    const windows = await sql`select key_id, spent_micros::int as spent,
      reserved_micros::int as reserved from hub.budget_windows where window_id = 'total'`;
    assert.deepEqual(windows.map((row) => ({ ...row })), [
      { key_id: uuid(key.id), spent, reserved: 0 },
    ]);
  });
});

Deno.test("a run that is taken over from a living replica has one row for each call, without a budget too", async () => {
  await withTwo({}, async ({ first, second, sql, begin }) => {
    const { runId, again, stop } = await begin();
    await sql`update hub.runs set lease_until = now() - interval '1 second'
      where run_id = ${uuid(runId)}`;
    assert.match(await (await again(second)).text(), /Three/);
    stop();
    await (await again(first)).body?.cancel();
    const rows = await eventually(async () => {
      const rows = await sql`select outcome, provider, model, error_code, started_at,
          prompt_tokens::int as prompt, completion_tokens::int as completion, cost_micros::int as micros
        from hub.usage where run_id = ${uuid(runId)} order by started_at`;
      const [{ open } = { open: 1 }] = await sql`select count(*)::int as open from hub.model_calls`;
      // The owner's own row takes the place of the estimate.
      const isWhole = rows.every((row) => row["error_code"] !== "orphaned");
      return rows.length >= 2 && open === 0 && isWhole ? rows : null;
    });
    assert.deepEqual(
      rows.map((row) => [row["outcome"], row["provider"], row["model"]]),
      [["aborted", "gold", "m"], ["ok", "gold", "m"]],
    );
    assert.ok(rows[0]?.["prompt"] > 0 && rows[0]?.["micros"] > 0);
  });
});

Deno.test("a run that is handed over has one row for each call, without a budget too", async () => {
  await withTwo({}, async ({ first, second, sql, key, begin }) => {
    const { runId, stop } = await begin();
    const headers = { authorization: `Bearer ${key.token}` };
    const followed = await second.call(`/v1/runs/${runId}/stream`, { headers });
    await first.hub.leave();
    const closed = first.hub.close();
    assert.match(await followed.text(), /Three/);
    stop();
    await closed;
    const rows = await eventually(async () => {
      const rows = await sql`select key_id, outcome, error_code from hub.usage
        where run_id = ${uuid(runId)} and kind = 'run' order by started_at`;
      return rows.some((row) => row["outcome"] === "ok") ? rows : null;
    });
    assert.equal(rows.length, 2, JSON.stringify(rows));
    assert.ok(
      rows.every((row) => row["key_id"] === uuid(key.id) && row["error_code"] !== "orphaned"),
    );
  });
});
