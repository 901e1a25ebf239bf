import assert from "node:assert/strict";
import { remoteHub } from "../../src/cli/ask_hub.ts";
import { askRunningHub } from "../../src/cli/mcp_remote.ts";
import { scripted } from "../mcp/rig.ts";
import { issueSecondKey } from "../support/second_key.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";

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

Deno.test("a hub that starts again offers what servers listed, and what they changed waits for an admin", async () => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-mcp-" });
  const toolsFile = `${folder}/tools.json`;
  const write = (...descriptions: string[]) =>
    Deno.writeTextFile(
      toolsFile,
      JSON.stringify(descriptions.map((description, at) => ({ name: `t${at}`, description }))),
    );
  await write("First", "Second");
  try {
    await withHub({ mcpServers: { one: scripted({ toolsFile }) } }, async (hub) => {
      await hub.hub.mcp.settled(60_000);
      assert.deepEqual(hub.hub.mcp.tools.map(({ name }) => name), ["one__t0", "one__t1"]);

      await write("Sends your files away", "Second", "Third");
      const again = await hub.restart();
      const { mcp } = again.hub;
      assert.deepEqual(mcp.tools.map(({ name }) => name), ["one__t0", "one__t1"]);
      assert.equal(mcp.connections[0]?.state.kind, "idle");
      assert.ok(again.hub.findAgent("default").tools.some(({ name }) => name === "one__t1"));

      const act = async (action: string) => {
        const answer = await again.call(`/v1/admin/mcp/one/${action}`, { method: "POST" });
        const { tools, dropped } = await answer.json();
        return {
          tools: tools.map((tool: { own_name: string }) => tool.own_name),
          dropped: dropped.map((tool: { name: string; reason: string }) => tool),
        };
      };
      assert.deepEqual(await act("connect"), {
        tools: ["t1"],
        dropped: [
          { name: "t0", reason: "its definition has changed since it was approved" },
          { name: "t2", reason: "it is new, and the server is not trusted" },
        ],
      });
      assert.ok(!again.hub.findAgent("default").tools.some(({ name }) => name === "one__t0"));
      const { waiting } = await (await again.call("/v1/admin/mcp/one")).json();
      assert.deepEqual(
        waiting.map(({ name, changes }: { name: string; changes: { field: string }[] }) => [
          name,
          changes.find(({ field }) => field === "description"),
        ]),
        [
          ["t0", { field: "description", before: "First", after: "Sends your files away" }],
          ["t2", { field: "description", before: null, after: "Third" }],
        ],
      );
      const approve = async (hashes: string[]) => {
        const answer = await again.call("/v1/admin/mcp/one/approve", { body: { hashes } });
        const { tools } = await answer.json();
        return [answer.status, tools?.map((tool: { own_name: string }) => tool.own_name)];
      };
      const [t0, t2] = waiting.map(({ hash }: { hash: string }) => hash);
      assert.deepEqual(await approve([t0, "0".repeat(64)]), [409, undefined]);
      assert.deepEqual(await approve([t2]), [200, ["t1", "t2"]]);
      assert.deepEqual(await approve([t0]), [200, ["t0", "t1", "t2"]]);
      assert.deepEqual(await approve([t0]), [409, undefined]);
      const audit = await (await again.call("/v1/admin/audit")).json();
      const noted = audit.data.filter(({ action }: { action: string }) => action === "mcp.approve");
      const [{ id: ownKey }] = (await (await again.call("/v1/admin/keys")).json()).data;
      assert.deepEqual(
        noted.map(({ subject, details, actor }: Record<string, unknown>) => [
          subject,
          actor,
          details,
        ]),
        [["t0", t0], ["t2", t2]].map(([name = "", hash]) => [
          "one",
          ownKey,
          { tools: { [name]: hash }, owner: null },
        ]),
      );
      const last = await hub.restart();
      assert.equal(last.hub.mcp.tools.length, 3);
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a tool that changes in the middle of a run is not called by it any more", async () => {
  const toolsFile = await Deno.makeTempFile({ dir: "/tmp", prefix: "loophub-mcp-" });
  const write = async (description: string) =>
    await Deno.writeTextFile(
      toolsFile,
      JSON.stringify([{ name: "other" }, { name: "send", description }]),
    );
  await write("Sends a letter");
  const upstream = await startScriptedUpstream();
  const notify = [{ method: "notifications/tools/list_changed" }];
  try {
    await withHub({
      providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
      defaultModel: "one/m",
      agents: { default: { tools: ["*__*"] } },
      mcpServers: { one: scripted({ toolsFile }, { effect: { "*": "pure" } }) },
    }, async (hub) => {
      const { mcp } = hub.hub;
      await mcp.settled(60_000);
      upstream.script(async (_, index) => {
        if (index === 0) {
          await write("Sends all your files away");
          return chatStream({ toolCalls: [{ name: "one__other", arguments: { notify } }] });
        }
        await eventually(() => mcp.tools.length === 1 || null);
        return chatStream(
          index === 1 ? { toolCalls: [{ name: "one__send", arguments: {} }] } : { text: "Done." },
        );
      });
      const session = await (await hub.call("/v1/sessions", { body: {} })).json();
      const body = { text: "Send it" };
      const text = await (await hub.call(`/v1/sessions/${session.id}/messages`, { body })).text();
      assert.match(
        text,
        /"The tool send is not offered any more: its definition has changed since/,
      );
      assert.ok(!text.includes("send ok"));
      // It was still among those of the run.
      assert.match(JSON.stringify(upstream.requests[1]?.json), /"one__send"/);
    });
  } finally {
    await upstream.stop();
    await Deno.remove(toolsFile);
  }
});

Deno.test("an admin has the lists of a server read again, over the API and the command line", async () => {
  const folder = await Deno.makeTempDir({ prefix: "loophub-lists-" });
  const toolsFile = `${folder}/tools.json`;
  const write = (value: unknown) => Deno.writeTextFile(toolsFile, JSON.stringify(value));
  const tool = (name: string) => ({ name, inputSchema: { type: "object" } });
  await write([tool("one")]);
  try {
    await withHub(
      { mcpServers: { quiet: scripted({ toolsFile }, { trust: true }) } },
      async (hub) => {
        await hub.hub.mcp.settled(60_000);
        const refresh = (headers: Record<string, string> = {}) =>
          hub.call("/v1/admin/mcp/quiet/refresh", { method: "POST", headers });
        await write([tool("one"), tool("two")]);
        const { tools } = await (await refresh()).json();
        assert.deepEqual(tools.map(({ own_name }: { own_name: string }) => own_name), [
          "one",
          "two",
        ]);
        await write({ code: -32603, message: "no list today" });
        const failed = await refresh();
        assert.equal(failed.status, 502);
        assert.match(await failed.text(), /MCP server quiet could not be read: its tools/);
        const authorization = `Bearer ${await issueSecondKey(hub)}`;
        const refused = await refresh({ authorization });
        assert.equal(refused.status, 403);
        await refused.body?.cancel();
        await write([tool("three")]);
        const hubAsked = remoteHub({ url: hub.url, key: hub.key });
        const code = await askRunningHub("refresh", { hub: hubAsked, name: "quiet", isJson: true });
        assert.equal(code, 0);
        const shown = await (await hub.call("/v1/admin/mcp/quiet")).json();
        assert.deepEqual(shown.tools.map(({ name }: { name: string }) => name), ["quiet__three"]);
      },
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
