import assert from "node:assert/strict";
import fc from "fast-check";
import { canonicalBase64 } from "../../src/core/base64.ts";
import { property } from "../support/property.ts";

property(
  "canonicalBase64: however bytes are written, they are written canonically",
  fc.uint8Array({ maxLength: 300 }),
  (bytes) => {
    const wanted = bytes.toBase64();
    const bare = wanted.replace(/=+$/, "");
    const lines = wanted.replaceAll(/.{76}/g, "$&\r\n");
    for (const text of [wanted, bare, lines, bytes.toBase64({ alphabet: "base64url" })]) {
      assert.equal(canonicalBase64(text), wanted);
    }
  },
);

Deno.test("canonicalBase64: what is none is null", () => {
  for (const text of ["A", "A===", "YQ=Q", "%%%%", "YQ=a", "é", "YQ==="]) {
    assert.equal(canonicalBase64(text), null, text);
  }
  assert.equal(canonicalBase64("YQ="), "YQ==");
});
