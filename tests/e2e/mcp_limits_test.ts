import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { connectMcp } from "../support/mcp_clients.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";

Deno.test("rules of keys hold for calls over MCP, and cancelling gets in when a key is full", async (t) => {
  const upstream = await startScriptedUpstream(() =>
    chatStream({ text: "Hi", usage: { promptTokens: 5, completionTokens: 2 } })
  );
  const pricing = { inputPerMillion: 1, outputPerMillion: 2 };
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-up", models: { m: { pricing } } } },
    defaultModel: "up/m",
    limits: { maxQueuedPerKey: 0 },
  };
  try {
    await withHub(config, async (hub) => {
      const make = async (policy: JsonObject) => {
        const answer = await hub.call("/v1/admin/keys", { body: { name: "k", policy } });
        return await answer.json() as { token: string; key: { id: string } };
      };

      await t.step("a run is a usage row of its key", async () => {
        const { token, key } = await make({});
        const client = await connectMcp("v2", { url: hub.url, key: token });
        await client.call("agent_default", { prompt: "Hi" });
        const row = await eventually(async () =>
          (await hub.hub.start.db.read<{ kind: string; total: number }[]>`
            select kind, (prompt_tokens + completion_tokens)::int as total from hub.usage
            where key_id = ${key.id.slice(4)}::uuid`)[0]
        );
        assert.deepEqual({ ...row }, { kind: "run", total: 7 });
        await client.close();
      });

      await t.step("a budget that is spent is told in words", async () => {
        const { token } = await make({ budgets: { total: { hardMicros: 0 } } });
        const client = await connectMcp("v2", { url: hub.url, key: token });
        const result = await client.call("agent_default", { prompt: "Hi" });
        assert.equal(result.isError, true);
        assert.match(result.content[0]?.text ?? "", /budget/);
        await client.close();
      });

      await t.step("a full key's call is refused, its cancellation is not", async () => {
        const { token } = await make({ maxConcurrent: 1 });
        for (const kind of ["v1", "v2"] as const) {
          upstream.script(chatStream({ text: "a b", end: "stall" }));
          const client = await connectMcp(kind, { url: hub.url, key: token });
          const [asked, closed] = [upstream.requests.length, upstream.closedByClient.length];
          const cancel = new AbortController();
          const { signal } = cancel;
          const first = client.call("agent_default", { prompt: "Hi" }, { signal });
          first.catch(() => {});
          await upstream.until(() => upstream.requests.length > asked);
          const second = await client.call("hub_calculate", { expression: "1+1" });
          assert.equal(second.isError, true);
          assert.match(second.content[0]?.text ?? "", /under way|at the same time|requests/);
          assert.ok((await client.tools()).length > 0);
          cancel.abort();
          await assert.rejects(first);
          await upstream.until(() => upstream.closedByClient.length > closed);
          await eventually(async () => {
            const again = await client.call("hub_calculate", { expression: "1+1" });
            return again.isError === true ? null : true;
          });
          await client.close();
        }
      });
    });
  } finally {
    await upstream.stop();
  }
});
