import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import fc from "fast-check";
import { createWireNames, WIRE_NAME } from "../../src/operations/wire_names.ts";
import { property } from "../support/property.ts";
import { readToolCorpus } from "./tool_corpus.ts";

const hex = (full: string) => createHash("sha256").update(full).digest("hex").slice(0, 8);

Deno.test("clean names stay readable", () => {
  const names = createWireNames(["hub.read_result", "files.read-file", "3d.print"]);
  assert.equal(names.toWire("hub.read_result"), "hub_read_result");
  assert.equal(names.toWire("files.read-file"), "files_read-file");
  assert.equal(names.toWire("3d.print"), "_3d_print");
  assert.equal(names.fromWire("hub_read_result"), "hub.read_result");
});

Deno.test("overflow is 55 characters, an underscore and 8 hex digits", () => {
  const full = `space.${"x".repeat(80)}`;
  const wire = createWireNames([full]).toWire(full);
  assert.equal(wire, `space_${"x".repeat(49)}_${hex(full)}`);
  assert.equal(wire.length, 64);
});

Deno.test("names that would meet all get a digest, in any order", () => {
  const full = ["a.b_c", "a_b.c", "other.one"];
  const names = createWireNames(full);
  assert.equal(names.toWire("a.b_c"), `a_b_c_${hex("a.b_c")}`);
  assert.equal(names.toWire("a_b.c"), `a_b_c_${hex("a_b.c")}`);
  assert.equal(names.toWire("other.one"), "other_one");
  const back = createWireNames(full.toReversed());
  for (const name of full) assert.equal(back.toWire(name), names.toWire(name));
});

Deno.test("a name that looks like another's digest name does not take it", () => {
  const digested = `a_b_c_${hex("a.b_c")}`;
  const full = ["a.b_c", "a_b.c", digested];
  const names = createWireNames(full);
  assert.equal(new Set(full.map(names.toWire)).size, 3);
  for (const name of full) assert.equal(names.fromWire(names.toWire(name)), name);
});

Deno.test("a full name is understood, an unknown one is null, and a lost tool still gets a name", () => {
  const names = createWireNames(["hub.wait", "a.b"]);
  assert.equal(names.fromWire("hub.wait"), "hub.wait");
  assert.equal(names.fromWire("constructor"), null);
  assert.match(names.toWire("gone.tool"), WIRE_NAME);
  assert.notEqual(names.toWire("a_b"), "a_b", "not the name of a tool that is there");
});

Deno.test("the whole corpus maps and comes back", () => {
  const full = readToolCorpus().map(({ server, name }) => `${server}.${name}`);
  const names = createWireNames(full);
  const wires = full.map(names.toWire);
  assert.equal(new Set(wires).size, new Set(full).size);
  for (const [index, wire] of wires.entries()) {
    assert.match(wire, WIRE_NAME);
    assert.equal(names.fromWire(wire), full[index]);
  }
});

const piece = fc.oneof(
  fc.string({ unit: fc.constantFrom("a", "b", "_", ".", "-", "é", "1"), maxLength: 4 }),
  fc.string({ maxLength: 90 }),
  fc.constantFrom("constructor", "__proto__"),
);

property(
  "any set of names maps to distinct valid names and back, whatever its order",
  fc.uniqueArray(fc.tuple(piece, piece).map(([a, b]) => `${a}.${b}`), { maxLength: 40 }),
  (full) => {
    const names = createWireNames(full);
    const shuffled = createWireNames(full.toSorted().toReversed());
    const wires = new Set<string>();
    for (const name of full) {
      const wire = names.toWire(name);
      assert.match(wire, WIRE_NAME);
      assert.equal(names.fromWire(wire), name);
      assert.equal(shuffled.toWire(name), wire);
      wires.add(wire);
    }
    assert.equal(wires.size, full.length);
  },
  { runs: 1000 },
);
