import assert from "node:assert/strict";
import type { ServedTool } from "../../../src/headends/mcp_server/served_tool.ts";
import { ToolCatalog } from "../../../src/headends/mcp_server/tool_catalog.ts";
import { createFakeClock } from "../../support/fake_clock.ts";

const tool = (name: string, description = name): ServedTool => ({
  name,
  description,
  inputSchema: { type: "object" },
  isFor: ({ tools }) => tools === undefined || tools.includes(name),
  call: () => Promise.resolve({ content: [] }),
});
const namesOf = (catalog: ToolCatalog, tools?: string[]) =>
  catalog.listFor(tools === undefined ? {} : { tools }).map(({ name }) => name);

Deno.test("names and order depend on the tools alone, not on sources or who asks", () => {
  const all = ["b.two", "a.one", "b_two", "agent.x", "long.".padEnd(80, "x"), "ß.é"].map((name) =>
    tool(name)
  );
  const clock = createFakeClock();
  const lists = [all, all.toReversed()].map((tools) => {
    const catalog = new ToolCatalog([{ list: () => tools }], clock);
    const split = new ToolCatalog(tools.map((one) => ({ list: () => [one] })), clock);
    assert.deepEqual(namesOf(catalog), namesOf(split));
    return namesOf(catalog);
  });
  const [names = []] = lists;
  assert.deepEqual(lists[1], names);
  assert.deepEqual(names, names.toSorted());
  for (const name of names) assert.match(name, /^[a-zA-Z_][\w-]{0,63}$/);
  assert.equal(new Set(names).size, all.length);
  assert.ok(names.includes("a_one") && !names.includes("b_two"));

  const catalog = new ToolCatalog([{ list: () => all }], clock);
  const [hashed = ""] = namesOf(catalog, ["b.two"]);
  assert.ok(names.includes(hashed));
  assert.equal(catalog.find(hashed, {})?.name, "b.two");
  assert.equal(catalog.find(hashed, { tools: ["a.one"] }), null);
  assert.equal(catalog.find("b.two", {}), null);
});

Deno.test("of tools with one full name the first source's counts", () => {
  const [one, two] = [tool("a.b", "one"), tool("a.b", "two")];
  const catalog = new ToolCatalog(
    [{ list: () => [one] }, { list: () => [two] }],
    createFakeClock(),
  );
  assert.deepEqual(catalog.listFor({}).map(({ tool }) => tool.description), ["one"]);
});

Deno.test("a storm of changes is told once, and one that changes nothing never", async () => {
  const clock = createFakeClock();
  let tools = [tool("a.one")];
  const catalog = new ToolCatalog([{ list: () => tools }], clock);
  let told = 0;
  const forget = catalog.onChange(() => void told++);
  for (let at = 0; at < 1000; at++) {
    tools = [tool(`a.n${at}`)];
    catalog.changed();
    await clock.advance(1);
  }
  await clock.advance(1000);
  assert.ok(told >= 1 && told <= 5, `${told}`);
  assert.deepEqual(namesOf(catalog), ["a_n999"]);
  const before = told;
  tools = [tool("a.n999")];
  catalog.changed();
  await clock.advance(1000);
  assert.equal(told, before);
  tools = [tool("a.n999", "says something else")];
  catalog.changed();
  await clock.advance(1000);
  assert.equal(told, before + 1);
  forget();
  tools = [];
  catalog.changed();
  await clock.advance(1000);
  assert.equal(told, before + 1);
  catalog.changed();
  catalog.close();
  assert.equal(clock.pending(), 0);
});
