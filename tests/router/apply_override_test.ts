import assert from "node:assert/strict";
import type { ModelOverride } from "../../src/config/provider_schema.ts";
import type { ModelRequest } from "../../src/core/model.ts";
import { createWireNames } from "../../src/operations/wire_names.ts";
import { applyOverride } from "../../src/router/apply_override.ts";

const { toWire } = createWireNames(["files.read"]);
const tool = { name: "files_read", description: "", parameters: {}, strict: false };
const bare: ModelRequest = { messages: [], tools: [tool] };
const apply = (override: ModelOverride, request: Partial<ModelRequest> = {}) =>
  applyOverride({ ...bare, ...request }, { override, toWire });

Deno.test("a model's settings stand where the agent says nothing, and nowhere else", () => {
  const override: ModelOverride = {
    temperature: 0.5,
    topP: 0.9,
    maxOutputTokens: 100,
    parallelToolCalls: false,
    toolChoice: "required",
    pricing: { inputPerMillion: 1, outputPerMillion: 2 },
  };
  const { pricing: _, ...settings } = override;
  assert.deepEqual(apply({}), bare);
  assert.deepEqual(apply(override), { ...bare, ...settings });
  const said: Partial<ModelRequest> = {
    temperature: 0,
    topP: 1,
    maxOutputTokens: 5,
    parallelToolCalls: true,
    toolChoice: "none",
  };
  assert.deepEqual(apply(override, said), { ...bare, ...said });
});

Deno.test("settings about tools need tools", () => {
  const without = apply({ parallelToolCalls: true, toolChoice: "required" }, { tools: [] });
  assert.deepEqual(without, { messages: [], tools: [] });
});

Deno.test("a model's choice that forces a call holds for the first one, and for a tool that is offered", () => {
  const choiceOf = (toolChoice: ModelOverride["toolChoice"], hasCalled = false) =>
    apply(toolChoice === undefined ? {} : { toolChoice }, hasCalled ? { hasCalled } : {})
      .toolChoice;
  assert.deepEqual(choiceOf({ name: "files.read" }), { name: "files_read" });
  assert.equal(choiceOf({ name: "files.read" }, true), "auto");
  assert.equal(choiceOf({ name: "gone.away" }), "auto");
  assert.equal(choiceOf("required", true), "auto");
  assert.equal(choiceOf("none", true), "none");
});

Deno.test("a model without vision reads a note for each image", () => {
  const image = { url: "data:image/png;base64,AA==", mediaType: "image/png" };
  const messages: ModelRequest["messages"] = [
    { role: "system", text: "Look" },
    { role: "user", content: [{ type: "text", text: "What is it?" }, { type: "image", ...image }] },
    {
      role: "tool",
      results: [{
        toolCallId: "c",
        toolName: "files_read",
        text: "Two",
        images: [image, image],
        isError: false,
      }],
    },
  ];
  assert.deepEqual(apply({ vision: true }, { messages }).messages, messages);
  const sent = JSON.stringify(apply({ vision: false }, { messages }).messages);
  assert.equal(sent.match(/an image is left out here/g)?.length, 3);
  assert.doesNotMatch(sent, /base64/);
});
