import assert from "node:assert/strict";
import { isJsonObject, type Json, type JsonObject } from "../../../src/core/json.ts";
import { foreignParameters } from "../../../src/operations/foreign_schema.ts";
import { MESSAGES } from "../../../src/wire/anthropic/messages_dialect.ts";
import { mapSubschemas } from "../../../src/wire/map_subschemas.ts";
import { KeyRenamer } from "../../../src/wire/rename_keys.ts";
import { readToolCorpus } from "../../operations/tool_corpus.ts";

/** What Anthropic's API says of property keys of an `input_schema`. */
const PROPERTY = /^[a-zA-Z0-9_.-]{1,64}$/;

/** Names of properties anywhere in the schema. */
function namesIn(schema: Json): string[] {
  if (!isJsonObject(schema)) return [];
  const { properties } = schema;
  const names = isJsonObject(properties) ? Object.keys(properties) : [];
  mapSubschemas(schema, (sub) => {
    names.push(...namesIn(sub));
    return sub;
  });
  return names;
}

const encode = (parameters: Json, messages: JsonObject[] = [{ role: "user", content: "Hi" }]) => {
  const tools = [{ type: "function", function: { name: "find", parameters } }];
  const native = MESSAGES.encodeRequest({ model: "claude-sonnet-4-5", messages, tools });
  const [{ input_schema: schema } = assert.fail()] = native.body["tools"] as JsonObject[];
  return { ...native, schema: schema as JsonObject };
};
const back = (parameters: Json) => encode(parameters).aliases?.get("find") ?? new Map();

Deno.test("no tool of the corpus has a property that Anthropic's API refuses, and each name leads back", () => {
  let aliased = 0;
  for (const { server, name, inputSchema } of readToolCorpus()) {
    if (!isJsonObject(inputSchema)) continue;
    const parameters = foreignParameters(inputSchema);
    const { schema, aliases } = encode(parameters);
    const names = namesIn(schema);
    for (const one of names) assert.match(one, PROPERTY, `${server} ${name}`);
    const ways = aliases?.get("find") ?? new Map<string, string>();
    const refused = namesIn(parameters).filter((one) => !PROPERTY.test(one));
    assert.deepEqual(new Set(ways.values()), new Set(refused), `${server} ${name}`);
    assert.deepEqual(encode(parameters).schema, schema);
    aliased += refused.length;
  }
  assert.ok(aliased > 0);
});

const PLACES = {
  type: "object",
  properties: {
    "$vectorSearch": { type: "object", properties: { "größe": { type: "number" }, a: {} } },
    "": { $ref: "#/properties/%24vectorSearch" },
    plain: { enum: ["$vectorSearch", 1] },
    list: { type: "array", items: [{ properties: { "größe": {} }, required: ["größe"] }] },
  },
  required: ["$vectorSearch", "plain"],
  dependencies: { "$vectorSearch": [""] },
  $defs: { node: { properties: { "$vectorSearch": { $ref: "#/$defs/node" } } } },
};

Deno.test("a property has one other name wherever it stands, and requirements and references follow", () => {
  const { schema } = encode(PLACES);
  const [search, none] = ["_vectorSearch_70e6ddbb", "_e3b0c442"];
  const size = [...back(PLACES)].find(([, name]) => name === "größe")?.[0] ?? "";
  assert.match(size, /^gr__e_[0-9a-f]{8}$/);
  const properties = schema["properties"] as Record<string, JsonObject>;
  assert.deepEqual(Object.keys(properties), [search, none, "plain", "list"]);
  assert.deepEqual(Object.keys(properties[search]?.["properties"] as JsonObject), [size, "a"]);
  assert.equal(properties[search]?.["title"], "$vectorSearch");
  assert.equal(properties[none]?.["$ref"], `#/properties/${search}`);
  assert.deepEqual(properties["plain"], { enum: ["$vectorSearch", 1] });
  assert.match(JSON.stringify(properties["list"]), new RegExp(`"required":\\["${size}"\\]`));
  assert.deepEqual(schema["required"], [search, "plain"]);
  assert.deepEqual(schema["dependentRequired"], { [search]: [none] });
  assert.match(JSON.stringify(schema["$defs"]), new RegExp(`"${search}"`));
});

Deno.test("a name that is taken already is none of the others'", () => {
  const taken = Object.fromEntries(
    ["$a", ...back({ type: "object", properties: { "$a": {} } }).keys()]
      .map((name) => [name, { type: "string" }]),
  );
  const { schema } = encode({ type: "object", properties: taken });
  const names = Object.keys(schema["properties"] as JsonObject);
  assert.equal(new Set(names).size, Object.keys(taken).length);
});

const [ALIAS = ""] = [...back(PLACES)].find(([, name]) => name === "$vectorSearch") ?? [];
const SENT =
  `{ "plain" : "${ALIAS}: \\"x", "list":["${ALIAS}",{"${ALIAS}": {"n\\"":[]}}], "${ALIAS}":{}}`;
const WANTED = {
  plain: `${ALIAS}: "x`,
  list: [ALIAS, { "$vectorSearch": { 'n"': [] } }],
  "$vectorSearch": {},
};
const FACTS = { id: "chat-1", created: 5, model: "m", includeUsage: false };

Deno.test("arguments come back under the tool's own names, streamed in any pieces and whole", () => {
  const facts = { ...FACTS, aliases: encode(PLACES).aliases };
  const event = (data: object) => new TextEncoder().encode(`data: ${JSON.stringify(data)}\n\n`);
  for (const size of [1, 3, 7, SENT.length]) {
    const maker = MESSAGES.startChunks(facts);
    const pieces = SENT.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [];
    const chunks = [
      { type: "message_start", message: {} },
      {
        type: "content_block_start",
        index: 0,
        content_block: { type: "tool_use", id: "t", name: "find", input: {} },
      },
      ...pieces.map((partial_json) => ({
        type: "content_block_delta",
        index: 0,
        delta: { type: "input_json_delta", partial_json },
      })),
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "tool_use" }, usage: {} },
      { type: "message_stop" },
    ].flatMap((data) => maker.push(event(data)));
    const text = [...JSON.stringify(chunks).matchAll(/"arguments":("(?:[^"\\]|\\.)*")/g)]
      .map(([, piece = ""]) => JSON.parse(piece)).join("");
    assert.deepEqual(JSON.parse(text), WANTED, String(size));
  }
  const content = [{ type: "tool_use", id: "t", name: "find", input: JSON.parse(SENT) }];
  const whole = MESSAGES.decodeAnswer({ content, stop_reason: "tool_use", usage: {} }, facts);
  const [said = ""] = /"arguments":"(?:[^"\\]|\\.)*"/.exec(JSON.stringify(whole)) ?? [];
  assert.deepEqual(JSON.parse(JSON.parse(`{${said}}`).arguments), WANTED);
});

Deno.test("a call of before goes to the model as it has made it, and other tools' calls as they are", () => {
  const call = (name: string) => ({
    role: "assistant",
    tool_calls: [{
      id: name,
      type: "function",
      function: { name, arguments: '{"$vectorSearch":1}' },
    }],
  });
  const messages = [{ role: "user", content: "Hi" }, call("find"), call("other")];
  const { body } = encode(PLACES, messages);
  const blocks = (body["messages"] as { content: { input?: Json }[] }[]).at(-1)?.content;
  assert.deepEqual(blocks?.map(({ input }) => input), [{ [ALIAS]: 1 }, { "$vectorSearch": 1 }]);
});

Deno.test("a text that was cut in a key is given back as far as it came", () => {
  const renamer = new KeyRenamer(new Map([["a", "b"]]));
  assert.equal(renamer.push('{"a":1,"a') + renamer.end(), '{"b":1,"a');
});
