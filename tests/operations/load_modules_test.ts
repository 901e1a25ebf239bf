import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { HubError } from "../../src/core/error.ts";
import { loadOperationModules } from "../../src/operations/load_modules.ts";
import { defineOperation, Type } from "../../src/operations/operation.ts";
import { toTool } from "../../src/operations/to_tool.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { createToolContext } from "./tool_context.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

const make = (namespace: string, name: string) =>
  defineOperation({
    namespace,
    name,
    description: "An operation of a test",
    input: Type.Object({}),
    run: () => "",
  });

Deno.test("the examples load by path and by file: URL, and run", async () => {
  const operations = await loadOperationModules([
    "./operations/dice.ts",
    new URL("../../examples/operations/units.ts", import.meta.url).href,
  ], { folder: `${root}examples` });
  assert.deepEqual(operations.map(({ fullName }) => fullName), [
    "games.roll_dice",
    "units.convert",
    "units.list",
  ]);
  const { context } = createToolContext(createFakeClock());
  const [dice, convert, list] = operations.map((operation) => toTool(operation));
  assert.ok(dice && convert && list);
  const [rolled] = (await dice.execute({ count: 20, sides: 3 }, context)).content;
  assert.ok(rolled?.type === "json");
  const { rolls } = rolled.value as { rolls: number[] };
  assert.ok(rolls.length === 20 && rolls.every((roll) => roll >= 1 && roll <= 3));
  assert.deepEqual((await convert.execute({ amount: 5, from: "km", to: "mi" }, context)).content, [
    { type: "json", value: { amount: 3.10685596119, unit: "mi" } },
  ]);
  await assert.rejects(convert.execute({ amount: 5, from: "km", to: "kg" }, context), /different/);
  assert.match(JSON.stringify(await list.execute({}, context)), /length: m, km/);
  for (const tool of [dice, convert, list]) assert.equal(tool.strict, true);
});

Deno.test("every problem is reported at once, with its module", async () => {
  const modules: Record<string, unknown> = {
    "none.ts": {},
    "empty.ts": { default: [] },
    "wrong.ts": { default: [make("a", "b"), { name: "plain object" }] },
    "first.ts": { default: make("x", "y") },
    "second.ts": { default: [make("x", "y"), make("x", "z")] },
    "hub.ts": { default: make("hub", "mine") },
  };
  const names = [...Object.keys(modules), "missing.ts", "https://example.invalid/x.ts", "npm:left"];
  const importModule = (url: string) => {
    const name = url.slice(url.lastIndexOf("/") + 1);
    assert.ok(url.startsWith("file:///etc/loophub/"), url);
    return Object.hasOwn(modules, name)
      ? Promise.resolve(modules[name])
      : Promise.reject(new TypeError(`Module not found "${url}"`));
  };
  const failure = loadOperationModules(names, { folder: "/etc/loophub", importModule });
  await assert.rejects(failure, (error) => {
    assert.ok(error instanceof HubError);
    assert.equal(error.code, "invalid_configuration");
    assert.deepEqual(error.message.split("\n").slice(1), [
      "none.ts: no default export, wanted an operation or an array of operations",
      "empty.ts: the default export is empty, wanted at least one operation",
      "wrong.ts: entry 1 of the default export was not made with defineOperation",
      "second.ts: x.y is defined already, in first.ts",
      "hub.ts: hub.mine takes the namespace of the hub itself",
      'missing.ts: the import failed: Module not found "file:///etc/loophub/missing.ts"',
      "https://example.invalid/x.ts: only paths and file: URLs are loaded",
      "npm:left: only paths and file: URLs are loaded",
    ]);
    return true;
  });
});

Deno.test("a module that is not there is a problem, not a crash", async () => {
  await assert.rejects(
    loadOperationModules(["./nowhere.ts"], { folder: root }),
    /\.\/nowhere\.ts: the import failed/,
  );
  assert.deepEqual(await loadOperationModules([], { folder: root }), []);
});
