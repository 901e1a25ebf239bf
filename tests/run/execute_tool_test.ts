import assert from "node:assert/strict";
import type { Tool } from "../../src/core/tool.ts";
import { createIdSource } from "../../src/core/id.ts";
import { defineOperation, Type } from "../../src/operations/operation.ts";
import { toTool } from "../../src/operations/to_tool.ts";
import { createReadResult } from "../../src/operations/builtin/read_result.ts";
import { createExecuteTool } from "../../src/run/execute_tool.ts";
import { createToolContext } from "../operations/tool_context.ts";
import { createFakeDatabase } from "../support/fake_database.ts";
import { systemClock } from "../support/system_clock.ts";

const LINES = Array.from({ length: 3000 }, (_, index) => `line ${index} ${"x".repeat(30)}`);
const long = toTool(defineOperation({
  namespace: "test",
  name: "long",
  description: "Says much",
  input: Type.Object({}),
  run: () => LINES.join("\n"),
}));

async function sizeOf(tool: Tool, results?: { bytes: number; lines: number }) {
  const { context } = createToolContext(systemClock);
  const execute = createExecuteTool({
    db: createFakeDatabase(() => Promise.resolve([])),
    ids: createIdSource(systemClock.now, (length) => new Uint8Array(length)),
    observe() {},
    ...(results === undefined ? {} : { results }),
  });
  const ids = { sessionId: `ses_${"0".repeat(26)}`, runId: `run_${"0".repeat(26)}` };
  const input = { ref: "r", limit: (results?.lines ?? 2000) - 8 };
  const outcome = await execute(tool, input, { ...context, ...ids });
  const text = String(outcome.output);
  return { bytes: new TextEncoder().encode(text).length, lines: text.split("\n").length, text };
}

Deno.test("createExecuteTool: results are cut to the bounds of the settings", async () => {
  const usual = await sizeOf(long);
  assert.ok(usual.bytes <= 50 * 1024 && usual.bytes > 40 * 1024, String(usual.bytes));
  const small = await sizeOf(long, { bytes: 20_000, lines: 2000 });
  assert.ok(small.bytes <= 20_000 && small.bytes > 15_000, String(small.bytes));
  const few = await sizeOf(long, { bytes: 1_000_000, lines: 300 });
  assert.ok(few.lines <= 300 && few.lines > 250, String(few.lines));
  const whole = await sizeOf(long, { bytes: 1_000_000, lines: 50_000 });
  assert.equal(whole.text, LINES.join("\n"));
});

Deno.test("hub.read_result: its own result fits the bounds of the settings, so that it is never cut", async () => {
  for (const results of [{ bytes: 20_000, lines: 100 }, { bytes: 200_000, lines: 50_000 }]) {
    const readBlob = () => Promise.resolve(LINES.join("\n"));
    const shown = await sizeOf(toTool(createReadResult({ readBlob, results })), results);
    assert.doesNotMatch(shown.text, /are left out here/);
    assert.ok(shown.bytes <= results.bytes && shown.lines <= results.lines);
    assert.match(
      shown.text,
      results.lines === 100 ? /go on with offset 93\)$/ : /that is the end\)$/,
    );
  }
});
