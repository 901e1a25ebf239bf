import assert from "node:assert/strict";
import { ServedSchemas } from "../../../src/headends/mcp_server/served_schemas.ts";
import { defineOperation, Type } from "../../../src/operations/operation.ts";
import { toTool } from "../../../src/operations/to_tool.ts";
import { type Log, SILENT_LOG } from "../../../src/core/log.ts";

const operation = defineOperation({
  namespace: "test",
  name: "one",
  description: "Does",
  input: Type.Object({}),
  run: () => "done",
});

Deno.test("ServedSchemas: a hopeless tool is left out alone, the log says why once", () => {
  const lines: unknown[][] = [];
  const warn = (message: string, fields: Record<string, unknown> = {}) =>
    void lines.push([message, fields["tool"], fields["reason"]]);
  const log: Log = { ...SILENT_LOG, warn };
  const schemas = new ServedSchemas(log);
  const good = toTool(operation);
  const circle: Record<string, unknown> = { type: "object" };
  circle["default"] = circle;
  const round = { ...good, name: "test.round", inputSchema: circle as never };
  const large = { ...good, name: "test.large", description: "x".repeat(600_000) };
  assert.deepEqual([good, round, large, round].map((tool) => schemas.of(tool) === null), [
    false,
    true,
    true,
    true,
  ]);
  assert.deepEqual(lines.map(([, tool, reason]) => [tool, String(reason).slice(0, 22)]), [
    ["test.round", "its definition cannot "],
    ["test.large", "its definition has 600"],
  ]);
});
