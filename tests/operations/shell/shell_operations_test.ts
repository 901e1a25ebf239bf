import assert from "node:assert/strict";
import fc from "fast-check";
import { allowedCommands } from "../../../src/operations/shell/allowed_commands.ts";
import { property } from "../../support/property.ts";
import { eachWay, withShell } from "./rig.ts";

eachWay("a program gets its arguments as they are, and its ends are told", async (rig) => {
  const args = ["%s\n", "a b", "$HOME", "`id`", "; id", "*", "--help", "-n", "", "é\n"];
  const outcome = await rig.call("run", { command: "printf", args });
  assert.ok(outcome.ok, JSON.stringify(outcome));
  const [first = "", ...rest] = String(outcome.output).split("\n");
  assert.match(first, /^exit code 0 after \d+ ms$/);
  assert.equal(rest.join("\n"), "--- stdout\na b\n$HOME\n`id`\n; id\n*\n--help\n-n\n\né\n");
  assert.match(
    await rig.ok("echo out; echo err >&2; exit 3"),
    /^exit code 3 after \d+ ms\n--- stdout\nout\n--- stderr\nerr$/,
  );
  assert.match(await rig.ok("true"), /^exit code 0 after \d+ ms\n\(it wrote nothing\)$/);
  assert.match(await rig.ok("kill -9 $$"), /^exit code 137/);
  assert.match(await rig.ok("cat; echo end"), /stdout\nend$/);
});

eachWay("what the shell does itself is no program", async (rig) => {
  for (const command of ["eval", "exit", "set", "export", "trap"]) {
    const outcome = await rig.call("run", { command, args: ["echo evaluated"] });
    const said = JSON.stringify(outcome);
    assert.ok(!said.includes("stdout"), said);
  }
  for (const command of ["-c", "--version", "no-such-program"]) {
    const outcome = await rig.call("run", { command });
    assert.match(JSON.stringify(outcome), /is no command|exit code 12[67]|exit code 1 /);
  }
  const nul = await rig.call("run", { command: "echo", args: ["a\0b"] });
  assert.match(JSON.stringify(nul), /NUL/);
  const long = await rig.call("run", {
    command: "echo",
    args: ["x".repeat(60_000), "x".repeat(60_000)],
  });
  assert.match(JSON.stringify(long), /more than 98304: write a file/);
});

eachWay("a program has its own variables, PATH and HOME", async (rig) => {
  const env = (await rig.ok("env")).split("\n").slice(2).map((line) => line.split("=")[0] ?? "");
  const own = ["A", "HOME", "LOOPHUB_CHILD", "PATH"];
  assert.deepEqual(
    env.filter((name) => !["PWD", "OLDPWD", "SHLVL", "_"].includes(name)).sort(),
    own,
  );
  assert.match(await rig.ok("echo $A $HOME"), /1 \/tmp$/);
}, { env: { PATH: Deno.env.get("PATH") ?? "/usr/bin:/bin", HOME: "/tmp", A: "1" } });

eachWay("a program runs in a folder of the workspace", async (rig) => {
  await Deno.mkdir(`${rig.ws}/sub`);
  await Deno.symlink(rig.outside, `${rig.ws}/out`);
  assert.match(await rig.ok("pwd"), new RegExp(`${rig.ws}$`));
  assert.match(await rig.ok("pwd", { cwd: "sub" }), new RegExp(`${rig.ws}/sub$`));
  assert.match(await rig.fails("pwd", { cwd: "none" }), /"none" is no folder/);
});

eachWay("no folder outside of it is entered", async (rig) => {
  await Deno.symlink(rig.outside, `${rig.ws}/out`);
  await Deno.symlink("/", `${rig.ws}/top`);
  for (const cwd of ["..", "../ws-evil", "out", "top", "top/etc", "/etc", "/proc/self/cwd/.."]) {
    assert.match(await rig.fails("pwd", { cwd }), /outside of the workspace|is no folder/, cwd);
  }
}, { ways: ["boxed", "open"] });

eachWay("what a program writes is told while it runs, and bounded", async (rig) => {
  await rig.ok("for n in 1 2 3; do echo line $n; echo err $n >&2; sleep 0.3; done");
  const told = rig.progressed.map((data) => JSON.stringify(data));
  assert.ok(told.length >= 2, told.join());
  assert.match(told[0] ?? "", /line 1|err 1/);
  assert.match(told.join(), /line 3.*/);
  const long = await rig.ok("seq 1 20000");
  assert.match(long, /--- stdout\n1\n2\n/);
  assert.match(long, /bytes are left out here …\]\n/);
  assert.match(long, /20000$/);
}, { maxOutputBytes: 4096 });

Deno.test("only listed commands run, by the words they begin with", () =>
  withShell("open", async (rig) => {
    const say = async (command: string, ...args: string[]) =>
      JSON.stringify(await rig.call("run", { command, args }));
    assert.match(await say("echo", "anything"), /exit code 0/);
    assert.match(await say("expr", "1", "+", "1"), /exit code 0/);
    for (const [command = "", ...args] of [["expr", "2"], ["expr"], ["sh", "-c", "id"], ["ECHO"]]) {
      assert.match(await say(command, ...args), /may not run here. May run: echo, expr 1/);
    }
    for (const command of ["/bin/echo", "./echo", "../echo", " echo", "echo ", "expr 1"]) {
      assert.match(await say(command), /may not run here/, command);
    }
    await Deno.writeTextFile(`${rig.ws}/echo`, "#!/bin/sh\necho mine", { mode: 0o755 });
    assert.doesNotMatch(await say("echo", "theirs"), /mine/);
  }, { allow: ["echo", "expr 1"], script: false }));

const word = fc.oneof(
  fc.constantFrom("git", "status", "--upload-pack=x", "-c", ";", "$(id)", "--"),
  fc.string({ maxLength: 5 }),
);
property(
  "a list lets pass what begins with an entry, word by word",
  fc.tuple(fc.array(word, { minLength: 1, maxLength: 4 }), fc.array(word, { maxLength: 3 })),
  ([words, more]) => {
    const [command = "", ...args] = words;
    const plain = words.every((one) => /^\S+$/.test(one));
    if (plain) assert.ok(allowedCommands([words.join(" ")])(command, [...args, ...more]));
    const shorter = words.slice(0, -1);
    if (plain && shorter.length > 0) {
      assert.ok(!allowedCommands([words.join(" ")])(command, shorter.slice(1)));
    }
    assert.ok(!allowedCommands([`${words.join("")}x`])(command, args) || command === "");
  },
);
