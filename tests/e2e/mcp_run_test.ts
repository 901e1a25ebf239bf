import assert from "node:assert/strict";
import type { SequencedEvent } from "../../src/core/event.ts";
import { checkLog } from "../../src/core/check_log.ts";
import { fetchPackages, realServer, startRealServer } from "../support/real_mcp_servers.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";

function eventsOf(text: string): SequencedEvent[] {
  return text.split("\n\n").filter((frame) => frame.startsWith("id: ")).map((frame) => {
    const match = /^id: (\d+)\ndata: (.*)$/.exec(frame);
    return { seq: Number(match?.[1]), event: JSON.parse(match?.[2] ?? "") };
  });
}

async function ask(hub: TestHub, text: string): Promise<string> {
  const session = await (await hub.call("/v1/sessions", { body: {} })).json();
  const answer = await hub.call(`/v1/sessions/${session.id}/messages`, { body: { text } });
  return await answer.text();
}

Deno.test("one step of a run uses tools of three real servers at once", async () => {
  await fetchPackages(["server-everything", "server-filesystem", "server-memory"]);
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-mcp-" });
  await Deno.writeTextFile(`${folder}/hello.txt`, "hello from a file");
  const upstream = await startScriptedUpstream();
  try {
    await withHub({
      providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
      defaultModel: "one/m",
      agents: { default: { tools: ["hub.calculate", "*__*"] } },
      mcpServers: {
        everything: { ...realServer("server-everything", ["stdio"]), tools: { deny: ["get-env"] } },
        filesystem: realServer("server-filesystem", [folder]),
        memory: realServer("server-memory", [], { MEMORY_FILE_PATH: `${folder}/memory.jsonl` }),
      },
    }, async (hub) => {
      await hub.hub.mcp.settled(120_000);
      const states = hub.hub.mcp.connections.map(({ name, state }) => [name, state.kind]);
      assert.deepEqual(states, [
        ["everything", "ready"],
        ["filesystem", "ready"],
        ["memory", "ready"],
      ]);
      upstream.script((_, index) =>
        index > 0 ? chatStream({ text: "Done." }) : chatStream({
          toolCalls: [
            { name: "everything__get-sum", arguments: { a: 2, b: 40 } },
            { name: "filesystem__read_text_file", arguments: { path: `${folder}/hello.txt` } },
            {
              name: "memory__create_entities",
              arguments: { entities: [{ name: "hub", entityType: "thing", observations: ["is"] }] },
            },
            { name: "everything__get-tiny-image", arguments: {} },
            {
              name: "everything__trigger-long-running-operation",
              arguments: { duration: 0.2, steps: 2 },
            },
          ],
        })
      );
      const text = await ask(hub, "Use everything");
      const logged = eventsOf(text);
      assert.deepEqual(checkLog(logged), []);
      const events = logged.map(({ event }) => event);
      const outputs = events.flatMap((event) =>
        event.type === "tool-output-available" ? [JSON.stringify(event.output)] : []
      );
      assert.equal(outputs.length, 5, JSON.stringify(events));
      assert.ok(outputs.some((output) => output.includes("42")));
      assert.ok(outputs.some((output) => output.includes("hello from a file")));
      assert.ok(outputs.some((output) => output.includes("observations")));
      assert.ok(outputs.some((output) => output.includes('"type":"image"')));
      assert.match(text, /"name":"progress".*"progress":1,"total":2/);

      const sent = upstream.requests[0]?.json as {
        messages: { role: string; content: string }[];
        tools: { function: { name: string; strict?: boolean } }[];
      };
      const names = sent.tools.map((tool) => tool.function.name);
      assert.ok(names.length > 20);
      assert.ok(!names.includes("everything__get-env"));
      assert.deepEqual(names, names.toSorted());
      assert.match(sent.messages[0]?.content ?? "", /^## TOOLS' INSTRUCTIONS\n\n### everything\n/);
      const calls = await hub.hub.start.db.read`select tool_name, state from hub.tool_calls`;
      assert.ok(calls.every(({ state }) => state === "succeeded"));
      assert.match(await Deno.readTextFile(`${folder}/memory.jsonl`), /"hub"/);
    });
  } finally {
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("one step of a run uses a real server over each transport that it offers", async () => {
  await fetchPackages(["server-everything"]);
  const upstream = await startScriptedUpstream();
  const http = await startRealServer("server-everything", ["streamableHttp"]);
  const sse = await startRealServer("server-everything", ["sse"]);
  try {
    await withHub({
      providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
      defaultModel: "one/m",
      agents: { default: { tools: ["*__*"] } },
      mcpServers: {
        stdio: realServer("server-everything", ["stdio"]),
        http: { type: "http", url: `${http.url}/mcp`, ...http.patient },
        sse: { type: "sse", url: `${sse.url}/sse`, ...sse.patient },
        found: { url: `${http.url}/mcp`, ...http.patient },
      },
    }, async (hub) => {
      await hub.hub.mcp.settled(120_000);
      const over = ["found", "http", "sse", "stdio"];
      const { data } = await (await hub.call("/v1/admin/mcp")).json();
      const stand = data.map(({ name, state, transport, tools }: Record<string, unknown>) => [
        name,
        state,
        transport,
        Array.isArray(tools) && tools.length > 10,
      ]).sort();
      assert.deepEqual(stand, [
        ["found", "ready", "http", true],
        ["http", "ready", "http", true],
        ["sse", "ready", "sse", true],
        ["stdio", "ready", "stdio", true],
      ]);
      upstream.script((_, index) =>
        index > 0 ? chatStream({ text: "Done." }) : chatStream({
          toolCalls: over.flatMap((name, at) => [
            { name: `${name}__get-sum`, arguments: { a: at, b: 40 } },
            {
              name: `${name}__trigger-long-running-operation`,
              arguments: { duration: 0.2, steps: 2 },
            },
            { name: `${name}__get-tiny-image`, arguments: {} },
          ]),
        })
      );
      const text = await ask(hub, "Use everything");
      const outputs = eventsOf(text).flatMap(({ event }) =>
        event.type === "tool-output-available" ? [JSON.stringify(event.output)] : []
      );
      assert.equal(outputs.length, 12, text);
      for (const [at] of over.entries()) {
        assert.ok(outputs.some((output) => output.includes(`${at} and 40 is ${at + 40}`)));
      }
      assert.equal(outputs.filter((output) => output.includes('"type":"image"')).length, 4);
      assert.equal(text.match(/"name":"progress"[^\n]*"progress":1,"total":2/g)?.length, 4);
    });
  } finally {
    await sse.stop();
    await http.stop();
    await upstream.stop();
  }
});
