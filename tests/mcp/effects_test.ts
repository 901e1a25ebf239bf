import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import type { McpTool } from "../../src/mcp/read_tools.ts";
import { effectOf } from "../../src/mcp/to_tool.ts";
import { loadServers } from "./rig.ts";

const tool = (readOnly: boolean, idempotent: boolean): McpTool => ({
  name: "find",
  description: "",
  inputSchema: { type: "object" },
  readOnly,
  idempotent,
});
const HINTS = [tool(false, false), tool(false, true), tool(true, false)];

function effects(settings: JsonObject) {
  const { one } = loadServers({ one: { command: "x", ...settings } }).servers;
  return HINTS.map((hinted) => effectOf(one ?? assert.fail(), hinted));
}

Deno.test("what a server says of its effects counts where it is trusted, and never over what the operator says", () => {
  assert.deepEqual(effects({}), ["effect", "effect", "effect"]);
  assert.deepEqual(effects({ trust: true }), ["effect", "idempotent", "pure"]);
  for (const said of ["effect", "idempotent", "pure"]) {
    for (const trust of [true, false]) {
      assert.deepEqual(effects({ trust, effect: { "*": said } }), [said, said, said]);
      assert.deepEqual(effects({ trust, effect: { find: said } }), [said, said, said]);
    }
  }
  const other = effects({ trust: true, effect: { "other*": "effect" } });
  assert.deepEqual(other, ["effect", "idempotent", "pure"]);
});
