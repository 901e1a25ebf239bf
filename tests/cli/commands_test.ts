import assert from "node:assert/strict";
import { COMMANDS, describeCommands, findCommand } from "../../src/cli/commands.ts";
import { VERSION } from "../../src/core/version.ts";
import { command } from "../support/hub_process.ts";

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

Deno.test("a wrong call prints its form, and last what is wrong with it", async (t) => {
  const folder = await Deno.makeTempDir();
  const cases: [args: string[], lines: RegExp[]][] = [
    [["nonsense"], [/^There is no command nonsense; see loophub help$/]],
    [["chekc"], [/^There is no command chekc, did you mean "check"; see loophub help$/]],
    [["help", "nonsense"], [/^There is no command nonsense; see loophub help$/]],
    [["keys"], [
      /^loophub keys wants one of create, list, set, rotate, .*; see loophub keys --help$/,
    ]],
    [["keys", "craete"], [/"craete" is none, did you mean "create"; see loophub keys --help$/]],
    [["keys", "create"], [
      /^ {2}loophub keys create NAME /,
      / make an API key /,
      /^$/,
      /^loophub keys create: NAME is missing; see loophub keys --help$/,
    ]],
    [["keys", "token", `key_${"0".repeat(32)}`], [/one --agent and one --chat have to be given;/]],
    [["runs", "approve"], [/: RUN_ID and APPROVAL_ID are missing; see loophub runs --help$/]],
    [["grants", "remove", "x"], [/: these arguments do not fit; see loophub grants --help$/]],
    [["cache", "x"], [/"x" is none; see loophub cache --help$/]],
    [["run", "--nothing"], [/Unknown option '--nothing'/, /^See loophub run --help$/]],
    [["migrate", "--config"], [/argument missing/, /^See loophub migrate --help$/]],
  ];
  try {
    for (const [args, wanted] of cases) {
      await t.step(args.join(" "), async () => {
        const { code, out, err } = await command(folder, args);
        const lines = err.trimEnd().split("\n");
        assert.deepEqual([code, out], [2, ""], err);
        assert.ok(lines.length <= 6, err);
        for (const [at, pattern] of wanted.toReversed().entries()) {
          assert.match(lines.at(-1 - at) ?? "", pattern);
        }
      });
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("README and docs/cli.md say what loophub stands for", async () => {
  assert.match(await read("README.md"), /write `loophub` for `npx -y deno@\S+ task`/);
  assert.match(await read("docs/cli.md"), /`loophub` stands for `deno run/);
});

Deno.test("the version is that of deno.json", async () => {
  assert.equal(VERSION, (await readDenoJson()).version);
});
