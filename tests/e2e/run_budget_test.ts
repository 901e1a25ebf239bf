import assert from "node:assert/strict";
import { readSpentBudget } from "../../src/store/run_budgets.ts";
import { DEFAULT_TENANT_ID as tenantId } from "../../src/store/tenant.ts";
import { at } from "../support/at.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { command } from "../support/hub_process.ts";
import { connectMcp } from "../support/mcp_clients.ts";
import { withHub } from "../support/test_hub.ts";

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
    operations: {
      modules: [new URL("../fixtures/operations/long_list.ts", import.meta.url).pathname],
    },
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
