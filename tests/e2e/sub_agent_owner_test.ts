import assert from "node:assert/strict";
import { withKey } from "../support/owned_things.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";

Deno.test("ownership: a run that is asked for stays with the owner of the session above, whichever key began that run", async () => {
  const upstream = await startScriptedUpstream((request) => {
    const text = JSON.stringify(request.json);
    if (!text.includes("I am boss")) return chatStream({ text: "Done below" });
    if (request.messages.at(-1)?.role === "tool") return chatStream({ text: "Done" });
    return chatStream({ toolCalls: [{ name: "agents_helper", arguments: { prompt: "Do it" } }] });
  });
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    agents: {
      boss: { systemPrompt: "I am boss", tools: [], agents: ["helper"] },
      helper: { systemPrompt: "I am helper", tools: [] },
    },
  };
  try {
    await withHub(config, async (hub) => {
      const newKey = async (owner: string) => {
        const body = { name: owner, owner };
        return withKey(hub, (await (await hub.call("/v1/admin/keys", { body })).json()).token);
      };
      const alice = await newKey("alice");
      const bob = await newKey("bob");
      const sessionsOf = async (one: TestHub): Promise<{ id: string; agent: string }[]> =>
        (await (await one.call("/v1/sessions")).json()).data;
      const { id } = await (await alice.call("/v1/sessions", { body: { agent: "boss" } })).json();
      const said = await hub.call(`/v1/sessions/${id}/messages`, { body: { text: "Go" } });
      assert.equal(said.status, 200);
      assert.match(await said.text(), /Done below/);
      const seen = await sessionsOf(alice);
      assert.deepEqual(seen.map(({ agent }) => agent), ["helper", "boss"]);
      assert.deepEqual(await sessionsOf(bob), []);
      const below = seen[0]?.id ?? "";
      assert.equal((await alice.call(`/v1/sessions/${below}/messages`)).status, 200);
      assert.equal((await bob.call(`/v1/sessions/${below}/messages`)).status, 404);
    });
  } finally {
    await upstream.stop();
  }
});
