import assert from "node:assert/strict";
import { readSpentBudget } from "../../src/store/run_budgets.ts";
import { DEFAULT_TENANT_ID as tenantId } from "../../src/store/tenant.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";

Deno.test("budgets of an agent and of a request: the smaller counts, and rows tell what was used", async () => {
  const upstream = await startScriptedUpstream();
  const usage = { promptTokens: 100, completionTokens: 20 };
  upstream.script((request, index) => {
    const name = request.json.tools[0].function.name;
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
