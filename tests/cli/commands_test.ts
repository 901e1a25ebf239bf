import assert from "node:assert/strict";
import { COMMANDS, describeCommands, findCommand } from "../../src/cli/commands.ts";
import { VERSION } from "../../src/core/version.ts";

const root = new URL("../../", import.meta.url);
const read = (path: string) => Deno.readTextFile(new URL(path, root));

interface DenoJson {
  version: string;
  tasks: Record<string, { command: string }>;
}

const readDenoJson = async () => JSON.parse(await read("deno.json")) as DenoJson;

/** `name verb` of each form that somebody types. */
const calls = COMMANDS.flatMap(({ name, forms }) =>
  Object.keys(forms).map((verb) => `${name} ${verb}`.trim())
);

Deno.test("help has each form of each command, found by its name and by its other names", () => {
  const help = describeCommands().split("\n");
  for (const call of calls) {
    const lines = help.filter((line) => `${line} `.startsWith(`  loophub ${call} `));
    assert.ok(lines.length >= 1, call);
  }
  const names = COMMANDS.flatMap(({ name, aliases = [] }) => [name, ...aliases]);
  assert.equal(new Set(names).size, names.length);
  for (const command of COMMANDS) {
    for (const name of [command.name, ...command.aliases ?? []]) {
      assert.equal(findCommand(name), command);
    }
  }
  assert.equal(findCommand("constructor"), null);
  assert.ok(help.every((line) => line.length <= 160));
});

Deno.test("each command has a task of its name, and each task that runs one names it", async () => {
  const { tasks } = await readDenoJson();
  const named = Object.entries(tasks).flatMap(([task, { command }]) => {
    const name = /src\/main\.ts(?: (\S+))?$/.exec(command)?.[1];
    return name === undefined ? [] : [{ task, name }];
  });
  for (const { task, name } of named) assert.ok(findCommand(name) !== null, task);
  const wanted = COMMANDS.filter(({ name, forms }) =>
    Object.keys(forms).length > 0 && name !== "help" && name !== "version"
  );
  for (const { name } of wanted) {
    assert.ok(named.some((task) => task.task === name && task.name === name), `no task ${name}`);
  }
});

Deno.test("docs/cli.md has a row for each command and tells each of its forms, and no others", async () => {
  const docs = await read("docs/cli.md");
  const rows = [...docs.matchAll(/^\| `loophub ([a-z]+)/gm)].map(([, name]) => name ?? "");
  const typed = COMMANDS.filter(({ forms }) => Object.keys(forms).length > 0);
  assert.deepEqual(
    [...new Set(rows)].toSorted(),
    typed.map(({ name }) => name).toSorted(),
  );
  for (const call of calls) {
    assert.ok(new RegExp(`\`(?:loophub )?${call}\\b`).test(docs), `docs/cli.md is without ${call}`);
  }
});

Deno.test("the documents name no command that is not there", async () => {
  const files = ["README.md", "AGENTS.md"];
  for await (const { name } of Deno.readDir(new URL("docs/", root))) files.push(`docs/${name}`);
  const verbs = new Map(
    COMMANDS.map(({ name, aliases = [], forms }) => [[name, ...aliases], forms]),
  )
    .entries().flatMap(([names, forms]) => names.map((name) => [name, forms] as const));
  const known = new Map(verbs);
  let found = 0;
  for (const file of files.filter((name) => name.endsWith(".md"))) {
    for (
      const [, name = "", verb] of (await read(file)).matchAll(/`loophub ([a-z-]+)(?: ([a-z]+))?/g)
    ) {
      // The name that the hub's own connection has in Postgres.
      if (name === "listener") continue;
      found++;
      const forms = known.get(name);
      assert.ok(forms !== undefined, `${file}: loophub ${name}`);
      const hasVerbs = Object.keys(forms).some((one) => /^[a-z]/.test(one));
      if (verb !== undefined && hasVerbs) {
        assert.ok(verb in forms, `${file}: loophub ${name} ${verb}`);
      }
    }
  }
  assert.ok(found > 20);
});

Deno.test("the version is that of deno.json", async () => {
  assert.equal(VERSION, (await readDenoJson()).version);
});
