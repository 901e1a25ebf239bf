import assert from "node:assert/strict";
import fc from "fast-check";
import { utf8Length } from "../../src/telemetry/utf8_length.ts";
import { property } from "../support/property.ts";

const loose = fc.array(
  fc.constantFrom("a", "é", "漢", "😀", "\ud83d", "\ude00", "\u07ff", "\u0800"),
)
  .map((parts) => parts.join(""));

property(
  "is the length of the encoded text",
  fc.oneof(fc.string({ unit: "binary" }), loose),
  (text) => {
    assert.equal(utf8Length(text), new TextEncoder().encode(text).length);
  },
);
