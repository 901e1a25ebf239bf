import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import { type Id, toUuid } from "../../src/core/id.ts";
import type { JsonObject } from "../../src/core/json.ts";
import type { RunBudget } from "../../src/core/run_budget.ts";
import { outputBytesOf } from "../../src/inference/output_bytes.ts";
import { readSpentBudget } from "../../src/store/run_budgets.ts";
import { DEFAULT_TENANT_ID as tenantId } from "../../src/store/tenant.ts";
import { at } from "../support/at.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { command } from "../support/hub_process.ts";
import { connectMcp } from "../support/mcp_clients.ts";
import { logOf } from "../support/log_of.ts";
import { eventually, withHub } from "../support/test_hub.ts";

Deno.test("budgets of an agent and of a request: the smaller counts, and rows tell what was used", async () => {
  const upstream = await startScriptedUpstream();
  const usage = { promptTokens: 100, completionTokens: 20 };
  upstream.script((request, index) => {
    const name = String(at(request.json, "tools", 0, "function", "name"));
    return chatStream({ toolCalls: [{ name, arguments: { lines: index + 1 } }], usage });
  });
  const pricing = { inputPerMillion: 1, outputPerMillion: 1 };
  const config = {
    providers: { one: { baseUrl: upstream.url, models: { m: { pricing } } } },
    defaultModel: "one/m",
    operations: { modules: modules("long_list") },
    agents: { default: { tools: ["test.*"], maxSteps: 100, budget: { tokens: 600, steps: 50 } } },
  };
  try {
    await withHub(config, async (hub) => {
      const { db } = hub.hub.start;
      const ask = async (budget: Record<string, number> | undefined) => {
        const session = await (await hub.call("/v1/sessions", { body: {} })).json();
        const answer = await hub.call(`/v1/sessions/${session.id}/messages`, {
          body: { text: "Go", stream: false, ...(budget === undefined ? {} : { budget }) },
        });
        return { status: answer.status, body: await answer.json() };
      };
      const { body: { run } } = await ask(undefined);
      assert.equal(run.finishReason, "max-tokens");
      assert.equal(run.usage.totalTokens, 600);
      const { body: { run: smaller } } = await ask({ costMicros: 360, tokens: 100_000 });
      assert.equal(smaller.finishReason, "max-cost");
      const spent = await readSpentBudget(db, { tenantId, runId: smaller.id });
      assert.deepEqual(spent?.budget, { costMicros: 360, tokens: 100_000 });
      assert.equal(spent.costMicros, 360);
      assert.ok(spent.ageMs > 0);
      assert.equal((await ask({ steps: 0 })).status, 400);
      assert.equal((await ask({ stepps: 1 })).status, 400);
    });
  } finally {
    await upstream.stop();
  }
});

const modules = (...names: string[]) =>
  names.map((name) => new URL(`../fixtures/operations/${name}.ts`, import.meta.url).pathname);

Deno.test("the end of its time, and what it may write, end a run over HTTP: log, rows and answer say so", async (t) => {
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    operations: { modules: modules("hold", "long_list") },
    agents: {
      default: { tools: ["test.*"], maxSteps: 100 },
      careful: { tools: ["test.*"], maxSteps: 100, approvals: { ask: ["test.*"] } },
    },
  };
  const calls = (name: string, input: JsonObject = {}) =>
    chatStream({ text: "Well then", toolCalls: [{ name, arguments: input }] });
  try {
    await withHub(config, async (hub) => {
      const { db } = hub.hub.start;
      const begun = async (budget: RunBudget, agent = "default") => {
        const { id } = await (await hub.call("/v1/sessions", { body: { agent } })).json();
        const path = `/v1/sessions/${id}/messages`;
        const answer = await hub.call(path, { body: { text: "Go", budget: { ...budget } } });
        const log = logOf(await answer.text());
        assert.deepEqual(checkLog(log), []);
        const runId = answer.headers.get("x-loophub-run") ?? "";
        const run = await (await hub.call(`/v1/runs/${runId}`)).json();
        const row = { runId: toUuid(runId as Id) };
        return { events: log.map(({ event }) => event), run, row };
      };
      /** How long the run took, and the state of its only call, by Postgres. */
      const rowsOf = async ({ runId }: { runId: string }) =>
        (await db.read<{ ms: number; state: string | null; owner: string | null }[]>`
          select extract(epoch from r.finished_at - r.created_at)::float8 * 1000 as ms,
            c.state, r.lease_owner as owner
          from hub.runs r left join hub.tool_calls c using (tenant_id, run_id)
          where r.run_id = ${runId}`)[0] ?? assert.fail("no row");
      const checkTime = ({ events, run }: Awaited<ReturnType<typeof begun>>) => {
        const last = events.at(-1);
        assert.equal(last?.type === "finish" && last.finishReason, "max-time");
        assert.deepEqual([run.status, run.finishReason, run.error ?? null], [
          "completed",
          "max-time",
          null,
        ]);
      };

      await t.step("time is over while a tool runs", async () => {
        upstream.script(calls("test_hold"));
        const done = await begun({ wallTimeMs: 3000 });
        checkTime(done);
        assert.equal(
          done.events.filter(({ type }) => type === "tool-output-error").length,
          1,
        );
        const row = await rowsOf(done.row);
        assert.ok(row.ms >= 3000, `${row.ms} ms`);
        assert.equal(row.owner, null);
        assert.notEqual(row.state, "started");
      });

      await t.step("time is over while the model answers: its words stay", async () => {
        upstream.script(chatStream({ text: "One two three", endAfter: 3, end: "stall" }));
        const closed = upstream.closedByClient.length;
        const done = await begun({ wallTimeMs: 3000 });
        checkTime(done);
        const text = done.events.flatMap((event) =>
          event.type === "text-delta" ? [event.delta] : []
        ).join("");
        assert.equal(text.trim(), "One two");
        await upstream.until(() => upstream.closedByClient.length > closed);
        const usage = await eventually(async () => {
          const [usage] = await db.read`select outcome from hub.usage
            where run_id = ${done.row.runId}`;
          return usage;
        });
        assert.equal(usage["outcome"], "aborted");
      });

      await t.step(
        "time is over while it waits for a person, whom nobody waits for then",
        async () => {
          upstream.script(calls("test_hold"));
          const done = await begun({ wallTimeMs: 3000 }, "careful");
          checkTime(done);
          const { ms, state } = await rowsOf(done.row);
          assert.ok(ms >= 3000 && ms < 45_000, `${ms} ms`);
          assert.equal(state, "denied");
          const [approval] = await db.read`select state from hub.approvals
          where run_id = ${done.row.runId}`;
          assert.equal(approval?.["state"], "expired");
        },
      );

      await t.step(
        "what it has written is counted in bytes, and no call runs behind it",
        async () => {
          const asked = upstream.requests.length;
          upstream.script((request, index) =>
            request.json.tool_choice === "none"
              ? chatStream({ text: "Enough" })
              : calls("test_long_list", { lines: 20 + index - asked })
          );
          const { events, run } = await begun({ outputBytes: 4000 });
          assert.deepEqual([run.status, run.finishReason], ["completed", "max-output"]);
          const results = events.filter(({ type }) => type === "tool-output-available").length;
          assert.ok(results >= 4 && results <= 7, `${results} results`);
          const isConcluded = upstream.requests.at(-1)?.json["tool_choice"] === "none";
          assert.equal(upstream.requests.length - asked, results + Number(isConcluded));
          const written = events.reduce((sum, event) => sum + outputBytesOf(event), 0);
          assert.ok(written >= 3600, `${written} bytes`);
        },
      );
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("a run has the budget that its caller gives it, whichever way it is asked for", async (t) => {
  const upstream = await startScriptedUpstream();
  upstream.script((request) =>
    request.json.tool_choice === "none"
      ? chatStream({ text: "Well" })
      : chatStream({ toolCalls: [{ name: "hub_wait", arguments: { seconds: 0 } }] })
  );
  const config = {
    providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "one/m",
    agents: { default: { maxSteps: 100 } },
  };
  const budget = { steps: 2 };
  try {
    await withHub(config, async (hub) => {
      const { db } = hub.hub.start;
      const lastRun = async () => {
        const [run] = await db.read`select finish_reason, budget from hub.runs
          order by created_at desc limit 1`;
        return { ...run };
      };
      await t.step("POST /api/chat", async () => {
        const chat = (more: Record<string, unknown>) =>
          hub.call("/api/chat", {
            body: {
              id: crypto.randomUUID(),
              messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "Go" }] }],
              ...JSON.parse(JSON.stringify(more)),
            },
          });
        const answer = await chat({ budget });
        assert.match(await answer.text(), /"finishReason":"max-steps"/);
        assert.deepEqual(await lastRun(), { finish_reason: "max-steps", budget });
        const refused = await chat({ budget: { steps: "many" } });
        assert.equal(refused.status, 400);
        assert.match(await refused.text(), /budget\.steps/);
        const planned = await chat({ preflight: "sometimes" });
        assert.equal(planned.status, 400);
        await planned.body?.cancel();
      });

      await t.step("a tool of /mcp", async () => {
        const client = await connectMcp("v2", hub);
        try {
          const done = await client.call("agent_default", { prompt: "Go", budget });
          assert.equal(done.content[0]?.text, "Well");
          assert.deepEqual(await lastRun(), { finish_reason: "max-steps", budget });
          const refused = await client.call("agent_default", { prompt: "Go", budget: { all: 1 } })
            .catch((error: unknown) => String(error));
          assert.match(JSON.stringify(refused), /do not fit/);
        } finally {
          await client.close();
        }
      });
    });

    await t.step("loophub run and loophub chat", async () => {
      const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-budget-" });
      try {
        await Deno.chmod(folder, 0o755);
        await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
        const before = upstream.requests.length;
        const run = await command(folder, ["run", "Go", "--budget", "steps=2"]);
        assert.deepEqual([run.code, run.out], [4, "Well\n"], run.err);
        assert.equal(upstream.requests.length, before + 2);
        const chat = await command(folder, ["chat", "--budget", "steps=2"], {}, "Go\n");
        assert.deepEqual([chat.code, chat.out], [4, "Well\n"], chat.err);
        const wrong = await command(folder, ["run", "Go", "--budget", "steps"]);
        assert.equal(wrong.code, 1);
        assert.match(wrong.err, /--budget got "steps", wanted steps=20/);
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    });
  } finally {
    await upstream.stop();
  }
});
