import assert from "node:assert/strict";
import { eventually } from "../support/test_hub.ts";
import { noneWith, processesWith } from "../support/processes.ts";
import { loadServers, scripted, withServers } from "./rig.ts";

const tools = (...names: string[]) =>
  names.map((name) => ({ name, inputSchema: { type: "object" } }));

Deno.test("other servers are taken over: what was not changed stays, what is gone leaves no process", async () => {
  const tag = `tag-${crypto.randomUUID()}`;
  const server = (name: string, more = {}) =>
    scripted({ tools: tools(name) }, { env: { TAG: tag }, ...more });
  const before = { kept: server("a"), changed: server("b"), gone: server("c") };
  await withServers(before, async ({ mcp, connection, context, call }) => {
    await mcp.settled(30_000);
    const kept = connection("kept");
    const [oldTool, goneTool] = mcp.tools;
    const news: string[][] = [];
    mcp.onChange(() => news.push(mcp.tools.map(({ name }) => name)));

    mcp.use({ servers: loadServers(before).servers });
    assert.deepEqual(news, []);

    const { servers } = loadServers({
      kept: server("a"),
      changed: server("b", { tools: { deny: ["x"] } }),
      added: server("d"),
    });
    mcp.use({ servers });
    assert.equal(connection("kept"), kept);
    // How the changed one is reached stays the same, and so does its list.
    assert.deepEqual(news[0], ["changed__b", "kept__a"]);
    await mcp.settled(30_000);
    assert.deepEqual(news.at(-1), ["added__d", "changed__b", "kept__a"]);

    await assert.rejects(
      async () => await oldTool?.execute({}, context),
      /The MCP server changed is not available: its configuration has changed/,
    );
    await assert.rejects(
      async () => await goneTool?.execute({}, context),
      /The MCP server gone is not available: it is not configured any more/,
    );
    for (const name of ["changed__b", "kept__a", "added__d"]) {
      assert.ok((await call(name)).isError !== true);
    }
    mcp.use({ servers: {} });
    assert.deepEqual(mcp.tools, []);
    await noneWith(tag);
  });
});

Deno.test("a call under way ends with the server that it began with", async () => {
  const tag = `tag-${crypto.randomUUID()}`;
  const one = scripted({ tools: tools("a") }, { env: { TAG: tag } });
  await withServers({ one }, async ({ mcp, call, progressed }) => {
    await mcp.settled(30_000);
    const stop = new AbortController();
    const calling = call("one__a", { progress: 1, silent: true }, stop.signal);
    const ended = assert.rejects(calling);
    await eventually(() => progressed.length === 1 || null);
    mcp.use({ servers: {} });
    assert.ok((await processesWith(tag)).length > 0);
    stop.abort();
    await ended;
    await noneWith(tag);
  });
});
