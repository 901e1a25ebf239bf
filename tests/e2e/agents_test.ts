import assert from "node:assert/strict";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";

Deno.test("agents and their tools are listed as far as a key may run them, and a run takes another model that it may call", async () => {
  const upstream = await startScriptedUpstream();
  upstream.script(() => chatStream({ text: "Hi" }));
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "up/first",
    agents: {
      brief: { description: "Says little", tools: ["hub.*"], approvals: { ask: ["hub.wait"] } },
      secret: {},
    },
  };
  try {
    await withHub(config, async (hub) => {
      const policy = { agents: ["brief", "default"], models: ["up/first", "up/second"] };
      const made = await hub.call("/v1/admin/keys", { body: { name: "few", policy } });
      const { token } = await made.json();
      const call = (path: string, body?: Parameters<typeof hub.call>[1]) =>
        hub.call(path, { ...body, headers: { authorization: `Bearer ${token}` } });

      const { data: agents } = await (await call("/v1/agents")).json();
      assert.deepEqual(agents.map(({ name }: { name: string }) => name), ["brief", "default"]);
      assert.deepEqual(agents[0], {
        name: "brief",
        description: "Says little",
        model: "up/first",
      });
      const { tools } = await (await call("/v1/agents/brief")).json();
      const wait = tools.find(({ name }: { name: string }) => name === "hub.wait");
      assert.equal(wait.approval, "ask");
      assert.ok(tools.every(({ name }: { name: string }) => name.startsWith("hub.")));
      assert.equal((await call("/v1/agents/secret")).status, 403);
      assert.equal((await call("/v1/agents/nobody")).status, 403);
      assert.equal((await hub.call("/v1/agents/nobody")).status, 404);

      const session = await (await call("/v1/sessions", { body: { agent: "brief" } })).json();
      const say = (model: string) =>
        call(`/v1/sessions/${session.id}/messages`, { body: { text: "Hi", model, stream: false } });
      assert.equal((await say("up/second")).status, 200);
      assert.equal(upstream.requests.at(-1)?.json.model, "second");
      assert.equal((await say("up/third")).status, 403);
      assert.equal((await say("nothing/at-all")).status, 403);
    });
  } finally {
    await upstream.stop();
  }
});
