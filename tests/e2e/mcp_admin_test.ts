import assert from "node:assert/strict";
import { scripted } from "../mcp/rig.ts";
import { issueSecondKey } from "../support/second_key.ts";
import { withHub } from "../support/test_hub.ts";

Deno.test("operators see how MCP servers stand, and what their tools did", async () => {
  await withHub({
    mcpServers: {
      good: scripted({ tools: [{ name: "one", inputSchema: {} }, null] }, {
        env: { TOKEN: "never-shown-value" },
      }),
      bad: { command: "no-such-program-here" },
    },
  }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    const answer = await hub.call("/v1/admin/mcp");
    assert.equal(answer.status, 200);
    const text = await answer.text();
    assert.doesNotMatch(text, /never-shown-value/);
    const { data } = JSON.parse(text);
    const [bad, good] = data;
    assert.deepEqual([bad.name, good.name], ["bad", "good"]);
    assert.match(bad.reason, /could not be started/);
    assert.deepEqual(
      { state: good.state, tools: good.tools, dropped: good.dropped },
      {
        state: "ready",
        tools: [{ name: "good__one", own_name: "one", description: "one" }],
        dropped: [{ name: "(no name)", reason: "it is no object" }],
      },
    );
    const again = await hub.call("/v1/admin/mcp/bad/connect", { method: "POST" });
    assert.match((await again.json()).reason, /could not be started/);
    const missing = await hub.call("/v1/admin/mcp/other");
    assert.equal(missing.status, 404);
    await missing.body?.cancel();

    const authorization = `Bearer ${await issueSecondKey(hub)}`;
    const refused = await hub.call("/v1/admin/mcp", { headers: { authorization } });
    assert.equal(refused.status, 403);
    await refused.body?.cancel();

    const metrics = await (await hub.call("/metrics")).text();
    assert.match(metrics, /loophub_mcp_server_state\{server="good",state="ready"\} 1/);
    assert.match(metrics, /loophub_mcp_tools\{server="good"\} 1/);
  });
});
