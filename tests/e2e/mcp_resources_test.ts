import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { scripted } from "../mcp/rig.ts";
import { answer, start, untilWaiting } from "../support/approvals_rig.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { loadTestConfig, withHub } from "../support/test_hub.ts";

const BLOB = "AAECAw==";

Deno.test("agents that name it list and read resources of MCP servers, as far as their patterns go", async () => {
  const upstream = await startScriptedUpstream();
  const docs = scripted({
    capabilities: { resources: {} },
    answers: {
      "resources/list": {
        resources: [
          { uri: "file:///public/a", name: "a", mimeType: "text/plain" },
          { uri: "file:///secret/b", name: "b" },
        ],
      },
      "resources/templates/list": {
        resourceTemplates: [{ uriTemplate: "file:///public/{id}", name: "t" }],
      },
      "resources/read": {
        contents: [
          { uri: "file:///public/a", text: "words" },
          { uri: "file:///public/a", blob: BLOB, mimeType: "audio/wav" },
        ],
      },
    },
  });
  await withHub({
    providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "one/m",
    agents: {
      default: { tools: ["mcp.*", "docs__file:///public/*"], approvals: { tainted: "allow" } },
      other: { tools: ["*"] },
    },
    mcpServers: { docs, gone: { command: "/nowhere" } },
  }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    const read = (uri: string) => ({
      name: "mcp_read_resource",
      arguments: { server: "docs", uri },
    });
    const calls = [
      { name: "mcp_list_resources", arguments: {} },
      read("file:///public/a"),
      read("file:///secret/b"),
      read("file:///public/../secret/b"),
      { name: "mcp_list_resources", arguments: { server: "none" } },
    ];
    const say = async (agent: string) => {
      const session = await (await hub.call("/v1/sessions", { body: { agent } })).json();
      const answer = await hub.call(`/v1/sessions/${session.id}/messages`, {
        body: { text: "Look", stream: false },
      });
      assert.equal(answer.status, 200, await answer.text());
      return upstream.requests.at(-1)?.json as {
        tools?: { function: { name: string } }[];
        messages: { role: string; content: string }[];
      };
    };
    upstream.script((_, index) => {
      const call = calls[index];
      return call === undefined ? chatStream({ text: "Done" }) : chatStream({ toolCalls: [call] });
    });
    const { messages, tools } = await say("default");
    assert.deepEqual(tools?.map((tool) => tool.function.name), [
      "mcp_list_resources",
      "mcp_read_resource",
    ]);
    const results = messages.filter(({ role }) => role === "tool").map(({ content }) => content);
    assert.deepEqual(JSON.parse(results[0] ?? ""), {
      resources: [
        { server: "docs", uri: "file:///public/a", name: "a", mimeType: "text/plain" },
        { server: "docs", uri: "file:///public/{id}", name: "t" },
      ],
      notAvailable: ["gone"],
    });
    assert.match(results[1] ?? "", /^words\n/);
    assert.match(results[1] ?? "", /\/v1\/sessions\/\S+\/files\/[0-9a-f]{64}/);
    assert.ok(!results[1]?.includes(BLOB), results[1]);
    assert.match(results[2] ?? "", /There is no resource/);
    assert.match(results[3] ?? "", /There is no resource/);
    assert.match(results[4] ?? "", /There is no MCP server/);

    upstream.script(() => chatStream({ text: "Done" }));
    const names = (await say("other")).tools?.map((tool) => tool.function.name) ?? [];
    assert.ok(names.includes("hub_calculate"), names.join());
    assert.ok(!names.some((name) => name.startsWith("mcp_")), names.join());
  });
  await upstream.stop();
});

Deno.test("agents have resources too of the first server that comes with a changed file", async () => {
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "one/m",
    agents: { default: { tools: ["mcp.*"] } },
  };
  await withHub(config, async (hub) => {
    const offered = async () => {
      const session = await (await hub.call("/v1/sessions", { body: {} })).json();
      const body = { text: "Look", stream: false };
      await (await hub.call(`/v1/sessions/${session.id}/messages`, { body })).text();
      const { tools = [] } = upstream.requests.at(-1)?.json as {
        tools?: { function: { name: string } }[];
      };
      return tools.map((tool) => tool.function.name);
    };
    upstream.script(() => chatStream({ text: "Done" }));
    assert.deepEqual(await offered(), []);
    const mcpServers = { docs: scripted({ capabilities: { resources: {} } }) };
    await hub.hub.reload(await loadTestConfig({ ...config, mcpServers }, hub));
    assert.deepEqual(await offered(), ["mcp_list_resources", "mcp_read_resource"]);
  });
  await upstream.stop();
});

Deno.test("after words of others a person is asked before a resource is read, and told whose they are", async () => {
  const upstream = await startScriptedUpstream();
  const resources = scripted({
    capabilities: { resources: {} },
    answers: {
      "resources/list": { resources: [{ uri: "file:///a", name: "a" }] },
      "resources/templates/list": { resourceTemplates: [] },
      "resources/read": { contents: [{ uri: "file:///a", text: "words" }] },
    },
  });
  await withHub({
    providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "one/m",
    agents: { default: { tools: ["mcp.*", "docs__*", "web__*"] } },
    mcpServers: { docs: resources, web: resources },
    runs: { approvalTimeoutMs: 600_000 },
  }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    const script = (...calls: [name: string, input: JsonObject][]) =>
      upstream.script([
        ...calls.map(([name, input]) => chatStream({ toolCalls: [{ name, arguments: input }] })),
        chatStream({ text: "Done" }),
      ]);
    const read = (server: string): [string, JsonObject] => [
      "mcp_read_resource",
      { server, uri: "file:///a" },
    ];
    /** What a person is asked about in a new session that makes these calls. */
    const askedAfter = async (...calls: [string, JsonObject][]) => {
      script(...calls);
      const { runId, stream } = await start(hub);
      const [asked] = await untilWaiting(hub, runId);
      const { uri } = asked.input as { uri?: string };
      await answer(hub, runId, asked.id, { approved: true });
      assert.match(await stream, /words/);
      return [asked.toolName, uri, asked.tainted];
    };
    const asked = ["mcp.read_resource", "file:///a"];
    assert.deepEqual(await askedAfter(read("docs"), read("web")), [...asked, ["mcp:docs"]]);
    const ofOne: [string, JsonObject] = ["mcp_list_resources", { server: "web" }];
    assert.deepEqual(await askedAfter(ofOne, read("web")), [...asked, ["mcp:web"]]);
    const ofAll: [string, JsonObject] = ["mcp_list_resources", {}];
    assert.deepEqual(await askedAfter(ofAll, read("web")), [...asked, ["mcp"]]);
  });
  await upstream.stop();
});
