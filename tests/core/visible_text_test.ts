import assert from "node:assert/strict";
import fc from "fast-check";
import {
  hidesText,
  visibleJson,
  visibleJsonText,
  visibleText,
  withoutUnseen,
} from "../../src/core/visible_text.ts";
import { makeSafe } from "../../src/telemetry/make_safe.ts";
import { property } from "../support/property.ts";

/** One of each kind, as code points. */
const HIDDEN = [
  ...[0x00, 0x07, 0x0d, 0x1b, 0x7f, 0x85, 0x9b, 0xa0, 0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x17b4],
  ...[0x180b, 0x180e, 0x2000, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a],
  ...[0x202e, 0x202f, 0x205f, 0x2060, 0x2061, 0x2064, 0x2066, 0x2069, 0x206f, 0x2800, 0x3164],
  ...[0xfe00, 0xfe0f, 0xfeff, 0xffa0, 0xfff9, 0xfffb, 0xfff0, 0xd800, 0xdfff, 0x110bd, 0x1bca0],
  ...[0x1d173, 0xe0001, 0xe0041, 0xe007f, 0xe0100, 0xe01ef],
];
const shapes = fc.array(
  fc.oneof(fc.constantFrom(...HIDDEN), fc.integer({ min: 0x20, max: 0x10ffff })),
  { maxLength: 20 },
).map((codes) => codes.map((code) => String.fromCodePoint(code)).join(""));

/** Unicode's own word, apart from the pattern of the code. */
const UNSEEN = /[\p{C}\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\u2028\u2029]/u;

Deno.test("visibleText: each invisible or reordering character is an escape that names it", () => {
  for (const code of HIDDEN) {
    const text = visibleText(`a${String.fromCodePoint(code)}b`);
    const hex = code.toString(16);
    const escape = code > 0xffff ? `\\u{${hex}}` : `\\u${hex.padStart(4, "0")}`;
    assert.equal(text, `a${escape}b`);
    assert.equal(makeSafe(`a${String.fromCodePoint(code)}b`), `a${escape}b`);
  }
});

Deno.test("visibleText: what is seen stays, and so do lines", () => {
  for (const text of ["a\tb\nc", "é 日本語　x", "🙂 ≠", "line\r\nline\r\n", "\\u200b"]) {
    assert.equal(visibleText(text), text);
  }
  assert.equal(makeSafe("a\tb\nc\r\n"), "a\\tb\\nc\\u000d\\n");
});

property(
  "visibleText: nothing unseen is left, and a second time changes nothing",
  shapes,
  (text) => {
    const visible = visibleText(text);
    const left = [...visible.replace(/[\n\t]|\r\n/g, "")].filter((character) =>
      UNSEEN.test(character) && !/\p{Cn}|\p{Co}/u.test(character)
    );
    assert.deepEqual(left, []);
    assert.equal(visibleText(visible), visible);
  },
  { runs: 2000 },
);

property("visibleJsonText: a line says the same, without what is not seen", shapes, (text) => {
  const line = visibleJsonText(JSON.stringify({ [text]: [text] }));
  assert.deepEqual(JSON.parse(line), { [text]: [text] });
  assert.equal(visibleText(line, { keeps: "" }), line);
}, { runs: 2000 });

Deno.test("visibleJson: names are shown too, and two that look the same are both there", () => {
  const shown = visibleJson({
    "a\u200b": 1,
    "a\\u200b": { b: ["c\u{e0041}"] },
    "__proto__x": null,
  });
  assert.equal(
    JSON.stringify(shown),
    '{"a\\\\u200b":1,"a\\\\u200b (again)":{"b":["c\\\\u{e0041}"]},"__proto__x":null}',
  );
});

Deno.test("withoutUnseen and hidesText know what visibleText shows as an escape", () => {
  const hidden = ["\u061c", "\u200b", "\u202e", "\u2060", "\u3164", "\u2800", "\ufe0f", "\ufeff"];
  for (const mark of [...hidden, "\u{e0041}", "\u{e0100}", "\u00ad", "\u0000", "\ud800"]) {
    assert.ok(hidesText(`a${mark}b`), escape(mark));
    assert.ok(!visibleText(withoutUnseen(`a${mark}b`)).includes("\\u"), escape(mark));
  }
  for (
    const seen of ["5\u00a0€", "❤\ufe0f", "1\ufe0f\u20e3", "👩\u200d🚀", "نمی\u200cخواهم", "a\r\nb"]
  ) {
    assert.ok(!hidesText(seen), seen);
  }
  assert.equal(withoutUnseen("a\u00a0b\u2028c\u200bd\r\n❤\ufe0f"), "a b\ncd\n❤\ufe0f");
});
