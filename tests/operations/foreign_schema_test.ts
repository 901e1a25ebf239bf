import assert from "node:assert/strict";
import { foreignValidator } from "../../src/operations/foreign_schema.ts";

Deno.test("a null that an optional argument does not allow is left out; one that is allowed or wanted is not", () => {
  const validate = foreignValidator({
    type: "object",
    properties: {
      place: { type: "string" },
      deep: { type: "boolean" },
      note: { type: ["string", "null"] },
    },
    required: ["place"],
  });
  assert.deepEqual(validate({ place: "here", deep: null, note: null }), {
    ok: true,
    input: { place: "here", note: null },
  });
  assert.equal(validate({ place: null }).ok, false);
});
