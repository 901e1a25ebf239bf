import assert from "node:assert/strict";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { findRefusals } from "../operations/openai_rules.ts";
import { scripted, withServers } from "./rig.ts";

const GOOD = { name: "good", inputSchema: { type: "object" } };
const EMPTY = { type: "object" };
const withOutput = (outputSchema: Json): JsonObject => ({
  name: "odd",
  inputSchema: EMPTY,
  outputSchema,
});

/** Tools that some server lists, one oddity each. */
const ODD: Record<string, Json> = {
  "an empty schema": { name: "odd", inputSchema: {} },
  "no schema": { name: "odd" },
  "a null schema": { name: "odd", inputSchema: null },
  "a list of types": { name: "odd", inputSchema: { type: ["object", "null"], properties: {} } },
  "a union at its root": { name: "odd", inputSchema: { oneOf: [{ type: "object" }] } },
  "required among its properties": {
    name: "odd",
    inputSchema: { type: "object", properties: { a: { type: "string" }, required: ["a"] } },
  },
  "a boolean for a property": {
    name: "odd",
    inputSchema: { type: "object", properties: { a: true } },
  },
  "required null": { name: "odd", inputSchema: { type: "object", properties: {}, required: null } },
  "the schema as parameters": { name: "odd", parameters: { type: "object", properties: {} } },
  "an output schema without a type": withOutput({ description: "x" }),
  "an output schema of a list": withOutput({ type: "array", items: {} }),
  "an output schema of draft 4": withOutput({
    $schema: "http://json-schema.org/draft-04/schema#",
    type: "object",
    properties: { n: { type: "number", minimum: 0, exclusiveMinimum: true } },
  }),
  "an output schema of 2020": withOutput({
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    properties: { p: { type: "array", prefixItems: [{ type: "string" }] } },
    unevaluatedProperties: false,
  }),
  "an output schema that leads nowhere": withOutput({
    type: "object",
    properties: { n: { $ref: "#/$defs/Nope" } },
  }),
  "an output schema that leads outside": withOutput({
    type: "object",
    properties: { n: { $ref: "https://example.invalid/x.json" } },
  }),
  "a format nobody knows": withOutput({ type: "string", format: "my-odd-format" }),
  "a null description": { name: "odd", description: null, inputSchema: EMPTY },
  "null annotations": { name: "odd", annotations: null, inputSchema: EMPTY },
  "odd icons": { name: "odd", icons: "x", inputSchema: EMPTY },
  "more than is known": { name: "odd", inputSchema: EMPTY, foo: 1, _meta: { a: 1 } },
};
/** What is no tool at all, and why. */
const HOPELESS: Record<string, [Json, RegExp]> = {
  "a tool that is null": [null, /it is no object/],
  "a tool without a name": [{ inputSchema: EMPTY }, /it has no name/],
  "a tool whose name is a number": [{ name: 5 }, /it has no name/],
  "a second tool of the same name": [GOOD, /another tool of the server has its name/],
};

Deno.test("one odd tool costs no other tool, and is offered in a form that models take", async () => {
  const names = Object.keys(ODD);
  const servers = Object.fromEntries(
    names.map((name, at) => [`s${at}`, scripted({ tools: [GOOD, ODD[name] ?? null] })]),
  );
  await withServers(servers, async ({ mcp, call }) => {
    await mcp.settled(120_000);
    for (const [at, name] of names.entries()) {
      const own = mcp.tools.filter((tool) => tool.name.startsWith(`s${at}__`));
      assert.deepEqual(own.map((tool) => tool.name), [`s${at}__good`, `s${at}__odd`], name);
      for (const { parameters } of own) assert.deepEqual(findRefusals(parameters), [], name);
      const answers = await Promise.all([call(`s${at}__good`), call(`s${at}__odd`)]);
      assert.deepEqual(answers.map(({ isError }) => isError), [undefined, undefined], name);
    }
  });
});

Deno.test("a hopeless tool is left out alone, with a reason", async () => {
  const names = Object.keys(HOPELESS);
  const servers = Object.fromEntries(
    names.map((name, at) => [`s${at}`, scripted({ tools: [GOOD, HOPELESS[name]?.[0] ?? null] })]),
  );
  await withServers(servers, async ({ mcp, call, connection, logged }) => {
    await mcp.settled(120_000);
    assert.deepEqual(mcp.tools.map(({ name }) => name), names.map((_, at) => `s${at}__good`));
    for (const [at, name] of names.entries()) {
      const { content } = await call(`s${at}__good`);
      assert.deepEqual(content, [{ type: "text", text: "good ok" }]);
      const [dropped] = connection(`s${at}`).listing?.dropped ?? [];
      assert.match(dropped?.reason ?? "", HOPELESS[name]?.[1] ?? /never/, name);
    }
    assert.ok(logged.includes("warn A tool of an MCP server cannot be used"));
  });
});

Deno.test("names that models refuse are made anew and lead back", async () => {
  const long = "a".repeat(100);
  const tools = [{ ...GOOD, name: "my tool/v2.ü" }, { ...GOOD, name: long }];
  await withServers({ "My Server": scripted({ tools }) }, async ({ mcp, call }) => {
    await mcp.settled(60_000);
    const [first, second] = mcp.tools.map(({ name }) => name).sort();
    assert.match(first ?? "", /^my-server__a{46}_[0-9a-f]{6}$/);
    assert.match(second ?? "", /^my-server__my_tool_v2__[0-9a-f]{6}$/);
    assert.deepEqual((await call(first ?? "")).content, [{ type: "text", text: `${long} ok` }]);
    const answer = await call(second ?? "");
    assert.deepEqual(answer.content, [{ type: "text", text: "my tool/v2.ü ok" }]);
  });
});

/** What tools give, and what the model reads of it. */
const RESULTS: Record<string, [Json, Json]> = {
  structure: [{ structuredContent: { n: 1 } }, { content: [{ type: "json", value: { n: 1 } }] }],
  both: [
    { content: [{ type: "text", text: '{"n":1}' }], structuredContent: { n: 1 } },
    { content: [{ type: "text", text: '{"n":1}' }] },
  ],
  empty: [{}, { content: [] }],
  unknown: [
    { content: [{ type: "video", data: "x" }, { type: "text", text: "ok" }] },
    {
      content: [
        { type: "text", text: "(a block of the unknown kind video)" },
        { type: "text", text: "ok" },
      ],
    },
  ],
  old: [{ toolResult: "x" }, { content: [{ type: "text", text: "x" }] }],
  string: [{ content: "hello" }, { content: [{ type: "text", text: "hello" }] }],
  kindless: [
    { content: [{ type: "image", data: "AAAA" }] },
    { content: [{ type: "file", mediaType: "unknown", data: "AAAA", title: "image" }] },
  ],
  image: [
    { content: [{ type: "image", data: "AAAA", mimeType: "image/png" }] },
    { content: [{ type: "image", data: "AAAA", mediaType: "image/png" }] },
  ],
  sound: [
    { content: [{ type: "audio", data: "AAAA", mimeType: "audio/wav" }] },
    { content: [{ type: "file", mediaType: "audio/wav", data: "AAAA", title: "audio" }] },
  ],
  link: [
    { content: [{ type: "resource_link", uri: "a://b", name: "B", mimeType: "text/plain" }] },
    { content: [{ type: "resource", uri: "a://b", mediaType: "text/plain", title: "B" }] },
  ],
  resource: [
    { content: [{ type: "resource", resource: { uri: "a://b", text: "inside" } }] },
    { content: [{ type: "text", text: "inside" }] },
  ],
  blob: [
    {
      content: [{
        type: "resource",
        resource: { uri: "a://b", blob: "AAAA", mimeType: "application/pdf" },
      }],
    },
    {
      content: [{
        type: "file",
        mediaType: "application/pdf",
        data: "AAAA",
        title: "resource a://b",
      }],
    },
  ],
  failed: [
    {
      isError: true,
      content: [{ type: "text", text: "no" }, { type: "text", text: "such file" }],
    },
    {
      isError: true,
      content: [{ type: "text", text: "no" }, { type: "text", text: "such file" }],
    },
  ],
  mismatch: [
    { content: [{ type: "text", text: "x" }], structuredContent: { n: "no number" } },
    { content: [{ type: "text", text: "x" }] },
  ],
};

Deno.test("every kind of result becomes one that the loop knows, also against its own output schema", async () => {
  const outputSchema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
  const tools = Object.keys(RESULTS).map((name) => ({ ...GOOD, name, outputSchema }));
  const results = Object.fromEntries(
    Object.entries(RESULTS).map(([name, [given]]) => [name, given]),
  );
  await withServers({ one: scripted({ tools, results }) }, async ({ mcp, call }) => {
    await mcp.settled(60_000);
    for (const [name, [, wanted]] of Object.entries(RESULTS)) {
      assert.deepEqual(await call(`one__${name}`), wanted, name);
    }
  });
});
