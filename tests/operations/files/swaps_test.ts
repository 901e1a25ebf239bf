import assert from "node:assert/strict";
import type { JsonObject } from "../../../src/core/json.ts";
import { bubblewrap, CANARY, type FilesRig, makeSpecial, withFiles } from "./rig.ts";

/** Nothing that is said may hold this name either. */
const STRANGE = "only-the-stranger-has-this";
/** Times that each operation runs while the swapper works; by seconds instead with LOOPHUB_SWAP_SECONDS. */
const ROUNDS = 12;
const SECONDS = Number(Deno.env.get("LOOPHUB_SWAP_SECONDS") ?? "0");

/** Runs a body while a process exchanges two paths thousands of times a second; gives how often it did. */
async function whileSwapping(
  [slot, spare]: [string, string],
  body: () => Promise<void>,
): Promise<number> {
  const swapper = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-config",
      "--allow-read",
      "--allow-write",
      new URL("swapper.ts", import.meta.url).pathname,
      slot,
      spare,
    ],
    env: { NO_COLOR: "1" },
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const output = swapper.output();
  try {
    await body();
  } finally {
    await swapper.stdin.close();
  }
  const { stdout, success } = await output;
  assert.ok(success);
  return Number(new TextDecoder().decode(stdout));
}

/** Runs all calls again and again; gives how often each worked. None may tell of what is outside. */
async function callAll(rig: FilesRig, calls: [string, JsonObject][]): Promise<Map<string, number>> {
  const worked = new Map<string, number>();
  const untilMs = performance.now() + SECONDS * 1000;
  for (let round = 0; SECONDS > 0 ? performance.now() < untilMs : round < ROUNDS; round++) {
    const outcomes = await Promise.all(calls.map(([name, input]) => rig.call(name, input)));
    for (const [at, outcome] of outcomes.entries()) {
      const [name = ""] = calls[at] ?? [];
      const said = JSON.stringify(outcome);
      assert.ok(!said.includes(CANARY), `${name} read what is outside: ${said}`);
      assert.ok(!said.includes(STRANGE), `${name} listed what is outside: ${said}`);
      assert.ok(!said.includes(`"size":${CANARY.length},`), `${name} looked outside: ${said}`);
      if (outcome.ok) worked.set(name, (worked.get(name) ?? 0) + 1);
    }
  }
  return worked;
}

async function assertUntouched({ outside }: FilesRig): Promise<void> {
  const names = [...Deno.readDirSync(outside)].map(({ name }) => name).sort();
  assert.deepEqual(names, ["canary", STRANGE]);
  assert.equal(await Deno.readTextFile(`${outside}/canary`), CANARY);
  assert.equal(await Deno.readTextFile(`${outside}/${STRANGE}`), CANARY);
}

async function prepare({ ws, outside }: FilesRig): Promise<void> {
  await Deno.writeTextFile(`${outside}/${STRANGE}`, CANARY);
  await Deno.mkdir(`${ws}/folder`);
  await Deno.symlink(outside, `${ws}/way-out`);
  await Deno.writeTextFile(`${ws}/folder/canary`, "inside");
  await Deno.writeTextFile(`${ws}/file`, "inside");
  await Deno.symlink(`${outside}/canary`, `${ws}/file-out`);
  await Deno.mkdir(`${ws}/many`);
  for (let at = 0; at < 8; at++) await Deno.writeTextFile(`${ws}/many/${at}`, "inside");
}

function race(name: string, body: (rig: FilesRig) => Promise<void>): void {
  const whole = async (rig: FilesRig) => {
    await prepare(rig);
    await body(rig);
    await assertUntouched(rig);
  };
  Deno.test(name, () => withFiles(whole));
  Deno.test({
    name: `${name}, in bubblewrap`,
    ignore: !bubblewrap.works,
    fn: () => withFiles(whole, { boxed: true }),
  });
}

race("a folder that becomes a link out and a folder again leads nowhere", async (rig) => {
  const swaps = await whileSwapping([`${rig.ws}/folder`, `${rig.ws}/way-out`], async () => {
    const worked = await callAll(rig, [
      ["read", { path: "folder/canary" }],
      ["write", { path: "folder/canary", content: "changed" }],
      ["write", { path: "folder/new/deep", content: "changed" }],
      ["edit", { path: "folder/canary", oldText: "a", newText: "a!" }],
      ["list", { path: "folder" }],
      ["glob", { pattern: "**" }],
      ["grep", { pattern: ".", path: "." }],
      ["stat", { path: "folder/canary" }],
      ["move", { from: "folder/canary", to: "folder/moved", overwrite: true }],
      ["move", { from: "many/0", to: "folder/canary", overwrite: true }],
      ["delete", { path: "folder/canary" }],
    ]);
    assert.ok((worked.get("glob") ?? 0) > 0);
  });
  assert.ok(swaps > 1000, `${swaps} swaps`);
});

race("a file that becomes a link out and a file again is not followed", async (rig) => {
  const swaps = await whileSwapping([`${rig.ws}/file`, `${rig.ws}/file-out`], async () => {
    const worked = await callAll(rig, [
      ["read", { path: "file" }],
      ["read", { path: "file-out" }],
      ["edit", { path: "file", oldText: "inside", newText: "inside" + "!" }],
      ["grep", { pattern: ".", path: "file" }],
      ["grep", { pattern: "." }],
      ["list", {}],
    ]);
    assert.ok((worked.get("list") ?? 0) > 0);
  });
  assert.ok(swaps > 1000, `${swaps} swaps`);
});

/** What a script may take here; an operation of several scripts on a busy machine takes longer. */
const SHORT_MS = 2000;
const MOST_MS = 30_000;

for (const kind of ["pipe", "socket"] as const) {
  Deno.test(`a file that becomes a ${kind} and a file again: nothing that reads it hangs`, async () => {
    await withFiles(async (rig) => {
      await prepare(rig);
      await makeSpecial(kind, `${rig.ws}/special`);
      const swaps = await whileSwapping([`${rig.ws}/file`, `${rig.ws}/special`], async () => {
        const beganMs = performance.now();
        const worked = await callAll(rig, [
          ["read", { path: "file" }],
          ["read", { path: "special" }],
          ["grep", { pattern: "." }],
          ["grep", { pattern: ".", path: "file" }],
          ["glob", { pattern: "**" }],
          ["list", {}],
          ["stat", { path: "file" }],
        ]);
        const tookMs = performance.now() - beganMs;
        assert.ok((worked.get("list") ?? 0) > 0 && (worked.get("read") ?? 0) > 0);
        assert.ok(SECONDS > 0 || tookMs < ROUNDS * MOST_MS, `${tookMs} ms`);
      });
      assert.ok(swaps > 100, `${swaps} swaps`);
      await assertUntouched(rig);
    }, { timeoutMs: SHORT_MS });
  });
}
