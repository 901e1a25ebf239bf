import assert from "node:assert/strict";
import fc from "fast-check";
import { eventually } from "../../support/test_hub.ts";
import { property } from "../../support/property.ts";
import { bubblewrap, CANARY, type FilesRig, makeSpecial, withFiles } from "./rig.ts";

/** The same with checks alone and inside of bubblewrap. */
function bothWays(name: string, body: (rig: FilesRig) => Promise<void>): void {
  Deno.test(name, () => withFiles(body));
  Deno.test({
    name: `${name}, in bubblewrap`,
    ignore: !bubblewrap.works,
    fn: () => withFiles(body, { boxed: true }),
  });
}

bothWays("no path leads out of the workspace", async (rig) => {
  const { ws, outside } = rig;
  await Deno.mkdir(`${ws}/sub`);
  await Deno.symlink(outside, `${ws}/link`);
  await Deno.symlink(`${outside}/canary`, `${ws}/file-link`);
  await Deno.symlink("/", `${ws}/top`);
  await Deno.symlink("link", `${ws}/twice`);
  await Deno.symlink("../../ws-evil", `${ws}/sub/up`);
  await Deno.symlink("loop", `${ws}/loop`);
  const paths = [
    "../ws-evil/canary",
    `${outside}/canary`,
    "sub/../../ws-evil/canary",
    "sub/./.././../ws-evil/canary",
    "./../ws-evil/canary",
    "..//ws-evil//canary",
    "/etc/passwd",
    "//etc/passwd",
    "/proc/self/environ",
    "/proc/self/fd/0",
    "/proc/1/environ",
    "/dev/zero",
    `${ws}/../ws-evil/canary`,
    `${ws}-evil/canary`,
    `${ws}\\..\\..\\ws-evil\\canary`,
    "link/canary",
    "file-link",
    "top/etc/passwd",
    `top${outside}/canary`,
    "top/proc/self/environ",
    "top/proc/self/root/etc/passwd",
    "top/proc/self/fd/0",
    "top/dev/zero",
    "twice/canary",
    "sub/up/canary",
    "sub/up/../ws-evil/canary",
    "loop",
    "loop/canary",
    "%2e%2e/ws-evil/canary",
    "..%2fws-evil%2fcanary",
    "%2e%2e%2fws-evil%2fcanary",
    "..%c0%afws-evil/canary",
    "．．/ws-evil/canary",
    "..\u2215ws-evil/canary",
    "file:///etc/passwd",
    "~/.ssh/id_rsa",
    "$HOME/.ssh/id_rsa",
    "`cat /etc/passwd`",
    "$(cat /etc/passwd)",
    "; cat /etc/passwd",
    "-rf",
    "--help",
    "canary\u0000.txt",
    "../ws-evil/canary\u0000",
    "sub\n/../../ws-evil/canary",
    "a\ud800b",
    "x".repeat(256),
    `${"x/".repeat(2040)}canary`,
  ];
  for (const path of paths) {
    await rig.fails("read", { path });
    await rig.fails("edit", { path, oldText: "canary", newText: "bird" });
    const outcomes = [
      await rig.call("list", { path }),
      await rig.call("glob", { pattern: "*", path }),
      await rig.call("grep", { pattern: "canary|root", path }),
    ];
    for (const outcome of outcomes) {
      const said = JSON.stringify(outcome);
      assert.ok(!said.includes(CANARY) && !said.includes("root:"), `${path}: ${said}`);
      if (outcome.ok) assert.match(said, /\(0 /, path);
    }
  }
  for (
    const path of ["link/new", "sub/up/new", "top/tmp/loophub-escaped", "../new", "/tmp/../new"]
  ) {
    assert.match(
      await rig.fails("write", { path, content: "x" }),
      /outside of the|nothing at/,
      path,
    );
    await rig.fails("move", { from: "sub", to: path });
    await rig.fails("delete", { path });
  }
  await rig.fails("delete", { path: "link/canary" });
  await rig.fails("move", { from: "link/canary", to: "mine" });
  assert.match(await rig.fails("write", { path: "file-link", content: "x" }), /symbolic link/);
  await rig.ok("delete", { path: "link", recursive: true });
  await rig.ok("delete", { path: "top", recursive: true });
  assert.equal(await Deno.readTextFile(`${outside}/canary`), CANARY);
  assert.deepEqual([...Deno.readDirSync(outside)].map(({ name }) => name), ["canary"]);
});

bothWays("links that stay inside are followed by what reads", async (rig) => {
  await rig.ok("write", { path: "real/file", content: "here" });
  await Deno.symlink("real", `${rig.ws}/folder`);
  await Deno.symlink("real/file", `${rig.ws}/file`);
  assert.match(await rig.ok("read", { path: "folder/file" }), /1: here/);
  assert.match(await rig.ok("read", { path: "file" }), /1: here/);
  await rig.ok("write", { path: "folder/file", content: "there" });
  assert.equal(await Deno.readTextFile(`${rig.ws}/real/file`), "there");
  assert.match(await rig.fails("write", { path: "file", content: "x" }), /symbolic link/);
});

bothWays("what is no regular file is not opened, and a second name not written", async (rig) => {
  const { ws, outside } = rig;
  const run = async (script: string) => {
    const { success } = await new Deno.Command("sh", { args: ["-c", script], cwd: ws }).output();
    return success;
  };
  assert.ok(await run("mkfifo pipe"));
  await Deno.symlink("/dev/zero", `${ws}/zero`);
  await Deno.symlink("/proc/self/environ", `${ws}/environ`);
  await Deno.symlink("/dev/fd/0", `${ws}/input`);
  assert.match(await rig.fails("read", { path: "pipe" }), /device, a pipe or a socket/);
  assert.match(await rig.fails("write", { path: "pipe", content: "x" }), /a pipe or a socket/);
  await rig.fails("edit", { path: "pipe", oldText: "x", newText: "y" });
  for (const path of ["zero", "environ", "input"]) {
    const error = await rig.fails("read", { path });
    assert.match(error, /device, a pipe|outside|leads to nothing/, path);
    assert.match(await rig.fails("write", { path, content: "x" }), /symbolic link/);
  }
  if (await run("mknod device c 1 5")) {
    assert.match(await rig.fails("read", { path: "device" }), /device, a pipe or a socket/);
  }
  assert.match(await rig.ok("grep", { pattern: "." }), /^\(0 lines found in 0 of 0 files\)$/);
  await makeSpecial("socket", `${ws}/socket`);
  for (const path of ["pipe", "socket"]) {
    assert.match(await rig.fails("read", { path }), /device, a pipe or a socket/);
    assert.match(await rig.fails("write", { path, content: "x" }), /a pipe or a socket/);
    assert.match(await rig.fails("edit", { path, oldText: "x", newText: "y" }), /a pipe or/);
    assert.match(await rig.fails("list", { path }), /no folder/);
    assert.match(await rig.fails("glob", { pattern: "*", path }), /no folder/);
    const found = await rig.call("grep", { pattern: ".", path });
    assert.ok(!found.ok || /\(0 lines/.test(JSON.stringify(found.output)), path);
    assert.match(await rig.ok("stat", { path }), /other/);
    assert.match(await rig.ok("list", {}), new RegExp(`^${path} \\(other\\)$`, "m"));
    assert.match(await rig.ok("glob", { pattern: "*" }), /^\(0 of 0 files that fit\)$/);
    await rig.ok("write", { path: "plain", content: "x" });
    await rig.fails("move", { from: path, to: "plain" });
    await rig.ok("move", { from: path, to: "moved" });
    assert.match(await rig.ok("stat", { path: "moved" }), /other/);
    assert.match(await rig.fails("write", { path: "moved", content: "x" }), /a pipe or/);
    await rig.ok("move", { from: "plain", to: "moved", overwrite: true });
    assert.match(await rig.ok("read", { path: "moved" }), /1: x/);
    await rig.ok("delete", { path: "moved" });
  }
  for (const kind of ["pipe", "socket"] as const) {
    await makeSpecial(kind, `${ws}/${kind}`);
    await rig.ok("delete", { path: kind });
    await rig.fails("stat", { path: kind });
  }
  await Deno.link(`${outside}/canary`, `${ws}/second`);
  assert.match(await rig.fails("write", { path: "second", content: "x" }), /several names/);
  assert.match(
    await rig.fails("edit", { path: "second", oldText: "canary", newText: "x" }),
    /several names/,
  );
  assert.equal(await Deno.readTextFile(`${outside}/canary`), CANARY);
});

const name = fc.constantFrom(
  "a",
  "b",
  "in",
  "out",
  "up",
  "file",
  "..",
  ".",
  "...",
  "ws",
  "ws-evil",
);
const path = fc.tuple(
  fc.constantFrom("", "", "", "/", "@/", "@-evil/", "./", "//"),
  fc.array(name, { minLength: 1, maxLength: 6 }),
).map(([start, names]) => start + names.join("/"));

await withTree((rig) =>
  property("what is read is what realpath finds inside, and nothing else", path, async (made) => {
    const path = made.replace("@", rig.ws);
    const outcome = await rig.call("read", { path });
    // By its text first, as the operation takes `..`; then by what is there.
    const { stdout } = await new Deno.Command("sh", {
      args: [
        "-c",
        'cd "$1"; realpath -ms -- "$2"; realpath -e -- "$(realpath -ms -- "$2")"',
        "sh",
        rig.ws,
        path,
      ],
    }).output();
    const [text = "", real = ""] = new TextDecoder().decode(stdout).split("\n");
    const isInside = [text, real].every((one) => one.startsWith(`${rig.ws}/`)) &&
      (await Deno.stat(real)).isFile;
    assert.equal(outcome.ok, isInside, `${path} is ${real}: ${JSON.stringify(outcome)}`);
    if (isInside) assert.match(JSON.stringify(outcome), new RegExp(`1: ${real}`));
  }, { runs: 150 })
);

/** Registers tests over a tree of folders, files that hold their own paths, and links in and out. */
async function withTree(register: (rig: FilesRig) => void): Promise<void> {
  const held = Promise.withResolvers<void>();
  const ready = Promise.withResolvers<FilesRig>();
  const over = withFiles(async (rig) => {
    for (const folder of [rig.ws, `${rig.ws}/a`, `${rig.ws}/a/b`, `${rig.ws}/b`, rig.outside]) {
      await Deno.mkdir(folder, { recursive: true });
      await Deno.writeTextFile(`${folder}/file`, `${folder}/file`);
      await Deno.symlink(`${rig.ws}/a`, `${folder}/in`);
      await Deno.symlink(rig.outside, `${folder}/out`);
      await Deno.symlink("..", `${folder}/up`);
    }
    ready.resolve(rig);
    await held.promise;
  });
  register(await ready.promise);
  Deno.test("the tree is removed", async () => {
    held.resolve();
    await over;
  });
}

bothWays("many edits of one file at a time are all made", async (rig) => {
  const marks = Array.from({ length: 20 }, (_, at) => `mark-${at};`);
  await rig.ok("write", { path: "file", content: marks.join("\n") });
  await Promise.all(
    marks.map((mark) => rig.ok("edit", { path: "file", oldText: mark, newText: `done ${mark}` })),
  );
  const text = await Deno.readTextFile(`${rig.ws}/file`);
  assert.equal(text, marks.map((mark) => `done ${mark}`).join("\n"));
});

bothWays("whoever reads a file that is written sees the old one or the new one", async (rig) => {
  const [old, next] = ["old ".repeat(50_000), "new!".repeat(50_000)];
  await rig.ok("write", { path: "file", content: old });
  let isOver = false;
  const seen = new Set<string>();
  const reading = eventually(async () => {
    seen.add(await Deno.readTextFile(`${rig.ws}/file`));
    return isOver || null;
  });
  for (let round = 0; round < 10; round++) {
    await rig.ok("write", { path: "file", content: round % 2 === 0 ? next : old });
  }
  isOver = true;
  await reading;
  assert.ok([...seen].every((text) => text === old || text === next));
  assert.deepEqual([...Deno.readDirSync(rig.ws)].map(({ name }) => name), ["file"]);
});

bothWays("an operation that is stopped ends at once and writes nothing", async (rig) => {
  const stop = new AbortController();
  const outcome = rig.call("write", { path: "file", content: "x" }, stop.signal);
  stop.abort(new Error("stopped"));
  const { ok } = await outcome;
  const names = [...Deno.readDirSync(rig.ws)].map(({ name }) => name);
  assert.deepEqual(names.filter((name) => name === "file"), ok ? ["file"] : []);
});
