import assert from "node:assert/strict";
import { OVERRIDES, SECRET_VARIABLES } from "../../src/config/environment.ts";
import { KNOWN_PROVIDERS } from "../../src/config/known_providers.ts";
import { loadConfig } from "../../src/config/load.ts";
import { readTextIfThere } from "../../src/config/read_text.ts";
import { Config } from "../../src/config/schema.ts";
import {
  namedMembers,
  recordOf,
  type SchemaNode,
  toSchemaNode,
} from "../../src/config/schema_node.ts";

const root = new URL("../../", import.meta.url);
const documentation = await Deno.readTextFile(new URL("docs/configuration.md", root));

/** Rows of the tables of settings: name to default, as written. */
const rows = new Map(
  documentation.split("\n").flatMap((line) => {
    const [, name, value] = /^\| `([^`]+)` +\| (?:`([^`]*)`)? *\|/.exec(line) ?? [];
    return name === undefined ? [] : [[name, value] as const];
  }),
);

/** Every setting of the schema with its path, as the documentation writes it. */
function* settingsOf(
  node: SchemaNode,
  path: string,
  wild: string,
): Generator<[string, SchemaNode]> {
  for (const [name, member] of namedMembers(node)) {
    const place = path === "" ? name : `${path}.${name}`;
    yield [place, member];
    yield* settingsOf(member, place, name === "models" && path !== "" ? "<model>" : "<name>");
  }
  const record = recordOf(node);
  if (record !== null) yield* settingsOf(record.value, `${path}.${wild}`, "<name>");
  if (node.items !== undefined) yield* settingsOf(node.items, `${path}[]`, wild);
  for (const variant of node.anyOf ?? []) yield* settingsOf(variant, path, wild);
}

const settings = [...settingsOf(toSchemaNode(Config), "", "<name>")];
const isSection = (path: string) => settings.some(([other]) => other.startsWith(`${path}.`));

Deno.test("docs/configuration.md has every setting with its default", () => {
  assert.ok(settings.length > 60);
  for (const [path, schema] of settings) {
    assert.ok(documentation.includes(`\`${path}`), `${path} is missing`);
    if (isSection(path) && !rows.has(path)) continue;
    assert.ok(rows.has(path), `${path} has no row`);
    if (typeof schema.default === "object" && !Array.isArray(schema.default)) continue;
    const wanted = "default" in schema ? JSON.stringify(schema.default) : undefined;
    assert.equal(rows.get(path), wanted, `default of ${path}`);
  }
});

Deno.test("docs/configuration.md names no setting that is none", () => {
  const known = new Set(settings.map(([path]) => path));
  const outside = new Set([
    ...KNOWN_PROVIDERS.map(({ name }) => name as string),
    ...OVERRIDES.map(({ variable }) => variable),
  ]);
  assert.deepEqual([...rows.keys()].filter((name) => !known.has(name) && !outside.has(name)), []);
});

Deno.test("docs/configuration.md has every variable and every known provider as the code does", () => {
  for (const { variable, section, name } of OVERRIDES) {
    assert.match(documentation, new RegExp(`\\| \`${variable}\` +\\| \`${section}\\.${name}\``));
  }
  for (const variable of SECRET_VARIABLES) assert.ok(documentation.includes(`\`${variable}\``));
  for (const { name, envVar, baseUrl, defaultModel } of KNOWN_PROVIDERS) {
    const row = documentation.split("\n").find((line) => line.startsWith(`| \`${name}\` `)) ?? "";
    for (const fact of [envVar, baseUrl, defaultModel]) {
      assert.ok(row.includes(`\`${fact}\``), fact);
    }
  }
});

Deno.test("examples/loophub.json is valid", async () => {
  const env: Record<string, string> = { OPENAI_API_KEY: "key-1", GROQ_API_KEY: "key-2" };
  const { config, notes } = await loadConfig({
    path: "examples/loophub.json",
    cwd: new URL(".", root).pathname,
    env: (name) => env[name],
    readText: readTextIfThere,
  });
  assert.deepEqual(notes, []);
  assert.equal(config.defaultModel, "default");
  assert.match(config.agents.clerk?.systemPrompt ?? "", /careful clerk/);
  assert.equal(config.providers["groq-batch"]?.baseUrl, "https://api.groq.com/openai/v1");
});

Deno.test("the shortest example of docs/configuration.md is valid", async () => {
  const text = /```jsonc\n([^]*?)```/.exec(documentation)?.[1] ?? "";
  const { config } = await loadConfig({
    cwd: "/none",
    env: (name) => name === "OPENAI_API_KEY" ? "key-1" : undefined,
    readText: (path) => Promise.resolve(path === "/none/loophub.json" ? text : null),
  });
  assert.equal(config.defaultModel, "smart");
});

Deno.test("a file that is not there has no text, one that cannot be read is an error", async () => {
  assert.equal(await readTextIfThere(new URL("no-such-file", root).pathname), null);
  await assert.rejects(readTextIfThere(root.pathname));
});
