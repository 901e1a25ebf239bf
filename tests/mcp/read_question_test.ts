import assert from "node:assert/strict";
import { readQuestion } from "../../src/mcp/answer_questions.ts";

Deno.test("the form that a server asks with shows what is not seen, in names and values too", () => {
  const question = readQuestion("peer", {
    message: "Send\u3164it?",
    requestedSchema: {
      type: "object",
      title: "To\u2800whom",
      properties: {
        "to\u200b": {
          type: "string",
          enum: ["ada", "ad\u{e0061}a", "ada\ufe00"],
          enumNames: ["Ada", "Ada\u180b"],
          default: "ada\u00a0",
        },
      },
    },
  });
  assert.ok(question?.kind === "form");
  assert.equal(question.message, "Send\\u3164it?");
  assert.deepEqual(question.schema, {
    type: "object",
    title: "To\\u2800whom",
    properties: {
      "to\\u200b": {
        type: "string",
        enum: ["ada", "ad\\u{e0061}a", "ada\\ufe00"],
        enumNames: ["Ada", "Ada\\u180b"],
        default: "ada\\u00a0",
      },
    },
  });
  const long = { type: "object", properties: { a: { const: "\u200b".repeat(20_000) } } };
  assert.equal(readQuestion("peer", { message: "?", requestedSchema: long }), null);
});
