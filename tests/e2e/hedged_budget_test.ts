import assert from "node:assert/strict";
import { type Id, toUuid } from "../../src/core/id.ts";
import { startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";
import { PRICED, used } from "./money_rig.ts";

const uuid = (id: string) => toUuid(id as Id);

Deno.test("both tries of a hedged call reserve, the loser is settled, and a hard budget holds", async (t) => {
  const slow = await startScriptedUpstream();
  const fast = await startScriptedUpstream();
  const provider = (baseUrl: string) => ({
    baseUrl,
    apiKey: "sk-own",
    maxRetries: 0,
    models: { m: { pricing: PRICED } },
  });
  const config = {
    providers: { slow: provider(slow.url), fast: provider(fast.url) },
    models: {
      quick: { targets: ["slow/m", "fast/m"], hedge: { afterMs: 20, maxPercent: 100 } },
    },
    defaultModel: "quick",
  };
  const answer = used({ promptTokens: 10, completionTokens: 30 });
  try {
    await withHub(config, async (hub) => {
      const { db } = hub.hub.start;
      const makeKey = async (hardMicros: number) => {
        const policy = { budgets: { total: { hardMicros } } };
        const made = await (await hub.call("/v1/admin/keys", { body: { name: "k", policy } }))
          .json();
        return { id: String(made.key.id), token: String(made.token) };
      };
      const ask = (token: string) =>
        hub.call("/v1/chat/completions", {
          headers: { authorization: `Bearer ${token}` },
          body: { model: "quick", max_tokens: 50, messages: [{ role: "user", content: "Hi" }] },
        });
      const reservations = (id: string) =>
        db.read`select amount_micros::int as amount, settled_micros::int as settled
          from hub.reservations where key_id = ${uuid(id)} order by created_at`;
      const total = async (id: string) =>
        (await db.read`select spent_micros::int as spent, reserved_micros::int as reserved
          from hub.budget_windows where key_id = ${uuid(id)} and window_id = 'total'`)[0];
      let amount = 0;

      await t.step("two under way hold two reservations", async () => {
        const key = await makeKey(100_000);
        let open = () => {};
        const gate = new Promise<void>((resolve) => open = resolve);
        slow.script({ before: [{ wait: new Promise(() => {}) }], body: "" });
        fast.script({ ...answer, before: [{ wait: gate }] });
        const asking = ask(key.token);
        // The first call of a key makes its windows; a second one that finds them made may be the first to reserve.
        await fast.until(() => fast.requests.length === 1);
        await slow.until(() => slow.requests.length === 1);
        const held = await reservations(key.id);
        assert.deepEqual(held.map(({ settled }) => settled), [null, null]);
        amount = held[0]?.["amount"];
        assert.deepEqual({ ...await total(key.id) }, { spent: 0, reserved: 2 * amount });
        open();
        const got = await asking;
        assert.equal(got.status, 200);
        await got.text();
        await slow.until(() => slow.closedByClient.length === 1);
        const rows = await eventually(async () => {
          const rows = await db.read`select outcome, cost_micros::int as cost from hub.usage
            where key_id = ${uuid(key.id)} order by outcome`;
          const ended = (await reservations(key.id)).every(({ settled }) => settled !== null);
          return rows.length === 2 && ended ? rows : null;
        });
        assert.deepEqual(rows.map(({ outcome }) => outcome), ["aborted", "ok"]);
        assert.equal(rows[1]?.["cost"], 70);
        const spent = rows.reduce((sum, { cost }) => sum + cost, 0);
        assert.deepEqual({ ...await total(key.id) }, { spent, reserved: 0 });
        assert.ok(spent <= 2 * amount);
      });

      await t.step("where there is room for one, it goes on alone", async () => {
        const key = await makeKey(amount + 1);
        const asked = () => slow.requests.length + fast.requests.length;
        const before = asked();
        let open = () => {};
        const gate = new Promise<void>((resolve) => open = resolve);
        // Whichever reserves first: on a busy machine that may be the second.
        for (const upstream of [slow, fast]) {
          upstream.script({ ...answer, before: [{ wait: gate }] });
        }
        const asking = ask(key.token);
        await eventually(async () => {
          const metrics = await (await hub.call("/metrics")).text();
          return /loophub_budget_events_total\{event="refused"\} [1-9]/.test(metrics) || null;
        });
        assert.deepEqual({ ...await total(key.id) }, { spent: 0, reserved: amount });
        open();
        const got = await asking;
        assert.equal(got.status, 200, await got.clone().text());
        await got.text();
        assert.equal(asked(), before + 1);
        await eventually(async () => {
          const { spent, reserved } = await total(key.id) ?? {};
          return spent === 70 && reserved === 0 || null;
        });
      });
    });
  } finally {
    await slow.stop();
    await fast.stop();
  }
});
