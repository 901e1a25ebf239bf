import assert from "node:assert/strict";
import type { JsonObject } from "../../../src/core/json.ts";
import { type FilesRig, withFiles } from "./rig.ts";

const CHANGED = /was changed since a person was asked.*nothing was done/;

/** Shows a call, has the workspace changed, and makes the call: it must do nothing. */
async function shownThenChanged(
  { preview, call }: FilesRig,
  name: string,
  input: JsonObject,
  change: () => Promise<unknown>,
): Promise<void> {
  const { state } = await preview(name, input);
  assert.ok(state !== undefined);
  await change();
  const outcome = await call(name, input, undefined, state);
  assert.ok(!outcome.ok, `${name} was done`);
  assert.match(outcome.errorText, CHANGED);
}

async function shownAndDone({ preview, call }: FilesRig, name: string, input: JsonObject) {
  const { state, ...shown } = await preview(name, input);
  const outcome = await call(name, input, undefined, state);
  assert.ok(outcome.ok, outcome.ok ? "" : outcome.errorText);
  return shown.preview;
}

Deno.test("an edit is shown as a diff, and done to what was shown alone", async () => {
  await withFiles(async (rig) => {
    const file = `${rig.ws}/a.txt`;
    await Deno.writeTextFile(file, "one\ntwo\nthree\n");
    const edit = { path: "a.txt", oldText: "two", newText: "2" };
    const shown = await rig.preview("edit", edit);
    assert.deepEqual(shown.preview, {
      kind: "diff",
      path: "a.txt",
      diff: "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three",
    });
    await shownThenChanged(rig, "edit", edit, () => Deno.writeTextFile(file, "two\nthree\n"));
    assert.equal(await Deno.readTextFile(file), "two\nthree\n");
    await shownAndDone(rig, "edit", edit);
    assert.equal(await Deno.readTextFile(file), "2\nthree\n");
    await assert.rejects(rig.preview("edit", edit), /oldText does not occur/);
    await assert.rejects(rig.preview("edit", { ...edit, path: "b.txt" }), /nothing at "b.txt"/);
    await assert.rejects(rig.preview("edit", { ...edit, path: "../ws-evil/canary" }), /outside/);
  });
});

Deno.test("a written file is shown against what it replaces", async () => {
  await withFiles(async (rig) => {
    const file = `${rig.ws}/a.txt`;
    const write = { path: "a.txt", content: "one\n" };
    await shownThenChanged(rig, "write", write, () => Deno.writeTextFile(file, "mine\n"));
    assert.equal(await Deno.readTextFile(file), "mine\n");
    const made = await rig.preview("write", write);
    assert.match(JSON.stringify(made.preview), /-mine\\n\+one/);
    await shownThenChanged(rig, "write", write, () => Deno.remove(file));
    const preview = await shownAndDone(rig, "write", write);
    assert.match(JSON.stringify(preview), /--- \/dev\/null.*\+one/);
    assert.deepEqual(await shownAndDone(rig, "write", write), {
      kind: "text",
      text: "Leaves a.txt as it is",
    });
    // Made sure of after a takeover: it is there already, and what was shown before is gone.
    const again = await rig.call("write", write, undefined, "absent");
    assert.ok(again.ok);
    await assert.rejects(rig.preview("write", { ...write, overwrite: false }), /already/);
    await assert.rejects(rig.preview("write", { ...write, hash: "0000" }), /was changed since/);
    const binary = { path: "b", content: "AAEC", encoding: "base64" };
    const shown = await rig.preview("write", binary);
    assert.match(JSON.stringify(shown.preview), /Writes 3 bytes to b, hash .*, a new file; one/);
    const long = await rig.preview("write", { path: "long", content: "line\n".repeat(20_000) });
    assert.ok(long.preview.kind === "diff" && long.preview.isCut === true);
    assert.ok(long.preview.diff.length < 33_000);
  });
});

Deno.test("what is moved or removed is what was shown", async () => {
  await withFiles(async (rig) => {
    const at = (name: string) => `${rig.ws}/${name}`;
    await Deno.writeTextFile(at("a"), "one");
    const move = { from: "a", to: "b", overwrite: true };
    await shownThenChanged(rig, "move", move, () => Deno.writeTextFile(at("b"), "new here"));
    assert.equal(await Deno.readTextFile(at("b")), "new here");
    const moved = await rig.preview("move", move);
    assert.match(
      JSON.stringify(moved.preview),
      /Moves a \(a file of 3 bytes, hash \w+\) to b, in the place of a file of 8 bytes/,
    );
    await assert.rejects(rig.preview("move", { from: "a", to: "b" }), /already/);
    await shownAndDone(rig, "move", move);
    assert.equal(await Deno.readTextFile(at("b")), "one");

    const remove = { path: "b" };
    await shownThenChanged(rig, "delete", remove, () => Deno.writeTextFile(at("b"), "two"));
    await Deno.mkdir(at("dir/inner"), { recursive: true });
    await Deno.writeTextFile(at("dir/inner/x"), "12345");
    const folder = { path: "dir", recursive: true };
    const shown = await rig.preview("delete", folder);
    assert.deepEqual(shown.preview, {
      kind: "text",
      text: "Removes dir for good: a folder with 1 files of 5 bytes, with all that is in it",
    });
    await shownThenChanged(rig, "delete", folder, () => Deno.writeTextFile(at("dir/y"), ""));
    await shownAndDone(rig, "delete", folder);
    await Deno.symlink("b", at("link"));
    const link = await shownAndDone(rig, "delete", { path: "link" });
    assert.match(JSON.stringify(link), /a link to/);
    assert.equal(await Deno.readTextFile(at("b")), "two");
    await assert.rejects(rig.preview("delete", { path: "link" }), /nothing at/);
  });
});
