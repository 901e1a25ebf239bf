import assert from "node:assert/strict";
import { HubError } from "../../src/core/error.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { defineOperation, Type } from "../../src/operations/operation.ts";
import { createRegistry } from "../../src/operations/registry.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { createToolContext } from "./tool_context.ts";

const greet = defineOperation({
  namespace: "demo",
  name: "greet",
  description: "Greets",
  input: Type.Object({ name: Type.String(), times: Type.Integer({ minimum: 1 }) }),
  effect: "pure",
  run: ({ name, times }) => `Hello ${name}. `.repeat(times).trim(),
});
const boom = defineOperation({
  namespace: "another",
  name: "boom",
  description: "Fails",
  input: Type.Object({}),
  run: () => {
    throw new Error("no luck");
  },
});

function createHub() {
  const clock = createFakeClock();
  const { clock: _clock, log: _log, progress: _progress, ...context } =
    createToolContext(clock).context;
  const registry = createRegistry({ operations: [greet, boom], clock, log: SILENT_LOG });
  return { registry, context };
}

Deno.test("lists by name and finds by name", () => {
  const { registry } = createHub();
  assert.deepEqual(registry.list().map(({ name }) => name), ["another.boom", "demo.greet"]);
  assert.equal(registry.get("demo.greet")?.description, "Greets");
  assert.equal(registry.get("constructor"), undefined);
});

Deno.test("executes with validated and coerced arguments", async () => {
  const { registry, context } = createHub();
  const outcome = await registry.execute("demo.greet", { name: "Ada", times: "2" }, context);
  assert.ok(outcome.ok);
  assert.equal(outcome.output, "Hello Ada. Hello Ada.");
  const failed = await registry.execute("another.boom", {}, context);
  assert.ok(!failed.ok);
  assert.equal(failed.errorText, "no luck");
});

Deno.test("unknown names and unfit arguments are errors of the caller", async () => {
  const { registry, context } = createHub();
  await assert.rejects(
    registry.execute("demo.gone", {}, context),
    (error) => error instanceof HubError && error.code === "not_found",
  );
  await assert.rejects(registry.execute("demo.greet", { name: 1 }, context), (error) => {
    assert.ok(error instanceof HubError);
    assert.equal(error.code, "invalid_request");
    assert.equal(
      error.message,
      "The arguments of demo.greet do not fit: /name: wanted string, got the number 1; " +
        "/times: wanted integer, got nothing",
    );
    return true;
  });
});

Deno.test("an operation keeps its own deadline; one that sets none gets the registry's, else 60 s", () => {
  const hasty = defineOperation({
    namespace: "demo",
    name: "hasty",
    description: "Has a deadline",
    input: Type.Object({}),
    timeoutMs: 70,
    run: () => "",
  });
  const facts = { operations: [greet, hasty], clock: createFakeClock(), log: SILENT_LOG };
  const deadlines = (options: { toolTimeoutMs?: number }) =>
    createRegistry({ ...facts, ...options }).list().map((tool) => tool.timeoutMs);
  assert.deepEqual(deadlines({}), [60_000, 70]);
  assert.deepEqual(deadlines({ toolTimeoutMs: 500 }), [500, 70]);
});

Deno.test("two operations of one name are refused", () => {
  assert.throws(
    () => createRegistry({ operations: [greet, greet], clock: createFakeClock(), log: SILENT_LOG }),
    /Two operations are named demo\.greet/,
  );
});
