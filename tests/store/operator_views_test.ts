import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { answer, PAY, runOf, startTill, untilWaiting } from "../support/approvals_rig.ts";
import { startAsking } from "../support/asking_server.ts";
import { query } from "../support/query.ts";
import {
  chatError,
  chatFrames,
  chatStream,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

/** A million tokens in cost a dollar, out two. */
const PRICED = { pricing: { inputPerMillion: 1, outputPerMillion: 2 } };
const USAGE = { promptTokens: 100, completionTokens: 50 };

interface Rig {
  hub: TestHub;
  upstream: ScriptedUpstream;
  till: ReturnType<typeof startTill>;
  /** Begins a run of the session with the key. */
  begin(session: string): Promise<{ runId: string; ended: Promise<string> }>;
  newSession(): Promise<string>;
  rows(text: string): Promise<JsonObject[]>;
}

/** A hub with a priced model, an operation that asks first, and the key of a shop with two tags. */
async function withShop(body: (rig: Rig) => Promise<void>): Promise<void> {
  const upstream = await startScriptedUpstream();
  const till = startTill();
  const painter = startAsking("legacy");
  const config = {
    providers: { up: { baseUrl: upstream.url, maxRetries: 0, models: { m: PRICED } } },
    defaultModel: "up/m",
    operations: { modules: [PAY] },
    agents: {
      default: { tools: ["test.pay", "peer__*"], agents: ["helper"] },
      helper: { tools: [] },
    },
    mcpServers: { peer: { url: painter.url } },
    runs: { approvalTimeoutMs: 600_000 },
  };
  try {
    await withHub(config, async (hub) => {
      await hub.hub.mcp.settled(10_000);
      const made = await (await hub.call("/v1/admin/keys", {
        body: { name: "till", owner: "shop", tags: ["web", "beta"] },
      })).json();
      const headers = { authorization: `Bearer ${made.token}` };
      await body({
        hub,
        upstream,
        till,
        newSession: async () =>
          (await (await hub.call("/v1/sessions", { headers, body: {} })).json()).id,
        async begin(session) {
          const path = `/v1/sessions/${session}/messages`;
          const reply = await hub.call(path, { headers, body: { text: "Go" } });
          assert.equal(reply.status, 200);
          return { runId: reply.headers.get("x-loophub-run") ?? "", ended: reply.text() };
        },
        rows: (text) => query<JsonObject>(hub.databaseUrl, text),
      });
    });
  } finally {
    await upstream.stop();
    await till.stop();
    await painter.stop();
  }
}

const calls = (name: string, input: JsonObject) =>
  chatStream({ toolCalls: [{ name, arguments: input }], usage: USAGE });
const pays = (url: string, amount: number) => calls("test_pay", { url, amount });
const DONE = chatStream({ text: "Done", usage: USAGE });
const stalled = () => {
  const [first = "", second = ""] = chatFrames({ text: "For ever" }) as string[];
  return { ...DONE, frames: [first, second], end: "stall" } as const;
};

Deno.test("operators read what happened in a session, what it cost and what waits", async (t) => {
  await withShop(async ({ hub, upstream, till, begin, newSession, rows }) => {
    const session = await newSession();
    const now = async (runId: string) =>
      (await rows(`select key, status, agent, step, waits_for, detail, replica is not null as held,
        waiting >= interval '0' as waiting from hub.runs_now where run = '${runId}'`))[0];

    await t.step("a run that waits for a person says for which call", async () => {
      upstream.script([pays(till.url, 1), DONE]);
      const { runId, ended } = await begin(session);
      const [asked] = await untilWaiting(hub, runId);
      assert.deepEqual(await now(runId), {
        ...{ key: "till", status: "waiting", agent: "default", step: 0, held: false },
        ...{ waits_for: "approval", detail: "test.pay (high risk)", waiting: true },
      });
      till.hold();
      await answer(hub, runId, asked.id, { approved: true });
      const atTool = await eventually(async () =>
        (await now(runId))?.["waits_for"] === "tool" ? await now(runId) : null
      );
      assert.deepEqual([atTool?.["detail"], atTool?.["held"]], ["test.pay", true]);
      till.release();
      await ended;
      assert.equal(await now(runId), undefined);
    });

    await t.step("a denial, a failure and a stop", async () => {
      upstream.script([pays(till.url, 2), DONE]);
      const denied = await begin(session);
      const [asked] = await untilWaiting(hub, denied.runId);
      await answer(hub, denied.runId, asked.id, { approved: false, reason: "too much" });
      await denied.ended;

      upstream.script([chatError(400, { message: "no such thing" })]);
      await (await begin(session)).ended;

      upstream.script([stalled()]);
      const stuck = await begin(session);
      const atModel = await eventually(async () =>
        (await now(stuck.runId))?.["waits_for"] === "model" ? await now(stuck.runId) : null
      );
      assert.deepEqual([atModel?.["detail"], atModel?.["step"]], ["up/m", 0]);
      await (await hub.call(`/v1/runs/${stuck.runId}/stop`, { method: "POST" })).body?.cancel();
      await stuck.ended;
      assert.equal((await runOf(hub, stuck.runId)).status, "cancelled");
    });

    await t.step("a run below that fails, and a question of a tool", async () => {
      const refusal = chatError(400, { message: "not me" });
      upstream.script([calls("agents_helper", { prompt: "Help" }), refusal, DONE]);
      await (await begin(session)).ended;

      upstream.script([calls("peer__paint", {}), DONE]);
      const painted = await begin(session);
      const asks = await eventually(async () =>
        (await now(painted.runId))?.["waits_for"] === "question" ? await now(painted.runId) : null
      );
      assert.equal(asks?.["detail"], "peer: Which\\u202e colour?");
      const path = `/v1/runs/${painted.runId}/questions`;
      const { data: questions } = await (await hub.call(path)).json();
      const declined = await hub.call(`${path}/${questions[0].id}`, {
        body: { action: "decline" },
      });
      assert.equal(declined.status, 200);
      await declined.body?.cancel();
      await painted.ended;
    });

    await t.step("the transcript has them all, with costs", async () => {
      const lines = await rows(`select position as m, role, kind, text, cost_usd::text as cost
        from hub.transcript_of('${session}')`);
      const shown = lines.map(({ m, role, kind, text, cost }) =>
        `${m} ${role} | ${kind} | ${text} | ${cost}`
          .replaceAll(/6\d\d \+ 3 tokens/g, "estimated tokens").replaceAll(
            /0\.0006\d+/g,
            "estimated",
          )
          .replaceAll(/\d+ ms/g, "N ms").replaceAll(/\d\d:\d\d:\d\d/g, "T")
          .replaceAll(/(run|ses)_\w+/g, "$1_ID").replaceAll(till.url, "URL")
      );
      const step = (end: string) => `up/m, ${end}, 100 + 50 tokens, N ms | 0.000200`;
      const run = (tokens: string) => `agent default, up/m, ${tokens} tokens, N ms`;
      const asked = "high risk, asked T UTC";
      const output = (at: number, kind: string) =>
        shown.find((line) => line.startsWith(`${at} assistant | ${kind} |`));
      assert.match(output(10, "tool agents.helper") ?? "", /not me/);
      assert.match(output(12, "tool peer__paint") ?? "", /=> .*decline/);
      const called = /^1\d assistant [|] tool/;
      assert.deepEqual(shown.filter((line) => !/^\d+ user/.test(line) && !called.test(line)), [
        `2 hub | step 0 | ${step("tool-calls")}`,
        '2 assistant | tool test.pay | {"url":"URL","amount":1} => paid | null',
        `2 person | approval test.pay | ${asked}: approved by first | null`,
        `2 hub | step 1 | ${step("stop")}`,
        "2 assistant | text | Done | null",
        `2 hub | run completed | stop, ${run("200 + 100")} | 0.000400`,
        `4 hub | step 0 | ${step("tool-calls")}`,
        '4 assistant | tool test.pay | {"url":"URL","amount":2} => ' +
        "denied: Not executed: a person denied it: too much | null",
        `4 person | approval test.pay | ${asked}: denied by first: too much | null`,
        `4 hub | step 1 | ${step("stop")}`,
        "4 assistant | text | Done | null",
        `4 hub | run completed | stop, ${run("200 + 100")} | 0.000400`,
        "6 hub | step 0 | error, 0 + 0 tokens, N ms | 0.000000",
        `6 hub | run failed | upstream_rejected: no such thing, ${run("0 + 0")} | 0.000000`,
        "8 hub | step 0 | up/m, aborted, estimated tokens, N ms | estimated",
        "8 assistant | text | For  | null",
        "8 hub | run cancelled | stopped by the user, agent default, up/m, estimated tokens, N ms | estimated",
        `10 hub | step 0 | ${step("tool-calls")}`,
        "10 hub | sub-run helper | run_ID of ses_ID: failed: upstream_rejected: not me | 0.000000",
        `10 hub | step 1 | ${step("stop")}`,
        "10 assistant | text | Done | null",
        `10 hub | run completed | stop, ${run("200 + 100")} | 0.000400`,
        `12 hub | step 0 | ${step("tool-calls")}`,
        "12 person | question peer | Which\\u202e colour?: declined by first | null",
        `12 hub | step 1 | ${step("stop")}`,
        "12 assistant | text | Done | null",
        `12 hub | run completed | stop, ${run("200 + 100")} | 0.000400`,
      ]);
      const viewed = await rows(`select count(*)::int as n from hub.transcript
        where session = '${session}'`);
      assert.equal(viewed[0]?.["n"], lines.length);
    });

    await t.step("what today has cost, by key, owner, tag and agent", async () => {
      upstream.script([chatStream({ text: "Hi", usage: USAGE }), chatError(400)]);
      for (const status of [200, 400]) {
        const body = { model: "up/m", messages: [{ role: "user", content: "Hi" }], stream: true };
        const reply = await hub.call("/v1/chat/completions", { body });
        assert.equal(reply.status, status);
        await reply.text();
      }
      const spent = await eventually(async () => {
        const found = await rows(`select grouped_by, name, key is not null as has_key, calls::int,
          failed::int, unpriced::int, cost_usd::float8 as cost, prompt_tokens::int as tokens
          from hub.spend_today order by grouped_by, name nulls last`);
        return found.some((row) => row["calls"] === 13) ? found : null;
      });
      assert.deepEqual(
        spent.map(({ grouped_by, name, has_key, calls, failed, unpriced }) =>
          [grouped_by, name, has_key, calls, failed, unpriced].map(String).join(" ")
        ),
        [
          "agent default false 10 2 0",
          "agent helper false 1 1 0",
          "agent null false 2 1 0",
          "key first true 2 1 0",
          "key till true 11 3 0",
          "owner shop false 11 3 0",
          "owner null false 2 1 0",
          "tag beta false 11 3 0",
          "tag web false 11 3 0",
          "tag null false 2 1 0",
          "total null false 13 4 0",
        ],
      );
      const [total] = spent.slice(-1);
      assert.ok(Number(total?.["tokens"]) >= 1400);
      for (const by of ["agent", "key", "owner"]) {
        for (const what of ["cost", "tokens"]) {
          const sum = spent.reduce(
            (so, row) => so + (row["grouped_by"] === by ? Number(row[what]) : 0),
            0,
          );
          assert.equal(sum.toFixed(6), Number(total?.[what]).toFixed(6), `${by} ${what}`);
        }
      }
    });

    await t.step("how models answer", async () => {
      const [all, ...others] = await rows(
        `select provider, model, calls_today::int, errors_today::int,
        calls_last_hour::int, errors_last_hour::int, first_p50_ms, first_p95_ms, total_p50_ms, total_p95_ms
        from hub.model_latency`,
      );
      assert.deepEqual(others, []);
      const { first_p50_ms, first_p95_ms, total_p50_ms, total_p95_ms, ...counts } = all ?? {};
      assert.deepEqual(counts, {
        ...{ provider: "up", model: "m", calls_today: 13, errors_today: 3 },
        ...{ calls_last_hour: 13, errors_last_hour: 3 },
      });
      const usage = await rows(`select first_token_ms as first, duration_ms as total from hub.usage
        where outcome = 'ok'`);
      const quantile = (of: string, share: number) => {
        const sorted = usage.map((row) => Number(row[of])).sort((a, b) => a - b);
        return sorted[Math.ceil(sorted.length * share) - 1];
      };
      assert.deepEqual([first_p50_ms, first_p95_ms], [
        quantile("first", 0.5),
        quantile("first", 0.95),
      ]);
      assert.deepEqual([total_p50_ms, total_p95_ms], [
        quantile("total", 0.5),
        quantile("total", 0.95),
      ]);
    });
  });
});
