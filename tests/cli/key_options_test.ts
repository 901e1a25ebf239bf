import assert from "node:assert/strict";
import { keyChange } from "../../src/cli/key_options.ts";

Deno.test("keyChange: --sessions and --answers go into the policy, and --owner into the key", () => {
  assert.deepEqual(keyChange({ sessions: "all", answers: "none", owner: "alice" }, {}, 0), {
    owner: "alice",
    policy: { sessions: "all", answers: "none" },
  });
  assert.deepEqual(keyChange({ owner: "" }, {}, 0), { owner: null });
  for (const wrong of [{ sessions: "none" }, { answers: "all" }, { sessions: "" }]) {
    assert.throws(() => keyChange(wrong, {}, 0), /wanted own, owner, (all|none)/);
  }
});
