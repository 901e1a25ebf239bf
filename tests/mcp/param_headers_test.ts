import assert from "node:assert/strict";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { findHeaderFault, findHeaderMismatch, paramHeaders } from "../../src/mcp/param_headers.ts";

const object = (properties: JsonObject): JsonObject => ({ type: "object", properties });
const mirrored = (header: Json, type: Json = "string") => ({ type, "x-mcp-header": header });

Deno.test("arguments that a schema names are headers too, in ASCII", () => {
  const schema = object({
    region: mirrored("Region"),
    count: mirrored("Count", "integer"),
    dry: mirrored("Dry-Run", "boolean"),
    deep: object({ id: mirrored("Deep") }),
    other: { type: "string", default: { "x-mcp-header": "no schema" } },
  });
  assert.equal(findHeaderFault(schema), null);
  const headers = (input: JsonObject) => paramHeaders(schema, input);
  assert.deepEqual(
    headers({ region: "eu west", count: 3, dry: false, deep: { id: "x" }, other: "y" }),
    {
      "Mcp-Param-Region": "eu west",
      "Mcp-Param-Count": "3",
      "Mcp-Param-Dry-Run": "false",
      "Mcp-Param-Deep": "x",
    },
  );
  assert.deepEqual(headers({ region: null, count: 1e300, dry: {}, deep: [] }), {});
  for (
    const [text, sent] of [
      ["", "=?base64??="],
      [" a", "=?base64?IGE=?="],
      ["ü", "=?base64?w7w=?="],
      ["a\r\nx-evil: 1", "=?base64?YQ0KeC1ldmlsOiAx?="],
      ["=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="],
      ["a\tb", "a\tb"],
    ]
  ) assert.deepEqual(headers({ region: text ?? "" }), { "Mcp-Param-Region": sent });
});

Deno.test("a tool that names headers wrongly has a fault", () => {
  const faults: [JsonObject, RegExp][] = [
    [object({ a: mirrored("") }), /no name of a header/],
    [object({ a: mirrored("a b") }), /no name of a header/],
    [object({ a: mirrored("a\r\nb") }), /no name of a header/],
    [object({ a: mirrored(5) }), /no name of a header/],
    [object({ a: mirrored("A", "number") }), /A is for no text, integer or boolean/],
    [object({ a: mirrored("A", "object") }), /A is for no text/],
    [object({ a: mirrored("A", ["string", "null"]) }), /A is for no text/],
    [object({ a: mirrored("A"), b: mirrored("a") }), /there twice/],
    [object({ a: { type: "array", items: mirrored("A") } }), /where no single argument is/],
    [object({ a: { anyOf: [mirrored("A")] } }), /where no single argument is/],
    [{ ...object({}), $defs: { x: mirrored("A") } }, /where no single argument is/],
    [{ ...object({}), "x-mcp-header": "A" }, /where no single argument is/],
  ];
  for (const [schema, reason] of faults) {
    assert.match(findHeaderFault(schema) ?? "", reason);
    assert.deepEqual(paramHeaders(schema, { a: "x" }), {});
  }
});

Deno.test("findHeaderMismatch: base64 without its padding, or with half of it, says the same", () => {
  const schema = object({ a: mirrored("A") });
  for (const text of ["=?base64?YQ==?=", "=?base64?YQ?=", "=?base64?YQ=?="]) {
    assert.equal(findHeaderMismatch(schema, { a: "a" }, () => text), null, text);
  }
  for (const text of ["=?base64?Y?=", "=?base64?YQ=a?=", "=?base64?%%?="]) {
    assert.match(findHeaderMismatch(schema, { a: "a" }, () => text) ?? "", /no base64/);
  }
});
