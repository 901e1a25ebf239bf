import assert from "node:assert/strict";
import { HubError } from "../../src/core/error.ts";
import type { ToolContext } from "../../src/core/tool.ts";
import { defineOperation, isOperation, Type } from "../../src/operations/operation.ts";
import { toTool } from "../../src/operations/to_tool.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { createToolContext } from "./tool_context.ts";

const base = {
  namespace: "files",
  name: "read",
  description: "Reads a file",
  input: Type.Object({ path: Type.String() }),
};

function refusal(source: unknown): string {
  try {
    defineOperation(source as Parameters<typeof defineOperation>[0]);
  } catch (error) {
    assert.ok(error instanceof HubError);
    assert.equal(error.code, "invalid_configuration");
    return error.message;
  }
  return "";
}

Deno.test("defaults are the careful ones", () => {
  const operation = defineOperation({ ...base, run: ({ path }) => path });
  const { run: _run, inputSchema: _input, ...rest } = operation;
  assert.deepEqual(rest, {
    kind: "operation",
    fullName: "files.read",
    namespace: "files",
    name: "read",
    description: "Reads a file",
    outputSchema: null,
    effect: "effect",
    approval: "never",
    risk: "medium",
    timeoutMs: null,
    sequential: false,
    polling: false,
    inRunsOnly: false,
    outside: null,
  });
  assert.equal(defineOperation({ ...base, effect: "pure", run: () => "" }).risk, "low");
  assert.ok(isOperation(operation));
  assert.equal(isOperation({ kind: "operation" }), false);
});

Deno.test("a wrong definition names everything that is wrong", () => {
  const message = refusal({
    namespace: "1x",
    name: "a.b",
    description: " ",
    input: Type.String(),
    output: Type.Object({ at: Type.Date() }),
    effect: "some",
    timeoutMs: 0,
    run: 3,
  });
  for (
    const part of [
      'Operation 1x.a.b is not usable: namespace is "1x"',
      'name is "a.b"',
      "description is",
      'input is "string", wanted Type.Object',
      "output/properties/at has type Date, which is not JSON",
      'effect is "some", wanted pure or idempotent or effect',
      "timeoutMs is 0",
      "run is 3, wanted a function",
    ]
  ) {
    assert.ok(message.includes(part), `${part} in ${message}`);
  }
  assert.match(refusal({ ...base, description: "x".repeat(1025), run: () => "" }), /at most 1024/);
  const decoded = Type.Transform(Type.String()).Decode((text) => text).Encode((text) => text);
  assert.match(
    refusal({ ...base, input: Type.Object({ decoded }), run: () => "" }),
    /input\/properties\/decoded is a transform/,
  );
  assert.match(refusal({ ...base, input: null, run: () => "" }), /input is no schema/);
});

const call = (run: (ctx: ToolContext) => unknown, output?: typeof base.input) => {
  const operation = output === undefined
    ? defineOperation({ ...base, run: (_input, ctx) => run(ctx) as string })
    : defineOperation({ ...base, output, run: (_input, ctx) => run(ctx) as { path: string } });
  return toTool(operation).execute({ path: "x" }, createToolContext(createFakeClock()).context);
};

Deno.test("results: a text, JSON, or content pieces", async () => {
  assert.deepEqual(await call(() => "hello"), { content: [{ type: "text", text: "hello" }] });
  assert.deepEqual(await call(() => ({ a: new Date(0), b: undefined })), {
    content: [{ type: "json", value: { a: "1970-01-01T00:00:00.000Z" } }],
  });
  assert.deepEqual(await call(() => []), { content: [{ type: "json", value: [] }] });
  const pieces = [{ type: "text", text: "see" }, {
    type: "image",
    mediaType: "image/png",
    data: "AAAA",
  }];
  assert.deepEqual(await call(() => pieces), { content: pieces });
  assert.deepEqual(await call(() => [{ type: "text" }]), {
    content: [{ type: "json", value: [{ type: "text" }] }],
  });
});

Deno.test("what is not JSON is refused with a plain message", async () => {
  const circle: Record<string, unknown> = {};
  circle.self = circle;
  await assert.rejects(call(() => circle), /files\.read gave back a value that is not JSON/);
  await assert.rejects(call(() => undefined), /gave back undefined, wanted a text or a JSON value/);
  await assert.rejects(call(() => 1n), /not JSON/);
});

Deno.test("an output schema is held, without coercion", async () => {
  const output = Type.Object({ path: Type.String() });
  assert.deepEqual(await call(() => ({ path: "x" }), output), {
    content: [{ type: "json", value: { path: "x" } }],
  });
  await assert.rejects(
    call(() => ({ path: 5 }), output),
    /ran, but its result does not fit its output schema: \/path is the number 5, wanted string/,
  );
});

Deno.test("a tool validates: root object, coercion, nulls of strict mode, own patterns", () => {
  const tool = toTool(defineOperation({
    ...base,
    input: Type.Object({
      id: Type.String({ pattern: "^[a-z]+$" }),
      count: Type.Optional(Type.Integer()),
    }),
    run: () => "",
  }));
  assert.equal(tool.strict, true);
  assert.deepEqual(tool.validate({ id: "a", count: null }), { ok: true, input: { id: "a" } });
  assert.deepEqual(tool.validate({ id: "a", count: "3" }), {
    ok: true,
    input: { id: "a", count: 3 },
  });
  assert.deepEqual(tool.validate([]), {
    ok: false,
    problems: [{ path: "", wanted: "object", got: "an array of 0" }],
  });
  assert.equal(tool.validate({ id: "A" }).ok, false);
});
