import assert from "node:assert/strict";
import { noneWith, processesWith } from "../../support/processes.ts";
import { eventually } from "../../support/test_hub.ts";
import { eachWay } from "./rig.ts";

/** What the machine does with crashes; whoever can set it has the machine. */
async function corePattern(): Promise<string> {
  const args = ["/proc/sys/kernel/core_pattern"];
  const { stdout } = await new Deno.Command("cat", { args }).output();
  return new TextDecoder().decode(stdout);
}

const CANARY = "the canary of a stranger";

eachWay(
  "a script in the sandbox reads and changes nothing outside",
  async ({ ws, outside, ok }) => {
    await Deno.mkdir(`${outside}/.ssh`);
    await Deno.writeTextFile(`${outside}/.ssh/id_rsa`, CANARY);
    const pattern = await corePattern();
    const home = Deno.env.get("HOME") ?? "/root";
    const tries = [
      `cat ${outside}/.ssh/id_rsa`,
      `cat ../ws-evil/.ssh/id_rsa`,
      `cat ~/.ssh/*; ls -a ${home}`,
      `ln -s ${outside} out; cat out/.ssh/id_rsa`,
      `ln ${outside}/.ssh/id_rsa hard; cat hard`,
      `cat /proc/*/root${outside}/.ssh/id_rsa`,
      `cat /proc/*/cwd/../ws-evil/.ssh/id_rsa`,
      `find / -name id_rsa -exec cat {} +`,
      `mount --bind ${outside} . ; cat .ssh/id_rsa; umount ${ws}; cat ${outside}/.ssh/id_rsa`,
      `unshare -rm sh -c 'mount --bind / /mnt; cat /mnt${outside}/.ssh/id_rsa'`,
      `chroot /proc/1/root cat ${outside}/.ssh/id_rsa`,
      `cat /etc/shadow /etc/sudoers /root/* /var/log/*`,
      `echo changed > ${outside}/.ssh/id_rsa; echo new > ${outside}/new; rm -rf ${outside}`,
      `echo x > /usr/bin/loophub-escaped; echo x > /etc/loophub-escaped; rm /usr/bin/env`,
      `echo '|/bin/false' > /proc/sys/kernel/core_pattern; echo 1 > /proc/sys/vm/drop_caches`,
      `mv ${outside} moved; mv ../ws-evil moved`,
    ];
    for (const script of tries) {
      const said = await ok(`{ ${script}; } 2>&1; true`);
      assert.ok(!said.includes(CANARY), `${script}: ${said}`);
      assert.doesNotMatch(said, /^root:[^x]/m, script);
    }
    assert.equal(await Deno.readTextFile(`${outside}/.ssh/id_rsa`), CANARY);
    assert.deepEqual([...Deno.readDirSync(outside)].map(({ name }) => name), [".ssh"]);
    assert.equal(await corePattern(), pattern);
    assert.match(await ok("grep CapEff /proc/self/status"), /:\s0{16}$/);
    await Deno.stat("/usr/bin/env");
    await assert.rejects(Deno.stat("/usr/bin/loophub-escaped"));
  },
  { ways: ["boxed"] },
);

eachWay("no variable of the hub or of another process is seen", async ({ mark, ok }) => {
  const other = new Deno.Command("sh", {
    args: ["-c", "read line"],
    env: { SECRET: mark },
    stdin: "piped",
  }).spawn();
  try {
    assert.ok((await processesWith(mark)).length > 0);
    const found = await ok(
      `umount -l /proc 2>/dev/null; unshare -rm umount -l /proc 2>/dev/null
       cat /proc/*/environ /proc/*/task/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' |
       grep -c "mark-[0-9a-f]" ; ls /proc | grep -c '^[0-9]'; tr '\\0' '\\n' </proc/1/environ`,
    );
    const [none, processes, ...variables] = found.split("\n").slice(2);
    // The script's own text has the pattern once, in the arguments of what carries it.
    assert.ok(Number(processes) < 12, found);
    assert.ok(!found.includes(mark));
    assert.ok(Number(none) <= 4, found);
    assert.deepEqual(
      variables.map((line) => line.split("=")[0]).filter((name) => name !== "PWD").sort(),
      ["HOME", "LOOPHUB_CHILD", "PATH"],
    );
  } finally {
    await other.stdin.close();
    await other.status;
  }
}, { ways: ["boxed", "free"] });

eachWay("nothing on the network is reached, not even this machine", async ({ ok }) => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  let reached = false;
  const accepted = listener.accept().then((connection) => {
    reached = true;
    connection.close();
  }, () => {});
  const said = await ok(
    `bash -c 'echo hello >/dev/tcp/127.0.0.1/${port}' 2>&1; curl -sS http://127.0.0.1:${port} 2>&1; cat /proc/net/tcp | wc -l; true`,
  );
  assert.match(said, /\n1$/);
  listener.close();
  await accepted;
  assert.ok(!reached);
}, { ways: ["boxed"] });

eachWay("ten gigabytes of output are not kept, and not waited for", async (rig) => {
  const error = await rig.fails(`: ${rig.mark}; head -c 10737418240 /dev/zero | tr '\\0' x`);
  assert.match(error, /^It wrote without end/);
  assert.ok(error.length < 64 * 1024);
  const both = await rig.fails(`: ${rig.mark}; yes error >&2`);
  assert.match(both, /^It wrote without end[^]*--- stderr\nerror\n/);
  await noneWith(rig.mark);
}, { maxOutputBytes: 4096 });

eachWay("files and memory have limits", async ({ ok, ws }) => {
  const said = await ok(`head -c 100000000 /dev/zero > big; ls -l big | awk '{print $5}'`);
  assert.match(said, /\n1048576(\n|$)/);
  assert.ok((await Deno.stat(`${ws}/big`)).size <= 1024 * 1024);
  assert.match(await ok(`head -c 300m /dev/zero | tail -c 300m | wc -c; true`), /\n0(\n|$)/);
}, { maxFileMb: 1, maxMemoryMb: 100 });

eachWay("nothing but the workspace and a little memory can be written to", async ({ ok }) => {
  const folders = "/ /dev /dev/shm /etc /mnt /proc /run /tmp /usr /var . ${HOME}";
  const said = await ok(
    `for at in ${folders}; do mkdir -p $at/made 2>/dev/null && echo "$at" && rmdir $at/made; done
     for at in /dev/shm /tmp; do echo $(($(stat -f -c '%S * %b' $at) >> 20)); done
     echo x >/dev/null && head -c 1 /dev/zero | wc -c`,
  );
  assert.deepEqual(said.split("\n").slice(2), ["/dev/shm", "/tmp", ".", "/tmp", "256", "256", "1"]);
}, { ways: ["boxed"] });

eachWay("a script that starts processes without end is put out", async (rig) => {
  const outcome = await rig.call("script", {
    script: `: ${rig.mark}; while :; do sleep 600 & setsid sleep 600 & done`,
    timeoutMs: 20_000,
  });
  assert.match(JSON.stringify(outcome), /exit code|It was killed|more than 64 processes/);
  await noneWith(rig.mark);
}, { ways: ["boxed", "free"], maxProcesses: 64 });

/** Processes of all kinds that would outlive what started them. */
const SURVIVORS = (mark: string) =>
  `setsid sh -c "sleep 600; : ${mark}" & (setsid sh -c "trap '' TERM INT HUP; sleep 600; sleep 600; : ${mark}" &)
   nohup sh -c "sleep 600; : ${mark}" >/dev/null 2>&1 & sh -c "sleep 600; : ${mark}" &`;

eachWay("what a script leaves behind ends with it", async (rig) => {
  assert.match(await rig.ok(`${SURVIVORS(rig.mark)} exit 0`), /^exit code 0/);
  assert.deepEqual(await processesWith(rig.mark), []);
});

eachWay("nothing is left of a script whose time is over", async (rig) => {
  const script = `${SURVIVORS(rig.mark)} trap '' TERM; echo begun; wait; sleep 600; sleep 600`;
  assert.match(
    await rig.fails(script, { timeoutMs: 500 }),
    /^It did not end within 500 ms, so all .* was ended after \d+ ms\n--- stdout\nbegun/,
  );
  await noneWith(rig.mark);
});

eachWay("nothing is left of a script that is stopped", async (rig) => {
  const stop = new AbortController();
  const script = `${SURVIVORS(rig.mark)} trap '' TERM; echo begun; wait; sleep 600`;
  const calling = rig.call("script", { script }, stop.signal);
  await eventually(() => rig.progressed.length > 0 || null);
  assert.ok((await processesWith(rig.mark)).length > 0);
  stop.abort(new Error("stopped"));
  const outcome = await calling;
  assert.equal(outcome.status, "aborted");
  await noneWith(rig.mark);
});
