import assert from "node:assert/strict";
import { inlineRefs } from "../../src/wire/inline_refs.ts";

/** A schema whose one property stands behind so many references, each leading to the next. */
function chain(length: number) {
  const refs = Array.from({ length }, (_, at) => [`d${at}`, { $ref: `#/$defs/d${at + 1}` }]);
  return {
    type: "object",
    properties: { a: { $ref: "#/$defs/d0" } },
    $defs: { ...Object.fromEntries(refs), [`d${length}`]: { type: "string" } },
  };
}

Deno.test("references that lead from one to the next are written out up to a bound, and no further", () => {
  const whole = { type: "object", properties: { a: { type: "string" } } };
  for (const recursion of ["keep", "any"] as const) {
    assert.deepEqual(inlineRefs(chain(150), { recursion }), whole);
    // Without the bound it would take seconds and a GiB, and the stack would not do.
    assert.equal(inlineRefs(chain(19_000), { recursion }), null);
  }
});
