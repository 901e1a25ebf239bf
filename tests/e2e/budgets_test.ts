import assert from "node:assert/strict";
import postgres from "postgres";
import type { JsonObject } from "../../src/core/json.ts";
import { chatError, chatStream } from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";
import { used, withMoney } from "./money_rig.ts";

const errorOf = async (answer: Response) => (await answer.json()).error as JsonObject;

Deno.test("budgets, as clients meet them", async (t) => {
  await withMoney({}, async ({ hub, upstream, makeKey, ask, admin }) => {
    const spendOf = async (id: string) =>
      (await admin(`keys/${id}`))["spend"] as {
        id: string;
        spentMicros: number;
        reservedMicros: number;
      }[];
    const spent = (id: string, micros: number) =>
      eventually(async () => {
        const total = (await spendOf(id)).find((window) => window.id === "total");
        return total?.spentMicros === micros && total.reservedMicros === 0 ? total : null;
      });

    await t.step("a call costs what its usage says, today, this month and in total", async () => {
      const { id, token } = await makeKey({ budgets: { daily: { hardMicros: 10_000 } } });
      assert.equal((await ask(token)).status, 200);
      await spent(id, 200);
      assert.deepEqual((await spendOf(id)).map(({ spentMicros }) => spentMicros), [200, 200, 200]);
    });

    await t.step("past the budget: 429 with the sums, and the provider hears nothing", async () => {
      const { id, token } = await makeKey({ budgets: { total: { hardMicros: 400 } } });
      for (let call = 0; call < 2; call++) {
        await (await ask(token)).body?.cancel();
        await spent(id, 200 * (call + 1));
      }
      const before = upstream.requests.length;
      const refused = await ask(token);
      assert.equal(refused.status, 429);
      assert.equal(refused.headers.get("x-should-retry"), "false");
      const error = await errorOf(refused);
      assert.equal(error["code"], "insufficient_quota");
      assert.match(
        String(error["message"]),
        /total budget .* of \$0\.000400, \$0\.000400 are spent/,
      );
      assert.equal(upstream.requests.length, before);
    });

    await t.step("a raised budget holds at once", async () => {
      const { id, token } = await makeKey({ budgets: { total: { hardMicros: 10 } } });
      assert.equal((await ask(token)).status, 429);
      const policy = { budgets: { total: { hardMicros: 10_000 } } };
      await admin(`keys/${id}`, { method: "PATCH", body: { policy } });
      assert.equal((await ask(token)).status, 200);
      await spent(id, 200);
    });

    await t.step("a soft budget warns and lets through", async () => {
      const { id, token } = await makeKey({ budgets: { daily: { softMicros: 150 } } });
      assert.equal((await ask(token)).headers.get("x-loophub-budget-warning"), null);
      await spent(id, 200);
      const warned = await ask(token);
      assert.equal(warned.status, 200);
      assert.equal(
        warned.headers.get("x-loophub-budget-warning"),
        "daily budget: $0.000200 of $0.000150 spent",
      );
      const metrics = await (await hub.call("/metrics")).text();
      assert.match(metrics, /loophub_budget_events_total\{event="soft"\} 1/);
      assert.match(metrics, /loophub_budget_events_total\{event="refused"\} \d/);
    });

    await t.step(
      "without a price a hard budget refuses, a soft one serves and the cost is unknown",
      async () => {
        const hard = await makeKey({ budgets: { total: { hardMicros: 1e6 } } });
        const refused = await ask(hard.token, { model: "up/free" });
        assert.equal(refused.status, 403);
        assert.equal((await errorOf(refused))["code"], "unknown_price");
        const soft = await makeKey({ budgets: { total: { softMicros: 1e6 } } });
        assert.equal((await ask(soft.token, { model: "up/free" })).status, 200);
        const sql = postgres(hub.databaseUrl, { max: 1 });
        const row = await eventually(async () =>
          (await sql`select u.cost_micros from hub.usage u
          where hub.public_id('key', u.key_id) = ${soft.id}`)[0]
        );
        assert.equal(row["cost_micros"], null);
        await sql.end();
        await spent(soft.id, 0);
      },
    );

    await t.step("cache writes, cache reads and reasoning are on the bill", async () => {
      const { id, token } = await makeKey({ budgets: { total: { hardMicros: 1e6 } } });
      upstream.script({
        ...used({}),
        body: JSON.stringify({
          id: "x",
          object: "chat.completion",
          choices: [{
            index: 0,
            message: { role: "assistant", content: "a" },
            finish_reason: "stop",
          }],
          usage: {
            prompt_tokens: 100,
            completion_tokens: 10,
            prompt_tokens_details: { cached_tokens: 20, cache_write_tokens: 30 },
            completion_tokens_details: { reasoning_tokens: 5 },
          },
        }),
      });
      await (await ask(token)).body?.cancel();
      await spent(id, 120);
      const sql = postgres(hub.databaseUrl, { max: 1 });
      const [row] =
        await sql`select cache_write_tokens::int, cached_tokens::int, reasoning_tokens::int, cost_micros::int
        from hub.usage where hub.public_id('key', key_id) = ${id}`;
      assert.deepEqual(row, {
        cache_write_tokens: 30,
        cached_tokens: 20,
        reasoning_tokens: 5,
        cost_micros: 120,
      });
      await sql.end();
      upstream.script(used({ promptTokens: 100, completionTokens: 50 }));
    });

    await t.step("what no provider got costs nothing; what one refused is not held", async () => {
      const { id, token } = await makeKey({ budgets: { total: { hardMicros: 1e6 } } });
      upstream.script(chatError(400, { message: "no" }));
      await (await ask(token)).body?.cancel();
      await spent(id, 0);
      upstream.script(used({ promptTokens: 100, completionTokens: 50 }));
    });

    await t.step("a stream that its client leaves costs what was estimated of it", async () => {
      const { id, token } = await makeKey({ budgets: { total: { hardMicros: 1e6 } } });
      upstream.script(chatStream({ deltas: Array(200).fill("word "), endAfter: 20, end: "stall" }));
      const leave = new AbortController();
      const answer = await ask(token, { stream: true }, { signal: leave.signal });
      const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
      for (let seen = ""; !seen.includes("word");) seen += (await reader?.read())?.value ?? "";
      leave.abort();
      const window = await eventually(async () => {
        const total = (await spendOf(id)).find((window) => window.id === "total");
        return total !== undefined && total.spentMicros > 0 && total.reservedMicros === 0
          ? total
          : null;
      });
      assert.ok(window.spentMicros < 500, String(window.spentMicros));
      upstream.script(used({ promptTokens: 100, completionTokens: 50 }));
    });

    await t.step(
      "runs of agents count, each model call; an agent may have a budget of its own",
      async () => {
        upstream.script(
          chatStream({ text: "Hello", usage: { promptTokens: 100, completionTokens: 50 } }),
        );
        const { id, token } = await makeKey({
          agentBudgets: { default: { total: { hardMicros: 30_000 } } },
        });
        const headers = { authorization: `Bearer ${token}` };
        const session = (await (await hub.call("/v1/sessions", { headers, body: {} })).json()).id;
        const say = async () => {
          const body = { text: "Hi", stream: false };
          return await hub.call(`/v1/sessions/${session}/messages`, { headers, body });
        };
        const first = await say();
        assert.equal((await first.json()).run.costMicros, 200);
        const spend = await eventually(async () => {
          const all = await spendOf(id);
          return all.every(({ spentMicros }) => spentMicros === 200) && all.length === 6
            ? all
            : null;
        });
        assert.deepEqual(
          spend.map((window) => window.id.startsWith("agent default ")).filter(Boolean).length,
          3,
        );
        await admin(`keys/${id}`, {
          method: "PATCH",
          body: { policy: { agentBudgets: { default: { total: { hardMicros: 300 } } } } },
        });
        const refused = await say();
        assert.equal(refused.status, 429);
        assert.equal((await errorOf(refused))["code"], "insufficient_quota");
        upstream.script(used({ promptTokens: 100, completionTokens: 50 }));
        assert.equal((await ask(token)).status, 200);
      },
    );
  });
});

Deno.test("rates, allowed models and agents, and requests under way, as clients meet them", async (t) => {
  await withMoney({}, async ({ hub, makeKey, ask, upstream }) => {
    await t.step("so many calls a minute, with what is left of it", async () => {
      const { token } = await makeKey({ requestsPerMinute: 3 });
      const all: Response[] = [];
      for (let call = 0; call < 4; call++) all.push(await ask(token));
      const last = all.at(-1);
      assert.equal(all[0]?.headers.get("x-ratelimit-limit-requests"), "3");
      assert.equal(all[0]?.headers.get("x-ratelimit-remaining-requests"), "2");
      assert.equal(last?.status, 429);
      assert.equal((await errorOf(last))["code"], "rate_limit_exceeded");
      const after = Number(last.headers.get("retry-after"));
      assert.ok(after >= 57 && after <= 63, String(after));
      assert.equal(last.headers.get("x-ratelimit-remaining-requests"), "0");
    });

    await t.step("so many tokens a minute: reserved before, corrected after", async () => {
      const { token } = await makeKey({ tokensPerMinute: 1000 });
      const refused = await ask(token, { max_tokens: 1000 });
      assert.equal(refused.status, 429);
      assert.match(String((await errorOf(refused))["message"]), /1000 tokens a minute/);
      const first = await ask(token, { max_tokens: 700 });
      assert.equal(first.status, 200);
      await eventually(async () => {
        const next = await ask(token, { max_tokens: 600 });
        await next.body?.cancel();
        return next.status === 200 ? true : null;
      });
    });

    await t.step("only allowed models and agents", async () => {
      const { token } = await makeKey({ models: ["up/f*"], agents: ["clerk"] });
      const refused = await ask(token);
      assert.equal(refused.status, 403);
      assert.equal((await errorOf(refused))["param"], "model");
      assert.equal((await ask(token, { model: "up/free" })).status, 200);
      const headers = { authorization: `Bearer ${token}` };
      const session = (await (await hub.call("/v1/sessions", { headers, body: {} })).json()).id;
      const said = await hub.call(`/v1/sessions/${session}/messages`, {
        headers,
        body: { text: "Hi" },
      });
      assert.equal(said.status, 403);
      await said.body?.cancel();
      const messages = await (await hub.call(`/v1/sessions/${session}/messages`)).json();
      assert.deepEqual(messages.data, []);
    });

    await t.step("so many requests under way, by the key's own number", async () => {
      const gate = Promise.withResolvers<void>();
      upstream.script(() => ({ ...used({ promptTokens: 1 }), before: [{ wait: gate.promise }] }));
      const { token } = await makeKey({ maxConcurrent: 1 });
      const before = upstream.requests.length;
      const calls = Array.from({ length: 4 }, () => ask(token));
      const first = await Promise.race(calls);
      assert.equal(first.status, 429);
      await upstream.until(() => upstream.requests.length > before);
      assert.equal(upstream.requests.length, before + 1);
      gate.resolve();
      const statuses = (await Promise.all(calls)).map(({ status }) => status);
      assert.deepEqual(statuses.toSorted(), [200, 200, 200, 429]);
    });
  });
});
