import assert from "node:assert/strict";
import { Value } from "@sinclair/typebox/value";
import fc from "fast-check";
import { isJsonObject, type Json, type JsonObject } from "../../src/core/json.ts";
import { checkSchema } from "../../src/config/check_schema.ts";
import { createProblemList } from "../../src/config/problem.ts";
import { Config } from "../../src/config/schema.ts";
import { toSchemaNode } from "../../src/config/schema_node.ts";
import { property } from "../support/property.ts";

function check(value: Json) {
  const problems = createProblemList({ lineOf: () => undefined, variableOf: () => undefined });
  const checked = checkSchema(toSchemaNode(Config), value, { problems, references: new Map() });
  return { checked, problems: problems.all };
}

const scalar = fc.oneof(
  fc.constantFrom<Json>(
    null,
    true,
    false,
    0,
    1,
    -1,
    2.5,
    1e9,
    "",
    "x",
    "auto",
    "info",
    "openai",
    "a/b",
  ),
  fc.constantFrom<Json>([], {}, ["x"], ["x", "x"], { name: "x" }, { name: 5 }, {
    targets: ["a/b"],
  }),
);

function objectOf(names: string[], value: fc.Arbitrary<Json>): fc.Arbitrary<Json> {
  return fc.dictionary(fc.constantFrom(...names), value, { maxKeys: 4 }) as fc.Arbitrary<Json>;
}

const modelOverride = objectOf(
  ["maxOutputTokens", "pricing", "toolChoice", "topP", "vision", "zzz"],
  scalar,
);
const provider = objectOf(
  ["kind", "baseUrl", "apiKey", "headers", "models", "timeouts", "maxRetries", "zzz"],
  fc.oneof(scalar, objectOf(["m1", "connectMs", "x y"], fc.oneof(scalar, modelOverride))),
);
const agent = objectOf(
  ["models", "systemPrompt", "tools", "maxSteps", "topP", "toolChoice", "extra", "zzz"],
  scalar,
);
const config = fc.record<Record<string, Json>>({
  server: fc.oneof(
    objectOf(["host", "port", "trustedHosts", "keepaliveMs", "zzz"], scalar),
    scalar,
  ),
  log: objectOf(["level", "format"], scalar),
  providers: fc.oneof(
    objectOf(["openai", "a-b", "Bad", "x y"], fc.oneof(provider, scalar)),
    scalar,
  ),
  models: objectOf(["fast", "a b", "q/r"], scalar),
  agents: objectOf(["one", "default", "-x"], fc.oneof(agent, scalar)),
  timeouts: objectOf(["connectMs", "totalMs", "zzz"], scalar),
  defaultModel: scalar,
  zzz: scalar,
}, { requiredKeys: [] });

/** The value as TypeBox fills it in, but for what it takes for the same: an object and a list, where the other is the default. */
function withDefaults(value: Json): unknown {
  const unmixed = (filled: unknown, given: unknown): unknown => {
    if (typeof given !== "object" || given === null || Array.isArray(given)) {
      return Array.isArray(given) && !Array.isArray(filled) ? given : filled;
    }
    if (!isJsonObject(filled as Json)) return given;
    const members = Object.entries(filled as JsonObject);
    return Object.fromEntries(
      members.map(([name, member]) => [name, unmixed(member, (given as JsonObject)[name])]),
    );
  };
  return unmixed(Value.Default(Config, structuredClone(value)), value);
}

function assertAgrees(value: Json): void {
  const { problems } = check(structuredClone(value));
  const accepted = Value.Check(Config, withDefaults(value));
  assert.equal(problems.length === 0, accepted, JSON.stringify(problems));
}

property("accepts exactly what TypeBox accepts", config, assertAgrees, { runs: 1500 });

Deno.test("an object is no list, and a list no object", () => {
  const wrong: Json[] = [
    { server: [] },
    { providers: { openai: [] } },
    { agents: { one: { models: { targets: ["a/b"] } } } },
  ];
  for (const value of wrong) {
    assert.equal(check(structuredClone(value)).problems.length, 1);
    assertAgrees(value);
  }
});

property("what is left of a wrong configuration is a right one", config, (value) => {
  const { checked } = check(value);
  const again = check(structuredClone(checked) as Json);
  // A list that lost its only, wrong entry is the one thing that is still too short.
  assert.deepEqual(again.problems.filter(({ path }) => !path.endsWith(".targets")), []);
});

property("the input is not changed", config, (value) => {
  const before = JSON.stringify(value);
  check(value);
  assert.equal(JSON.stringify(value), before);
});

Deno.test("a whole variable may stand for a number or a boolean, and only there", () => {
  const problems = createProblemList({ lineOf: () => undefined, variableOf: () => undefined });
  const whole = (raw: string) => ({ raw, values: [], variables: [], whole: true });
  const references = new Map([
    ["server.port", whole("${PORT}")],
    ["database.prepare", whole("${PREPARE}")],
    ["providers.a.apiKey", whole("${KEY}")],
    ["database.poolSize", { ...whole("1${N}"), whole: false }],
    ["timeouts.totalMs", whole("${T}")],
  ]);
  const checked = checkSchema(toSchemaNode(Config), {
    server: { port: "8080" },
    database: { prepare: "false", poolSize: "12" },
    providers: { a: { apiKey: "123" } },
    timeouts: { totalMs: "1e3" },
  }, { problems, references }) as Config;
  assert.equal(checked.server.port, 8080);
  assert.equal(checked.database.prepare, false);
  assert.equal(checked.providers.a?.apiKey, "123");
  assert.deepEqual(problems.all.map(({ path, got }) => [path, got]), [
    ["database.poolSize", 'what "1${N}" stands for'],
    ["timeouts.totalMs", 'what "${T}" stands for'],
  ]);
});
