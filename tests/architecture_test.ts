import assert from "node:assert/strict";

/** Floor of each folder of `src/`; a file imports its own folder or lower floors. */
const FLOORS: Record<string, number> = {
  core: 0,
  config: 1,
  process: 1,
  telemetry: 1,
  wire: 1,
  store: 2,
  providers: 2,
  operations: 2,
  mcp: 2,
  policy: 3,
  router: 3,
  inference: 3,
  run: 4,
  http: 5,
  headends: 6,
  hub: 7,
  cli: 8,
  "main.ts": 9,
};
const MAX_LINES = 300;

interface Dependency {
  specifier: string;
  code?: { specifier?: string };
  type?: { specifier?: string };
}
interface Module {
  specifier: string;
  local?: string;
  dependencies?: Dependency[];
}

const root = new URL("../", import.meta.url);
const source = new URL("src/", root).href;

async function readGraph(): Promise<Module[]> {
  const output = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", "src/main.ts"],
    cwd: root,
    env: { NO_COLOR: "1" },
  }).output();
  assert.ok(output.success, new TextDecoder().decode(output.stderr));
  const graph = JSON.parse(new TextDecoder().decode(output.stdout)) as { modules: Module[] };
  return graph.modules.filter((module) => module.specifier.startsWith(source));
}

const place = (specifier: string) => specifier.slice(source.length);

function folderOf(path: string): string {
  return path.split("/")[0] ?? path;
}

function edgesOf(module: Module): string[] {
  return (module.dependencies ?? [])
    .flatMap((dependency) => [dependency.code?.specifier, dependency.type?.specifier])
    .filter((target): target is string => target !== undefined && target.startsWith(source))
    .map(place);
}

async function sourceFiles(folder: URL): Promise<string[]> {
  const files: string[] = [];
  for await (const entry of Deno.readDir(folder)) {
    if (entry.isDirectory) files.push(...await sourceFiles(new URL(`${entry.name}/`, folder)));
    else if (entry.name.endsWith(".ts")) files.push(new URL(entry.name, folder).href);
  }
  return files;
}

const graph = await readGraph();

Deno.test("every folder of src stands on a floor", () => {
  for (const module of graph) {
    const folder = folderOf(place(module.specifier));
    assert.ok(folder in FLOORS, `src/${folder} has no floor in tests/architecture_test.ts`);
  }
});

Deno.test("imports look down the floors, never up or sideways", () => {
  const wrong: string[] = [];
  for (const module of graph) {
    const from = place(module.specifier);
    for (const to of edgesOf(module)) {
      const [a, b] = [folderOf(from), folderOf(to)];
      if (a !== b && !((FLOORS[b] ?? 99) < (FLOORS[a] ?? -1))) wrong.push(`${from} imports ${to}`);
    }
  }
  assert.deepEqual(wrong, []);
});

Deno.test("no import cycle", () => {
  const edges = new Map(graph.map((module) => [place(module.specifier), edgesOf(module)]));
  const state = new Map<string, "open" | "done">();
  const visit = (file: string, trail: string[]): void => {
    if (state.get(file) === "done") return;
    assert.notEqual(state.get(file), "open", `cycle: ${[...trail, file].join(" -> ")}`);
    state.set(file, "open");
    for (const next of edges.get(file) ?? []) visit(next, [...trail, file]);
    state.set(file, "done");
  };
  for (const file of edges.keys()) visit(file, []);
});

Deno.test(`no source file is longer than ${MAX_LINES} lines`, async () => {
  const long: string[] = [];
  for (const file of await sourceFiles(new URL(source))) {
    const lines = (await Deno.readTextFile(new URL(file))).split("\n").length - 1;
    if (lines > MAX_LINES) long.push(`${place(file)}: ${lines}`);
  }
  assert.deepEqual(long, []);
});

/** `x.y = () =>` and its like. */
const ASSIGNED_FUNCTION =
  /[\w\])]\.#?\w+ (?:\?\?|\|\|)?= (?:async )?(?:function\b|\w+ =>|\((?:[^()]|\([^()]*\))*\)(?:: [^=;]+)? =>)/;

Deno.test("no function is made where a property gets it: V8 puts it, and what it captures, where only a full collection looks", async () => {
  for (const file of await sourceFiles(new URL(source))) {
    const found = ASSIGNED_FUNCTION.exec(await Deno.readTextFile(new URL(file)));
    assert.equal(
      found,
      null,
      `${place(file)}: give the function a name first, or a class: ${found?.[0]}`,
    );
  }
  assert.match("this.#end = () => {", ASSIGNED_FUNCTION);
  assert.match("a.b ??= async (one: () => void) => one", ASSIGNED_FUNCTION);
  assert.doesNotMatch("const end = () => {", ASSIGNED_FUNCTION);
});

Deno.test("main reaches every source file", async () => {
  const reached = new Set(graph.map((module) => module.specifier));
  const lost = (await sourceFiles(new URL(source))).filter((file) => !reached.has(file));
  assert.deepEqual(lost.map(place), []);
});

Deno.test("no file of src is named after nothing", async () => {
  const banned = /(^|_)(utils?|helpers?|manager|service|handler)\.ts$|(^|\/)(mod|index)\.ts$/;
  const files = (await sourceFiles(new URL(source))).map(place);
  assert.deepEqual(files.filter((file) => banned.test(file)), []);
});

Deno.test("the AI SDK is no dependency, and packages are pinned", async () => {
  const config = JSON.parse(await Deno.readTextFile(new URL("deno.json", root))) as {
    imports: Record<string, string>;
  };
  for (const [name, target] of Object.entries(config.imports)) {
    assert.match(target, /^npm:(@[^/]+\/)?[^@]+@\d+\.\d+\.\d+(-[\w.]+)?$/, `${name} is not pinned`);
    assert.doesNotMatch(name, /^(ai|@ai-sdk\/.*)$/);
  }
});
