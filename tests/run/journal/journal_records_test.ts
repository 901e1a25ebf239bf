import assert from "node:assert/strict";
import fc from "fast-check";
import { decodeRecords, encodeRecord } from "../../../src/run/journal/journal_records.ts";
import { begunOf, rowOf } from "../../support/usage_rows.ts";

const decoder = new TextDecoder();

Deno.test("decodeRecords: rows and begun calls come back, a row in place of what was begun", () => {
  const rows = [1, 2].map((index) => rowOf(index, { requestId: `a\nb ${index} \u001f` }));
  const begun = [begunOf(2), begunOf(3)];
  const text = [...begun, ...rows].map((record) => decoder.decode(encodeRecord(record))).join("");
  assert.deepEqual(decodeRecords(text), { rows, begun: [begunOf(3)], damaged: 0 });
});

Deno.test("decodeRecords: a file that is cut or damaged anywhere loses that record alone", () => {
  const rows = Array.from({ length: 6 }, (_, index) => rowOf(index));
  const pieces = rows.map((row) => encodeRecord(row));
  fc.assert(fc.property(
    fc.integer({ min: 0, max: 5 }),
    fc.nat({ max: 10_000 }),
    fc.constantFrom("cut", "flip", "zeros"),
    (at, offset, how) => {
      const damaged = pieces.map((piece, index) => {
        if (index !== at) return piece;
        // Its newlines are no part of what it says.
        const place = 1 + offset % (piece.length - 2);
        if (how === "cut") return piece.subarray(0, place);
        if (how === "zeros") return piece.map((byte, i) => i < place ? byte : 0);
        return piece.map((byte, i) => i === place ? byte ^ 1 : byte);
      });
      const text = damaged.map((piece) => decoder.decode(piece)).join("");
      const read = decodeRecords(text);
      assert.deepEqual(read.rows, rows.toSpliced(at, 1));
    },
  ));
});
