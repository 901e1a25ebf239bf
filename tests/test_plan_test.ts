import assert from "node:assert/strict";
import { filesUnder } from "./support/files_under.ts";
import { planTests } from "./support/test_plan.ts";

Deno.test("the gate runs every test file once, however deep its folder", () => {
  const planned = planTests().flatMap(({ files }) => files);
  const runs = (file: string) =>
    planned.filter((path) => file === path || file.startsWith(`${path}/`)).length;
  const all = filesUnder("tests", "_test.ts");
  assert.ok(all.some((file) => file.split("/").length > 3));
  assert.deepEqual(all.filter((file) => runs(file) !== 1), []);
});
