import assert from "node:assert/strict";
import { Lifeline } from "../../src/mcp/lifeline.ts";
import { StdioTransport } from "../../src/mcp/stdio_transport.ts";
import { findIsolation, isolateArgv } from "../../src/process/isolate.ts";
import { systemClock } from "../support/system_clock.ts";
import { eventually } from "../support/test_hub.ts";
import { noneWith, processesWith } from "../support/processes.ts";

const graceMs = 200;
const path = Deno.env.get("PATH") ?? "";

/** A server that has said something, and a variable that all it starts have; what is left of it at the end is a failure. */
async function withServer(
  script: string,
  body: (transport: StdioTransport, tag: string) => Promise<void>,
  within: readonly string[] = [],
): Promise<void> {
  const tag = `tag-${crypto.randomUUID()}`;
  const lifeline = new Lifeline({ graceMs, path });
  const transport = new StdioTransport({
    argv: [...within, "sh", "-c", script],
    env: { PATH: path, TAG: tag },
    graceMs,
    clock: systemClock,
    lifeline,
    parse: (text) => JSON.parse(text),
  });
  try {
    const ready = new Promise<void>((resolve) => {
      const onmessage = () => resolve();
      Object.assign(transport, { onmessage });
    });
    await transport.start();
    await ready;
    await body(transport, tag);
  } finally {
    await transport.close();
    await lifeline.close();
  }
  await noneWith(tag);
}

const READY = `echo '{"jsonrpc":"2.0","method":"ready"}'`;
const STUBBORN = `trap '' TERM HUP INT; ${READY}; while :; do sleep 1; done`;
const cases = {
  "a polite server": `${READY}; cat >/dev/null`,
  "a server that waits for SIGTERM": `${READY}; exec sleep 1000`,
  "a server that ignores the end of its input and SIGTERM": STUBBORN,
  "a server whose children ignore SIGTERM":
    `(trap '' TERM; exec sleep 1000) & ${READY}; cat >/dev/null`,
  "a server whose grandchildren ignore SIGTERM":
    `(trap '' TERM; (exec sleep 1000) & exec sleep 1000) & ${READY}; cat >/dev/null`,
  "a server that crashes before its children": `sleep 1000 & ${READY}; exit 1`,
  "a server with children in sessions of their own":
    `setsid sh -c "trap '' TERM HUP; sleep 1000" & ${READY}; cat >/dev/null`,
  "a server that made a daemon of a child":
    `(setsid sh -c "sleep 1000 & sleep 1000" </dev/null >/dev/null 2>&1 &); ${READY}; cat >/dev/null`,
  "a server that left a daemon and crashed": `(setsid sleep 1000 &); ${READY}; exit 1`,
  "a stubborn server with a daemon": `(setsid sleep 1000 &); ${STUBBORN}`,
};
const isolation = await findIsolation({ path, clock: systemClock });
const isolated = isolateArgv({ path, hiddenFile: null });

for (const [name, script] of Object.entries(cases)) {
  Deno.test(`${name} leaves no process behind`, () => withServer(script, async () => {}));
  Deno.test({
    name: `${name} leaves no process behind when it is isolated`,
    ignore: !isolation.works,
    fn: () => withServer(script, async () => {}, isolated),
  });
}

for (const within of [[], isolated]) {
  Deno.test({
    name: `a server ends what it does on SIGTERM${within.length > 0 ? ", isolated" : ""}`,
    ignore: within.length > 0 && !isolation.works,
    async fn() {
      const file = await Deno.makeTempFile();
      const script =
        `trap 'echo ended >${file}; exit 0' TERM; ${READY}; while :; do sleep 0.01; done`;
      await withServer(script, async () => {}, within);
      assert.equal(await Deno.readTextFile(file), "ended\n");
      await Deno.remove(file);
    },
  });
}

Deno.test({
  name: "an isolated program that is not there is told as one that could not be started",
  ignore: !isolation.works,
  async fn() {
    const lifeline = new Lifeline({ graceMs, path });
    const transport = new StdioTransport({
      argv: [...isolated, "loophub-no-such-program"],
      env: { PATH: path },
      graceMs,
      clock: systemClock,
      lifeline,
      parse: (text) => JSON.parse(text),
    });
    await transport.start();
    assert.match(await eventually(() => transport.ending), /^the program could not be started/);
    await transport.close();
    await lifeline.close();
  },
});

Deno.test("a server that reads nothing is ended all the same", async () => {
  await withServer(STUBBORN, async (transport) => {
    const text = "x".repeat(4 * 1024 * 1024);
    const refused = assert.rejects(
      transport.send({ jsonrpc: "2.0", method: "big", params: { text } }),
    );
    await transport.close();
    await refused;
  });
});

Deno.test("who holds the output of a server that has ended does not hold up its end", async () => {
  const seconds = String(100_000 + Math.floor(Math.random() * 800_000));
  await withServer(`${READY}; env -i setsid sleep ${seconds} & exit 3`, async (transport) => {
    await eventually(() => transport.ending);
    await transport.close();
  });
  for (const pid of await processesWith(seconds)) Deno.kill(pid, "SIGKILL");
});

/** A hub in a process of its own that has started a server and, when it is `full`, written to it until nothing more went through. */
async function startHub(script: string, full: boolean, within: readonly string[]) {
  const tag = `tag-${crypto.randomUUID()}`;
  const from = (file: string) => JSON.stringify(new URL(file, import.meta.url).href);
  const code = `
    import { Lifeline } from ${from("../../src/mcp/lifeline.ts")};
    import { StdioTransport } from ${from("../../src/mcp/stdio_transport.ts")};
    import { doneWithin } from ${from("../../src/core/clock.ts")};
    import { systemClock as clock } from ${from("../support/system_clock.ts")};
    const PATH = Deno.env.get("PATH");
    const lifeline = new Lifeline({ graceMs: ${graceMs}, path: PATH });
    const transport = new StdioTransport({
      argv: ${JSON.stringify([...within, "sh", "-c", script])},
      env: { PATH, TAG: ${JSON.stringify(tag)} },
      graceMs: ${graceMs}, parse: JSON.parse, clock, lifeline,
    });
    const ready = new Promise((resolve) => transport.onmessage = resolve);
    await transport.start();
    await ready;
    const send = () => doneWithin(clock, 300, transport.send({ text: "x".repeat(30000) }));
    while (${full} && await send());
    console.log("ready");
    setInterval(() => {}, 1000);
  `;
  const hub = new Deno.Command(Deno.execPath(), {
    args: ["eval", code],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = hub.stdout.getReader();
  await reader.read();
  return {
    tag,
    async kill() {
      hub.kill("SIGKILL");
      await hub.status;
      await reader.cancel();
    },
  };
}

for (
  const [name, script, full] of [
    ["takes its servers along", cases["a server whose children ignore SIGTERM"], false],
    ["takes daemons of its servers along", cases["a stubborn server with a daemon"], false],
    ["takes a server along that reads nothing of much", STUBBORN, true],
    ["takes a server along that sleeps on much", `${READY}; exec sleep 1000`, true],
    ["takes daemons along of one that reads nothing", `(setsid sleep 1000 &); ${STUBBORN}`, true],
  ] as const
) {
  for (const within of [[], isolated]) {
    Deno.test({
      name: `a hub that is killed ${name}${within.length > 0 ? ", isolated" : ""}`,
      ignore: within.length > 0 && !isolation.works,
      async fn() {
        const { tag, kill } = await startHub(script, full, within);
        assert.ok((await processesWith(tag)).length > 0);
        await kill();
        await noneWith(tag);
      },
    });
  }
}

Deno.test("a lifeline that somebody ended is replaced with the next server, and knows of all", async () => {
  const lifeline = new Lifeline({ graceMs, path });
  const lines = () => processesWith("while read -r sign group start");
  const before = new Set(await lines());
  const own = () =>
    eventually(async () => {
      const found = (await lines()).filter((pid) => !before.has(pid));
      return found.length === 1 ? found[0] : null;
    });
  const sleeper = () => new Deno.Command("sleep", { args: ["1000"], detached: true }).spawn();
  const [one, two] = [sleeper(), sleeper()];
  lifeline.hold({ pid: one.pid, start: "1" });
  const first = await own();
  Deno.kill(first, "SIGKILL");
  await eventually(async () => !(await lines()).includes(first) || null);
  lifeline.hold({ pid: two.pid, start: "2" });
  await own();
  await lifeline.close();
  for (const { status } of [one, two]) assert.equal((await status).signal, "SIGTERM");
});
