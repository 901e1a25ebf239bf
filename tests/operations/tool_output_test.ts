import assert from "node:assert/strict";
import fc from "fast-check";
import type { ToolContent } from "../../src/core/tool.ts";
import type { Json } from "../../src/core/json.ts";
import { toModelView, toToolContent, toToolOutput } from "../../src/operations/tool_output.ts";
import { property } from "../support/property.ts";

Deno.test("one text is a string, one JSON piece its value, several pieces are content", () => {
  assert.equal(toToolOutput({ content: [] }), "");
  assert.equal(toToolOutput({ content: [{ type: "text", text: "hi" }] }), "hi");
  assert.deepEqual(toToolOutput({ content: [{ type: "json", value: { a: 1 } }] }), { a: 1 });
  const content: ToolContent[] = [{ type: "text", text: "a" }, { type: "json", value: 1 }];
  assert.deepEqual(toToolOutput({ content }), { type: "content", content });
});

Deno.test("a JSON value that looks like content is not taken for it", () => {
  const value = { type: "content", content: [1, { type: "image" }] };
  const output = toToolOutput({ content: [{ type: "json", value }] });
  assert.deepEqual(toToolContent(output), [{ type: "json", value }]);
});

Deno.test("a model reads texts in order, and images apart with their number", () => {
  const view = toModelView({
    type: "content",
    content: [
      { type: "text", text: "before" },
      { type: "image", mediaType: "image/png", data: "AAAA" },
      { type: "json", value: { a: [1] } },
      { type: "image", mediaType: "image/jpeg", data: "BBBB" },
      { type: "resource", uri: "file:///x", title: "Log" },
    ],
  });
  assert.deepEqual(view, {
    text: 'before\n(see image 1)\n{"a":[1]}\n(see image 2)\nLog: file:///x',
    images: [
      { url: "data:image/png;base64,AAAA", mediaType: "image/png" },
      { url: "data:image/jpeg;base64,BBBB", mediaType: "image/jpeg" },
    ],
  });
  assert.deepEqual(toModelView("plain"), { text: "plain", images: [] });
  assert.equal(toModelView({ a: 1 }).text, '{"a":1}');
});

const pieces = fc.oneof(
  fc.record({ type: fc.constant("text" as const), text: fc.string({ minLength: 1 }) }),
  fc.record({
    type: fc.constant("json" as const),
    value: fc.jsonValue().filter((value) => typeof value !== "string") as fc.Arbitrary<Json>,
  }),
  fc.record({
    type: fc.constant("image" as const),
    mediaType: fc.constant("image/png"),
    data: fc.constant("AAAA"),
  }),
);

property(
  "content comes back from its stored form",
  fc.array(pieces, { maxLength: 4 }),
  (content) => {
    assert.equal(JSON.stringify(toToolContent(toToolOutput({ content }))), JSON.stringify(content));
  },
);
