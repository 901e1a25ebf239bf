import assert from "node:assert/strict";
import { type Id, toUuid } from "../../src/core/id.ts";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent } from "../../src/core/event.ts";
import type { JsonObject } from "../../src/core/json.ts";
import type { RunBudget } from "../../src/core/run_budget.ts";
import { readSubRun } from "../../src/core/sub_run_event.ts";
import { startHubProcess } from "../support/hub_process.ts";
import { logOf } from "../support/log_of.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, startTestHub, type TestHub, withHub } from "../support/test_hub.ts";

/** Of each model call: 15 tokens, for 20 millionths of a dollar. */
const USAGE = { promptTokens: 10, completionTokens: 5 };
const TOKENS = 15;
const COST = 20;
const MUSING = "Between ourselves: I count on my fingers";

type Reply = ReturnType<typeof chatStream>;
/** Answers the `at`-th call of an agent's model, counted from 0; `isLast` when it has to conclude. */
type Script = (at: number, isLast: boolean) => Reply;

const asks = (name: string, input: JsonObject = { prompt: "Do it" }, text = "") =>
  chatStream({ text, toolCalls: [{ name, arguments: input }], usage: USAGE });
const says = (text: string) => chatStream({ text, usage: USAGE });
const endlessly: Script = (at, isLast) =>
  isLast ? says("Enough") : asks("hub_calculate", { expression: `1+${at}` }, MUSING);

const configOf = (url: string): JsonObject => ({
  providers: {
    one: {
      baseUrl: url,
      apiKey: "sk-upstream",
      models: { m: { pricing: { inputPerMillion: 1, outputPerMillion: 2 } } },
    },
  },
  defaultModel: "one/m",
  operations: {
    modules: ["hold", "long_list"].map((name) =>
      new URL(`../fixtures/operations/${name}.ts`, import.meta.url).pathname
    ),
  },
  agents: {
    boss: { systemPrompt: "I am boss", tools: ["hub.wait"], agents: ["middle", "helper"] },
    middle: { systemPrompt: "I am middle", tools: ["hub.wait"], agents: ["helper"], maxSteps: 100 },
    helper: { systemPrompt: "I am helper", tools: ["hub.calculate", "test.*"], maxSteps: 100 },
  },
});

/** Answers each agent by its own script, whoever calls when. */
function byAgent(scripts: Record<string, Script>) {
  const next = new Map<string, number>();
  return ({ json }: { json: JsonObject }): Reply => {
    const name = /I am (\w+)/.exec(JSON.stringify(json["messages"]))?.[1] ?? "";
    const at = next.get(name) ?? 0;
    next.set(name, at + 1);
    const script = scripts[name] ?? assert.fail(`${name} is not expected to be asked`);
    return script(at, json["tool_choice"] === "none");
  };
}

/** The script that gives these answers. */
const inTurn = (...replies: Reply[]): Script => (at) => replies[at] ?? assert.fail(`call ${at}`);

async function run(hub: TestHub, budget: RunBudget | null = null) {
  const { id } = await (await hub.call("/v1/sessions", { body: { agent: "boss" } })).json();
  const answer = await hub.call(`/v1/sessions/${id}/messages`, {
    body: { text: "Go", ...budget === null ? {} : { budget: { ...budget } } },
  });
  const text = await answer.text();
  return { text, ...readLog(text) };
}

function readLog(text: string) {
  const log = logOf(text);
  assert.deepEqual(checkLog(log), []);
  const events: HubEvent[] = log.map(({ event }) => event);
  const last = events.at(-1);
  const finish = last?.type === "finish" ? last : assert.fail("no finish");
  return { events, finish, children: events.flatMap((event) => readSubRun(event) ?? []) };
}

const childOf = async (hub: TestHub, { runId = "" }: { runId?: string } = {}) =>
  await (await hub.call(`/v1/runs/${runId}`)).json();

/** What the calls of all models came to, by the rows of usage. */
const booked = async (hub: TestHub) =>
  (await hub.hub.start.db.read<{ tokens: number; cost: number; calls: number }[]>`
    select sum(prompt_tokens + completion_tokens)::int as tokens, sum(cost_micros)::int as cost,
      count(*)::int as calls
    from hub.usage where outcome = 'ok'`)[0] ?? assert.fail("no sum");

Deno.test("what runs below a run use is added up, and their bounds come from above", async (t) => {
  const upstream = await startScriptedUpstream();
  try {
    await withHub(configOf(upstream.url), async (hub) => {
      await t.step(
        "tokens and cost; the stream of the run above holds no word of them",
        async () => {
          upstream.script(byAgent({
            boss: inTurn(asks("agents_middle"), says("It says 42")),
            middle: inTurn(asks("agents_helper"), says("42, it says")),
            helper: inTurn(asks("hub_calculate", { expression: "6*7" }, MUSING), says("42")),
          }));
          const { text, finish, children: [child, ...more] } = await run(hub);
          assert.deepEqual(more, []);
          assert.deepEqual([child?.usage.totalTokens, child?.costMicros], [4 * TOKENS, 4 * COST]);
          assert.deepEqual([finish.usage.totalTokens, finish.costMicros], [6 * TOKENS, 6 * COST]);
          const rows = await eventually(async () => {
            const rows = await booked(hub);
            return rows.calls === 6 ? rows : null;
          });
          assert.deepEqual([rows.tokens, rows.cost], [6 * TOKENS, 6 * COST]);
          const { sessionId, runId } = child ?? assert.fail("no child");
          assert.ok(!text.includes(MUSING) && !text.includes("6*7"));
          const below = await (await hub.call(`/v1/runs/${runId}/stream`)).text();
          const [grandchild] = readLog(below).children;
          const deepest = await hub.call(`/v1/runs/${grandchild?.runId}/stream`);
          assert.ok((await deepest.text()).includes("fingers"), "it is in the log of its own run");
          const session = await (await hub.call(`/v1/sessions/${sessionId}`)).json();
          assert.equal(session.agent, "middle");
        },
      );

      for (
        const [budget, reason] of [
          [{ tokens: 20 * TOKENS }, "max-tokens"],
          [{ costMicros: 20 * COST }, "max-cost"],
          [{ outputBytes: 1200 }, "max-output"],
          [{ steps: 12 }, "max-steps"],
        ] as const
      ) {
        await t.step(
          `${reason}: what is left passes down two levels, and all stay within it`,
          async () => {
            upstream.script(byAgent({
              boss: inTurn(asks("agents_middle"), says("Short")),
              middle: inTurn(asks("agents_helper"), says("Shorter")),
              helper: endlessly,
            }));
            const { finish, children: [child] } = await run(hub, budget);
            const middle = await childOf(hub, child);
            const log = await (await hub.call(`/v1/runs/${child?.runId}/stream`)).text();
            const below = readLog(log);
            const helper = await childOf(hub, below.children[0]);
            assert.deepEqual([helper.status, helper.finishReason], ["completed", reason]);
            assert.equal(middle.status, "completed");
            assert.ok(finish.usage.totalTokens > 5 * TOKENS, "it went on for a while");
            assert.ok(finish.usage.totalTokens <= 20 * TOKENS);
            assert.ok((finish.costMicros ?? Infinity) <= 20 * COST);
            assert.ok(["stop", reason].includes(finish.finishReason));
          },
        );
      }

      await t.step("the end of its time stops all below it", async () => {
        upstream.script(byAgent({
          boss: inTurn(asks("agents_middle")),
          middle: inTurn(asks("agents_helper")),
          helper: inTurn(asks("test_hold", {})),
        }));
        const { finish } = await run(hub, { wallTimeMs: 5000 });
        assert.equal(finish.finishReason, "max-time");
        await eventually(async () => {
          const { data: sessions } = await (await hub.call("/v1/sessions")).json();
          const open = sessions.filter(({ activeRun }: JsonObject) => activeRun !== null);
          return open.length === 0 ? true : null;
        });
        const rows = await hub.hub.start.db.read<{ agent: string; status: string }[]>`
          select agent, status from hub.runs order by created_at desc limit 3`;
        assert.deepEqual(rows.map(({ agent, status }) => [agent, status]), [
          ["helper", "cancelled"],
          ["middle", "cancelled"],
          ["boss", "completed"],
        ]);
        const calls = await hub.hub.start.db.read`select count(*)::int as open from hub.tool_calls
          where state in ('ready', 'started')`;
        assert.deepEqual({ ...calls[0] }, { open: 0 });
      });
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("whoever takes over a run that asks, and the one that it asks, comes to the same sums", async () => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-sums-" });
  const config = { ...configOf(upstream.url), runs: { leaseMs: 5000 } };
  const stall = chatStream({ text: "One two three", endAfter: 3, end: "stall" });
  const start = () => startHubProcess(folder, { DATABASE_URL: postgres.url });
  const asked = async (calls: number) =>
    await upstream.until(() => upstream.requests.length >= calls, 60_000);
  try {
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    upstream.script(byAgent({
      boss: inTurn(asks("agents_helper"), stall, says("It has said four")),
      helper: inTurn(asks("hub_calculate", { expression: "2+2" }, MUSING), stall, says("four")),
    }));
    const first = await start();
    let key: string;
    let runId: string;
    try {
      key = await eventually(() => first.key());
      const { id } = await (await first.post("/v1/sessions", { agent: "boss" })).json();
      const answer = await first.post(`/v1/sessions/${id}/messages`, { text: "Go" });
      runId = answer.headers.get("x-loophub-run") ?? "";
      await asked(3);
      await answer.body?.cancel();
    } finally {
      await first.end("SIGKILL");
    }
    // The second ends the run below, and is lost when the one above reads its answer.
    const second = await start();
    try {
      await asked(5);
    } finally {
      await second.end("SIGKILL");
    }
    const options = { databaseUrl: postgres.url, dataDir: `${folder}/data`, key };
    const third = await startTestHub(config, options);
    try {
      await eventually(async () => {
        const { status } = await (await third.call(`/v1/runs/${runId}`)).json();
        return status === "completed" ? true : null;
      });
      const text = await (await third.call(`/v1/runs/${runId}/stream`)).text();
      const { finish, children } = readLog(text);
      // The calls that were lost with a hub count with their estimates, each in its own run.
      const rows = await third.hub.start.db.read<
        { isAsked: boolean; tokens: number; cost: number; lost: number }[]
      >`select run_id <> ${
        toUuid(runId as Id)
      } as "isAsked", sum(prompt_tokens + completion_tokens)::int as tokens,
          sum(cost_micros)::int as cost, count(*) filter (where error_code = 'orphaned')::int as lost
        from hub.usage group by 1 order by 1`;
      assert.deepEqual(rows.map(({ lost }) => lost), [1, 1]);
      assert.deepEqual(
        children.map(({ steps, costMicros }) => [steps, costMicros]),
        rows.filter(({ isAsked }) => isAsked).map(({ cost }) => [2, cost]),
      );
      const sum = (of: (row: typeof rows[number]) => number) =>
        rows.reduce((total, row) => total + of(row), 0);
      assert.deepEqual(
        [finish.usage.totalTokens, finish.costMicros],
        [sum(({ tokens }) => tokens), sum(({ cost }) => cost)],
      );
      assert.ok(sum(({ cost }) => cost) > 4 * COST);
      assert.equal(upstream.requests.length, 6);
      assert.ok(!text.includes(MUSING));
    } finally {
      await third.close();
    }
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
