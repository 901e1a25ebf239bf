import assert from "node:assert/strict";
import fc from "fast-check";
import type { ToolContent } from "../../src/core/tool.ts";
import { boundResult, cutText, MAX_IMAGE_CHARS } from "../../src/operations/bound_result.ts";
import { lineSpans, utf8Length, utf8Prefix, utf8Suffix } from "../../src/operations/text_lines.ts";
import { property } from "../support/property.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text).length;
const MARKER = /\n\[… Lines (\d+) to (\d+) of (\d+) are left out here; .* …\]\n/;

Deno.test("what fits is not touched", async () => {
  const content: ToolContent[] = [
    { type: "text", text: "a\n".repeat(999) },
    { type: "json", value: { a: [1] } },
    { type: "image", mediaType: "image/png", data: "AAAA" },
  ];
  const { result, ref } = await boundResult({ content }, {
    saveText: () => Promise.reject(new Error("not needed")),
  });
  assert.deepEqual(result.content, content);
  assert.equal(ref, null);
});

Deno.test("too many lines: three quarters from the head, one from the tail, whole lines", async () => {
  const text = Array.from({ length: 5000 }, (_, n) => `line ${n + 1}`).join("\n");
  const { result, ref } = await boundResult({ content: [{ type: "text", text }] }, {
    saveText: () => Promise.resolve("blob_1"),
  });
  assert.equal(ref, "blob_1");
  const [piece] = result.content;
  assert.ok(piece?.type === "text");
  const [, first, last, all] = MARKER.exec(piece.text) ?? [];
  assert.deepEqual([first, last, all], ["1498", "4500", "5000"]);
  assert.ok(piece.text.split("\n").length <= 2000);
  const [head, tail] = piece.text.split(MARKER.exec(piece.text)?.[0] ?? "");
  assert.ok(text.startsWith(`${head}\n`) && text.endsWith(`\n${tail}`));
  assert.match(piece.text, /kept as blob_1\. Read it with hub\.read_result: ref "blob_1"/);
});

Deno.test("too many bytes in one line: cut inside it, at whole characters", () => {
  const text = "😀é".repeat(40_000);
  const cut = cutText(text, { maxBytes: 50 * 1024, maxLines: 2000, ref: null });
  assert.ok(bytesOf(cut) <= 50 * 1024);
  assert.ok(bytesOf(cut) > 46 * 1024);
  assert.ok(cut.isWellFormed());
  assert.match(cut, /was not kept/);
});

Deno.test("JSON is cut as text, images and links stay, huge images are named", async () => {
  const content: ToolContent[] = [
    { type: "json", value: { rows: Array.from({ length: 20_000 }, (_, n) => n) } },
    { type: "image", mediaType: "image/png", data: "A".repeat(MAX_IMAGE_CHARS) },
    { type: "image", mediaType: "image/png", data: "AAAA" },
    { type: "resource", uri: "file:///x" },
  ];
  const { result } = await boundResult({ content });
  assert.deepEqual(result.content.map(({ type }) => type), ["text", "image", "resource"]);
  const [piece] = result.content;
  assert.ok(piece?.type === "text");
  assert.match(piece.text, /image left out: 4 characters/);
});

const unit = fc.constantFrom(
  "a",
  "é",
  "€",
  "😀",
  "\n",
  "\ud800",
  "\udc00",
  "word ",
  "x".repeat(700),
);
const texts = fc.array(unit, { maxLength: 400 }).map((units) => units.join(""));

property("lengths and cuts agree with the encoder", fc.tuple(texts, fc.nat(900)), ([text, max]) => {
  assert.equal(utf8Length(text), bytesOf(text));
  const prefix = utf8Prefix(text, max);
  const suffix = utf8Suffix(text, max);
  assert.ok(text.startsWith(prefix) && text.endsWith(suffix));
  assert.ok(bytesOf(prefix) <= max && bytesOf(suffix) <= max);
  if (text.isWellFormed()) assert.ok(prefix.isWellFormed() && suffix.isWellFormed());
  if (prefix !== text) assert.ok(bytesOf(prefix) > max - 4);
});

property("lines cover a text without gaps, and none is too long", texts, (text) => {
  const spans = lineSpans(text);
  let place = 0;
  for (const { start, end } of spans) {
    assert.ok(start === place || (start === place + 1 && text[place] === "\n"));
    assert.ok(end - start <= 2000);
    assert.equal(text.slice(start, end).includes("\n"), false);
    place = end;
  }
  assert.equal(place, text.length);
});

property(
  "a cut text is within its bounds, made of beginning and end, and honest about what is missing",
  fc.tuple(texts, fc.integer({ min: 600, max: 5000 }), fc.integer({ min: 8, max: 100 })),
  ([text, maxBytes, maxLines]) => {
    if (bytesOf(text) <= maxBytes && text.split("\n").length <= maxLines) return;
    const cut = cutText(text, { maxBytes, maxLines, ref: "blob_1" });
    assert.ok(bytesOf(cut) <= maxBytes, `${bytesOf(cut)} of ${maxBytes}`);
    assert.ok(cut.split("\n").length <= maxLines + 1);
    const marker = MARKER.exec(cut);
    assert.ok(marker);
    assert.ok(text.startsWith(cut.slice(0, marker.index)));
    assert.ok(text.endsWith(cut.slice(marker.index + marker[0].length)));
    assert.equal(Number(marker[3]), lineSpans(text).length);
  },
  { runs: 500 },
);
