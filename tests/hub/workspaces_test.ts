import assert from "node:assert/strict";
import { loadText, LOCAL } from "../config/load_fixture.ts";
import { openWorkspaces } from "../../src/hub/workspaces.ts";
import { createToolContext } from "../operations/tool_context.ts";
import { systemClock } from "../support/system_clock.ts";

/** Opens the workspaces of a configuration on a machine with this `PATH`. */
async function open(config: Record<string, unknown>, path: string) {
  const load = async (config: Record<string, unknown>) =>
    (await loadText({ providers: { local: LOCAL }, ...config })).config;
  const loaded = await load(config);
  const counts = { now: loaded };
  const { context, logged } = createToolContext(systemClock);
  const workspaces = await openWorkspaces({
    clock: systemClock,
    log: context.log,
    env: (name) => name === "PATH" ? path : undefined,
    randomBytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
  }, { config: loaded, own: [], live: () => counts.now });
  const toolsOf = (name: string) => {
    const agent = loaded.agents[name] ?? assert.fail(name);
    return workspaces.toolsOf(agent).map((tool) => tool.name);
  };
  const found = (name: string, tool: string) =>
    workspaces.toolsOf(loaded.agents[name] ?? assert.fail(name)).find((one) => one.name === tool);
  const placeOf = (name: string) => workspaces.placeOf(loaded.agents[name] ?? assert.fail(name));
  const prepare = async (config: Record<string, unknown>) =>
    await workspaces.prepare(await load(config));
  return { toolsOf, logged, found, placeOf, prepare, counts };
}

/** A folder with nothing but a shell. */
const BARE = await Deno.makeTempDir({ prefix: "loophub-path-" });
await Deno.symlink("/bin/sh", `${BARE}/sh`);
globalThis.addEventListener("unload", () => Deno.removeSync(BARE, { recursive: true }));

const shell = { allow: ["git status"], script: true };

Deno.test("without bubblewrap files are offered, commands not, and that is said", async () => {
  const { toolsOf, logged } = await open({
    workspace: { dir: "/project/ws", shell },
    agents: {
      reader: { workspace: { dir: "/project/ws" } },
      risky: { workspace: { dir: "/project/ws", sandbox: "off", shell } },
      free: { workspace: { dir: "/srv", securityMode: "full-control", shell } },
      none: { workspace: false },
    },
  }, BARE);
  const commands = (name: string) => toolsOf(name).filter((tool) => tool.startsWith("shell."));
  assert.equal(toolsOf("default").length, 9);
  assert.deepEqual(commands("default"), []);
  assert.deepEqual(commands("risky"), ["shell.run"]);
  assert.deepEqual(commands("free"), ["shell.run", "shell.script"]);
  assert.deepEqual(toolsOf("none"), []);
  assert.equal(logged.length, 4);
  assert.match(
    logged[0] ?? "",
    /^warn Workspace: limited-control without bubblewrap \(bubblewrap \(bwrap\) is not installed\): .*; no commands are offered$/,
  );
  assert.match(logged[1] ?? "", /^info Workspace: .* held to the folder by checks alone$/);
});

Deno.test("a hub whose sandbox is required does not start without it", async () => {
  await assert.rejects(
    open({ workspace: { dir: "/project/ws", sandbox: "required" } }, BARE),
    /\/project\/ws wants a sandbox, and bubblewrap \(bwrap\) is not installed: install/,
  );
});

Deno.test("a changed file that wants a sandbox which does not work here is refused, and what was there stays", async () => {
  const { toolsOf, prepare } = await open({ workspace: { dir: "/project/ws" } }, BARE);
  await assert.rejects(
    prepare({ workspace: { dir: "/project/ws", sandbox: "required" } }),
    /\/project\/ws wants a sandbox, and bubblewrap \(bwrap\) is not installed: install/,
  );
  assert.equal(toolsOf("default").length, 9);
});

Deno.test("a call is neither shown nor made in a workspace that no agent has any more", async () => {
  const dir = await Deno.makeTempDir({ prefix: "loophub-gone-" });
  try {
    const { found, counts } = await open({ workspace: { dir } }, BARE);
    const write = found("default", "file.write") ?? assert.fail("no file.write");
    const input = { path: "a.txt", content: "a" };
    const { context } = createToolContext(systemClock);
    const called = { ...context, agent: "default" };
    const shown = await write.preview?.(input, called);
    assert.equal(shown?.preview.kind, "diff");
    const { workspace: _, ...without } = counts.now;
    counts.now = without;
    const gone = { code: "conflict", message: /its workspace is not configured any more/ };
    await assert.rejects(async () => await write.preview?.(input, called), gone);
    await assert.rejects(write.execute(input, called), gone);
    assert.deepEqual([...Deno.readDirSync(dir)], []);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a hub without workspaces starts no program for them", async () => {
  const { toolsOf, logged } = await open({}, BARE);
  assert.deepEqual(toolsOf("default"), []);
  assert.deepEqual(logged, []);
});

Deno.test("openWorkspaces: limits of tools reach those on files", async () => {
  const { found, placeOf } = await open({
    workspace: { dir: "/project/ws" },
    limits: { toolTimeoutMs: 7000, toolResultBytes: 20_000, toolResultLines: 300 },
  }, BARE);
  assert.equal(found("default", "file.read")?.timeoutMs, 7000);
  assert.equal(found("default", "file.write")?.timeoutMs, 7000);
  assert.equal(placeOf("default")?.timeoutMs, 7000);
  assert.deepEqual(placeOf("default")?.results, { bytes: 20_000, lines: 300 });
});

/** A program that says it is bubblewrap, and runs what it is given outside of any sandbox. */
async function fakeBubblewrap(folder: string) {
  const script = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n';
  await Deno.writeTextFile(`${folder}/bwrap`, script, { mode: 0o755 });
}

async function withFolders(use: (folders: { bin: string; other: string }) => Promise<void>) {
  const root = await Deno.makeTempDir({ prefix: "loophub-programs-" });
  const folders = { bin: `${root}/bin`, other: `${root}/other` };
  try {
    for (const folder of Object.values(folders)) await Deno.mkdir(folder);
    await use(folders);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test("a bubblewrap that is installed after the start counts from the next reload on", async () => {
  await withFolders(async ({ bin, other }) => {
    const config = { workspace: { dir: other, shell } };
    const { toolsOf, prepare, found } = await open(config, `${bin}:${BARE}`);
    const commands = () => toolsOf("default").filter((tool) => tool.startsWith("shell."));
    assert.deepEqual(commands(), []);
    const before = found("default", "file.list") ?? assert.fail("no file.list");
    await fakeBubblewrap(bin);
    await prepare(config);
    assert.ok(commands().length > 0, "the workspace was opened again");
    await assert.rejects(
      before.execute({}, { ...createToolContext(systemClock).context, agent: "default" }),
      { code: "conflict", message: /changed since the run began/ },
    );
    await Deno.remove(`${bin}/bwrap`);
    await prepare(config);
    assert.deepEqual(commands(), []);
  });
});

Deno.test("a bubblewrap in a folder that another agent may write to by now is none", async () => {
  await withFolders(async ({ bin, other }) => {
    await fakeBubblewrap(bin);
    const config = { workspace: { dir: other, shell } };
    const { toolsOf, prepare, placeOf } = await open(config, `${bin}:${BARE}`);
    const commands = () => toolsOf("default").filter((tool) => tool.startsWith("shell."));
    assert.ok(commands().length > 0);
    await prepare({ ...config, agents: { writer: { workspace: { dir: bin } } } });
    assert.deepEqual(commands(), []);
    assert.equal(placeOf("default")?.path, BARE);
    // The start decides the same.
    const started = await open({
      ...config,
      agents: { writer: { workspace: { dir: bin } } },
    }, `${bin}:${BARE}`);
    assert.equal(started.placeOf("default")?.path, BARE);
  });
});
