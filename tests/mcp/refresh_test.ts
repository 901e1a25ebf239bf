import assert from "node:assert/strict";
import { ListRefresh } from "../../src/mcp/list_refresh.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { scripted, withServers } from "./rig.ts";

const tool = (name: string) => ({ name, inputSchema: { type: "object" } });

Deno.test("McpConnection.refresh: lists that changed without a word are read again, a failure leaves the old ones", async () => {
  const folder = await Deno.makeTempDir({ prefix: "loophub-refresh-" });
  const [toolsFile, answersFile] = [`${folder}/tools.json`, `${folder}/answers.json`];
  const write = async (tools: unknown, prompts: string[]) => {
    await Deno.writeTextFile(toolsFile, JSON.stringify(tools));
    const listed = { prompts: prompts.map((name) => ({ name })) };
    await Deno.writeTextFile(answersFile, JSON.stringify({ "prompts/list": listed }));
  };
  await write([tool("a")], ["p"]);
  const capabilities = { prompts: {} };
  try {
    await withServers(
      { one: scripted({ toolsFile, answersFile, capabilities }, { trust: true }) },
      async ({ mcp, connection }) => {
        await mcp.settled(60_000);
        const one = connection("one");
        await one.content.settled();
        const names = () => [
          one.listing?.tools.map(({ name }) => name),
          one.content.listing?.prompts.map(({ name }) => name),
        ];
        assert.deepEqual(names(), [["a"], ["p"]]);
        await write([tool("b"), tool("c")], ["q"]);
        assert.deepEqual(names(), [["a"], ["p"]]);
        assert.equal(await one.refresh(), null);
        assert.deepEqual(names(), [["b", "c"], ["q"]]);
        assert.ok(mcp.tools.some(({ name }) => name === "one__c"));
        await write({ code: -32603, message: "no list today" }, ["q"]);
        assert.match(await one.refresh() ?? "", /its tools: .*no list today/);
        assert.deepEqual(names(), [["b", "c"], ["q"]]);
        await write([tool("d")], []);
        const both = await Promise.all([one.refresh(), one.refresh()]);
        assert.deepEqual(both, [null, null]);
        assert.deepEqual(names(), [["d"], []]);
      },
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("McpConnection.refresh: one that cannot be connected to says why", async () => {
  await withServers({
    gone: { command: "no-such-program-here" },
    off: { command: "a", enabled: false },
  }, async ({ connection }) => {
    assert.match(await connection("gone").refresh() ?? "", /could not be started/);
    assert.equal(await connection("off").refresh(), "it is disabled");
  });
});

Deno.test("ListRefresh.now: it reads at once, once more behind a reading under way, and not after the end", async () => {
  let open = Promise.withResolvers<void>();
  let reads = 0;
  const refresh = new ListRefresh(createFakeClock(), async () => {
    reads++;
    await open.promise;
  });
  refresh.changed();
  const first = refresh.now();
  const second = refresh.now();
  refresh.changed();
  assert.equal(reads, 1);
  open.resolve();
  open = Promise.withResolvers();
  open.resolve();
  await Promise.all([first, second]);
  assert.equal(reads, 2);
  await refresh.close();
  await refresh.now();
  assert.equal(reads, 2);
});
