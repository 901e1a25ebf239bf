import assert from "node:assert/strict";
import { QUIRKS } from "../../src/providers/quirks.ts";
import { cutDescriptions } from "../../src/router/cut_descriptions.ts";

const tool = (description: string) => (
  { name: "t", description, parameters: { type: "object" }, strict: false }
);

Deno.test("cutDescriptions: only for a provider that demands it, and the text says so", () => {
  const request = { messages: [], tools: [tool("short"), tool(`${"long ".repeat(400)}😀`)] };
  assert.equal(QUIRKS.anthropic.toolDescriptionChars, null);
  assert.equal(cutDescriptions(request, null), request);
  assert.equal(cutDescriptions(request, 4000), request);
  assert.equal(QUIRKS.openai.toolDescriptionChars, 1024);
  const [short, long] = cutDescriptions(request, 1024).tools;
  assert.equal(short, request.tools[0]);
  assert.ok((long?.description.length ?? 0) <= 1024);
  assert.match(long?.description ?? "", /long \[… cut: this provider takes 1024 characters\]$/);
  assert.equal(request.tools[1]?.description.length, 2002);
});

Deno.test("cutDescriptions: no character is cut in two, whatever the bound", () => {
  for (let most = 64; most < 80; most++) {
    const [cut] = cutDescriptions({ messages: [], tools: [tool("😀".repeat(200))] }, most).tools;
    assert.ok((cut?.description.length ?? 0) <= most);
    assert.equal(cut?.description.replaceAll("\ufffd", "").isWellFormed(), true);
  }
});
