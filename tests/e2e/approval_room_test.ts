import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { answer, approvalsOf, PAY, start, untilWaiting } from "../support/approvals_rig.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";

Deno.test("a key whose only place is taken by a run that waits for a person looks at the question and answers it", async () => {
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    operations: { modules: [PAY] },
    agents: { default: { preflight: { when: "always" } } },
    limits: { maxConcurrentPerKey: 1, maxQueuedPerKey: 0 },
  };
  const call = (name: string, input: JsonObject) =>
    chatStream({ toolCalls: [{ name, arguments: input }] });
  try {
    await withHub(config, async (hub) => {
      upstream.script([
        call("hub_propose_plan", { steps: [{ tool: "test.pay", purpose: "To pay" }] }),
        call("test_pay", { url: "http://127.0.0.1:1", amount: 1 }),
        chatStream({ text: "Done" }),
      ]);
      const { runId, stream } = await start(hub);
      await untilWaiting(hub, runId);
      const full = await hub.call("/v1/models");
      await full.body?.cancel();
      assert.equal(full.status, 429, "the place is taken");
      for (const path of ["", "/approvals", "/questions", "/preflight"]) {
        const reply = await hub.call(`/v1/runs/${runId}${path}`);
        await reply.body?.cancel();
        assert.equal(reply.status, 200, path);
      }
      const agreed = await hub.call(`/v1/runs/${runId}/preflight`, { body: { approved: true } });
      await agreed.body?.cancel();
      assert.equal(agreed.status, 200);
      const asked = await eventually(async () =>
        (await approvalsOf(hub, runId)).find(({ toolName }) => toolName === "test.pay")
      );
      const { status } = await answer(hub, runId, asked.id, { approved: false });
      assert.equal(status, 200);
      assert.match(await stream, /a person denied it/);
    });
  } finally {
    await upstream.stop();
  }
});
