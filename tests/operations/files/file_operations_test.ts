import assert from "node:assert/strict";
import { noneWith, processesWith } from "../../support/processes.ts";
import { eventually } from "../../support/test_hub.ts";
import { bubblewrap, type FilesRig, PATH, withFiles } from "./rig.ts";

const PNG = Uint8Array.fromBase64(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
);

/** The same with checks alone, inside of bubblewrap, and without limits. */
function everyWay(name: string, body: (rig: FilesRig) => Promise<void>): void {
  Deno.test(name, () => withFiles(body));
  Deno.test({
    name: `${name}, in bubblewrap`,
    ignore: !bubblewrap.works,
    fn: () => withFiles(body, { boxed: true }),
  });
  Deno.test(`${name}, in full control`, () => withFiles(body, { isLimited: false }));
}

everyWay("a file is written, read in parts, edited, and what was read counts", async (rig) => {
  assert.match(
    await rig.ok("write", { path: "a b/c/-x'$(y).txt", content: "one\ntwo\nthree\n" }),
    /^Wrote 14 bytes to a b\/c\/-x'\$\(y\)\.txt; hash [0-9a-f]{16}$/,
  );
  const path = "./a b//c/../c/-x'$(y).txt";
  const read = await rig.ok("read", { path });
  const [, hash = ""] = /hash ([0-9a-f]{16})/.exec(read) ?? [];
  assert.equal(
    read,
    `1: one\n2: two\n3: three\n(lines 1 to 3 of 3; 14 bytes, hash ${hash}; that is the end)`,
  );
  assert.match(
    await rig.ok("read", { path, offset: 2, limit: 1 }),
    /^2: two\n\(lines 2 to 2 of 3; .*; go on with offset 3\)$/,
  );
  assert.match(
    await rig.ok("edit", { path, oldText: "two\nth", newText: "2\nTh", hash }),
    /^Replaced once in .* \(line 2\); hash/,
  );
  assert.equal(await Deno.readTextFile(`${rig.ws}/${path}`), "one\n2\nThree\n");
  assert.match(
    await rig.fails("edit", { path, oldText: "one", newText: "1", hash }),
    /was changed since it was read: its hash is [0-9a-f]{16}, not .*Read it again/,
  );
  assert.match(
    await rig.fails("write", { path, content: "x", hash }),
    /was changed since it was read/,
  );
  assert.match(await rig.fails("write", { path, content: "x", overwrite: false }), /already/);
  assert.match(await rig.fails("write", { path: "new", content: "x", hash }), /nothing at "new"/);
  assert.match(await rig.ok("read", { path: `${rig.ws}/a b/c/-x'$(y).txt` }), /1: one\n2: 2/);
  assert.deepEqual([...Deno.readDirSync(`${rig.ws}/a b/c`)].map(({ name }) => name), [
    "-x'$(y).txt",
  ]);
});

everyWay("permissions of a file that is written stay", async (rig) => {
  await Deno.writeTextFile(`${rig.ws}/run.sh`, "old", { mode: 0o750 });
  await rig.ok("edit", { path: "run.sh", oldText: "old", newText: "new" });
  assert.equal(((await Deno.stat(`${rig.ws}/run.sh`)).mode ?? 0) & 0o777, 0o750);
});

everyWay("folders are listed, files found by pattern and by what is in them", async (rig) => {
  for (const path of ["src/a.ts", "src/deep/b.ts", "src/deep/c.md", "node_modules/x.ts", "d.ts"]) {
    await rig.ok("write", { path, content: `// ${path}\nexport const Name = "${path}";\nend\n` });
  }
  await Deno.symlink("src", `${rig.ws}/link`);
  assert.equal(
    await rig.ok("list", {}),
    "d.ts (40 bytes)\nlink (link)\nnode_modules/\nsrc/\n(4 of 4 entries of .)",
  );
  assert.match(await rig.ok("list", { path: "src" }), /^a\.ts \(48 bytes\)\ndeep\/\n/);
  assert.equal(
    await rig.ok("glob", { pattern: "*.ts" }),
    "d.ts\nsrc/a.ts\nsrc/deep/b.ts\n(3 of 3 files that fit)",
  );
  assert.equal(
    await rig.ok("glob", { pattern: "src/*.{ts,md}" }),
    "src/a.ts\n(1 of 1 files that fit)",
  );
  assert.match(
    await rig.ok("glob", { pattern: "**/*.ts", path: "node_modules" }),
    /node_modules\/x/,
  );
  assert.equal(
    await rig.ok("grep", { pattern: "const \\w+ = .*b\\.ts" }),
    'src/deep/b.ts:2: export const Name = "src/deep/b.ts";\n(1 lines found in 4 of 4 files)',
  );
  assert.equal(
    await rig.ok("grep", { pattern: "NAME", ignoreCase: true, path: "src/a.ts", context: 1 }),
    'src/a.ts-1- // src/a.ts\nsrc/a.ts:2: export const Name = "src/a.ts";\nsrc/a.ts-3- end\n(1 lines found in 1 of 1 files)',
  );
  assert.equal(
    await rig.ok("grep", { pattern: "end", include: "*.md", filesOnly: true, path: "src" }),
    "src/deep/c.md\n(1 files found in 1 of 1 files)",
  );
  assert.match(await rig.fails("grep", { pattern: "a(?=b)" }), /expression cannot be used/);
});

everyWay("files are moved, described and removed", async (rig) => {
  await rig.ok("write", { path: "a.txt", content: "a" });
  await rig.ok("write", { path: "b.txt", content: "b" });
  await Deno.symlink("a.txt", `${rig.ws}/link`);
  assert.match(await rig.ok("stat", { path: "a.txt" }), /"type":"file","size":1,"mode":"6\d\d"/);
  assert.match(await rig.ok("stat", { path: "link" }), /"type":"link".*"target":"a.txt"/);
  assert.match(await rig.ok("stat", { path: "." }), /"type":"folder"/);
  assert.match(await rig.fails("move", { from: "a.txt", to: "b.txt" }), /something at "b.txt"/);
  await rig.ok("move", { from: "a.txt", to: "b.txt", overwrite: true });
  await rig.ok("move", { from: "b.txt", to: "new/deep/c.txt" });
  assert.equal(await Deno.readTextFile(`${rig.ws}/new/deep/c.txt`), "a");
  assert.match(await rig.fails("read", { path: "link" }), /leads to nothing/);
  assert.match(await rig.fails("delete", { path: "new" }), /not empty: recursive/);
  await rig.ok("delete", { path: "new", recursive: true });
  await rig.ok("delete", { path: "link" });
  assert.match(await rig.fails("delete", { path: "link" }), /nothing at "link"/);
  assert.match(await rig.fails("delete", { path: ".", recursive: true }), /workspace itself/);
  assert.deepEqual([...Deno.readDirSync(rig.ws)], []);
});

everyWay("images are shown, other bytes and large files are named", async (rig) => {
  await Deno.writeFile(`${rig.ws}/dot.png`, PNG);
  const outcome = await rig.call("read", { path: "dot.png" });
  assert.deepEqual(outcome.output, {
    type: "content",
    content: [
      { type: "text", text: `dot.png: image/png, ${PNG.length} bytes` },
      { type: "image", mediaType: "image/png", data: PNG.toBase64() },
    ],
  });
  await rig.ok("write", { path: "copy.png", content: PNG.toBase64(), encoding: "base64" });
  assert.deepEqual(await Deno.readFile(`${rig.ws}/copy.png`), PNG);
  await Deno.writeFile(`${rig.ws}/bytes`, new Uint8Array([1, 0, 2]));
  assert.match(await rig.fails("read", { path: "bytes" }), /neither UTF-8 text nor an image/);
  assert.match(await rig.fails("edit", { path: "bytes", oldText: "a", newText: "b" }), /no UTF-8/);
  using sparse = await Deno.open(`${rig.ws}/sparse`, { create: true, write: true });
  await sparse.truncate(1024 ** 4);
  assert.match(await rig.fails("read", { path: "sparse" }), /more than the 1048576 bytes/);
  assert.match(await rig.fails("grep", { pattern: "x", path: "sparse" }), /more than the 2097152/);
  assert.match(await rig.ok("grep", { pattern: "x" }), /0 lines found in 0 of 3 files/);
  const content = "x".repeat(1024 * 1024 + 1);
  assert.match(await rig.fails("write", { path: "big", content }), /1048577 bytes are more/);
});

Deno.test("an edit that makes a file too large is refused before its text is made", () =>
  withFiles(async (rig) => {
    await Deno.writeTextFile(`${rig.ws}/file`, "a\n".repeat(400_000));
    const fill = { path: "file", oldText: "a", newText: "b".repeat(1_000_000), all: true };
    assert.match(await rig.fails("edit", fill), /at least 400000400000 bytes, and a file may have/);
    const twice = { path: "file", oldText: "a", newText: "b" };
    assert.match(await rig.fails("edit", twice), /400000 times .* in lines 1, 2, .*, 10: take/);
    assert.match(await rig.ok("edit", { ...twice, all: true }), /^Replaced 400000 times .*, 10\)/);
  }));

/** Runs a body with a folder of programs that come before those of the system. */
async function withPrograms(body: (bin: string) => Promise<void>): Promise<void> {
  const bin = await Deno.makeTempDir({ prefix: "loophub-bin-" });
  try {
    await body(bin);
  } finally {
    await Deno.remove(bin, { recursive: true });
  }
}

Deno.test("a write that is stopped or fails leaves nothing behind", () =>
  withPrograms(async (bin) => {
    const namesIn = (dir: string) => [...Deno.readDirSync(dir)].map(({ name }) => name);
    const put = (name: string, text: string) =>
      Deno.writeTextFile(`${bin}/${name}`, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    await withFiles(async (rig) => {
      const stop = new AbortController();
      await put("cat", `echo $$ >${bin}/pid\nexec tail -f /dev/null`);
      const writing = rig.call("write", { path: "deep/a", content: "new" }, stop.signal);
      const pid = await eventually(async () => {
        const text = await Deno.readTextFile(`${bin}/pid`).catch(() => "");
        return text.endsWith("\n") ? Number(text) : null;
      });
      assert.equal(namesIn(`${rig.ws}/deep`).length, 1);
      stop.abort();
      assert.ok(!(await writing).ok);
      await eventually(() => namesIn(`${rig.ws}/deep`).length === 0 || null);
      Deno.kill(pid, "SIGKILL");

      await put("cat", "kill -KILL $PPID");
      await rig.fails("write", { path: "b", content: "new" });
      await put("cat", "exit 1");
      await rig.fails("write", { path: "b", content: "new" });
      assert.deepEqual(namesIn(rig.ws), ["deep"]);
    }, { path: `${bin}:${PATH}` });
  }));

for (const kind of ["file", "link", "folder"]) {
  Deno.test(`a move replaces nothing that comes in the last moment: a ${kind}`, () =>
    withPrograms(async (bin) => {
      await withFiles(async (rig) => {
        const target = `${rig.ws}/there`;
        if (kind === "folder") await Deno.mkdir(`${rig.ws}/here`);
        else if (kind === "link") await Deno.symlink("nothing", `${rig.ws}/here`);
        else await Deno.writeTextFile(`${rig.ws}/here`, "mine");
        for (const name of ["mv", "ln"]) {
          const text = `#!/bin/sh\nprintf theirs >${target}\nPATH=${PATH}\nexec ${name} "$@"\n`;
          await Deno.writeTextFile(`${bin}/${name}`, text, { mode: 0o755 });
        }
        const said = await rig.fails("move", { from: "here", to: "there" });
        assert.match(said, /something at "there" already/);
        assert.equal(await Deno.readTextFile(target), "theirs");
        assert.ok(await Deno.lstat(`${rig.ws}/here`));
      }, { path: `${bin}:${PATH}` });
    }));
}

everyWay("files, links and folders are moved as they are", async (rig) => {
  await rig.ok("write", { path: "file", content: "one" });
  await Deno.symlink("file", `${rig.ws}/link`);
  await Deno.mkdir(`${rig.ws}/folder`);
  for (const name of ["file", "link", "folder"]) {
    await rig.ok("move", { from: name, to: `new/${name}` });
  }
  assert.equal(await Deno.readTextFile(`${rig.ws}/new/file`), "one");
  assert.equal(await Deno.readLink(`${rig.ws}/new/link`), "file");
  assert.deepEqual([...Deno.readDirSync(rig.ws)].map(({ name }) => name), ["new"]);
  assert.match(await rig.fails("move", { from: "new", to: "new/in" }), /refused|exists|something/);
});

Deno.test("a removal that is stopped goes on no more", async () => {
  const bin = await Deno.makeTempDir({ prefix: "loophub-bin-" });
  try {
    const mark = `mark-${crypto.randomUUID()}`;
    await new Deno.Command("mkfifo", { args: [`${bin}/never`] }).output();
    await Deno.writeTextFile(`${bin}/rm`, `#!/bin/sh\nread line <${bin}/never\n`, { mode: 0o755 });
    await withFiles(async (rig) => {
      await Deno.mkdir(`${rig.ws}/${mark}`);
      const stop = new AbortController();
      const input = { path: mark, recursive: true };
      const removing = rig.call("delete", input, stop.signal);
      await eventually(async () => (await processesWith(`rm -rf -- ./${mark}`)).length > 0 || null);
      stop.abort();
      assert.ok(!(await removing).ok);
      await noneWith(mark);
    }, { path: `${bin}:${PATH}` });
  } finally {
    await Deno.remove(bin, { recursive: true });
  }
});
