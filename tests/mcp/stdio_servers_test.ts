import assert from "node:assert/strict";
import { callTool } from "../../src/operations/call.ts";
import { eventually } from "../support/test_hub.ts";
import { scripted, withServers } from "./rig.ts";

const GOOD = { name: "good", inputSchema: { type: "object" } };
const text = (text: string) => ({ content: [{ type: "text", text }] });

Deno.test("a server that runs here is connected to, listed and called", async () => {
  const plan = { tools: [GOOD], instructions: "Call good.\u202e" };
  await withServers({ One: scripted(plan) }, async ({ mcp, call, facts, connection }) => {
    assert.equal(connection("One").state.kind, "idle");
    await mcp.settled(30_000);
    assert.deepEqual(connection("One").state, { kind: "ready" });
    assert.deepEqual(mcp.tools.map(({ name }) => name), ["one__good"]);
    assert.deepEqual(await call("one__good"), text("good ok"));
    const said = { source: "one", text: "Call good.", saidBy: "the MCP server one" };
    assert.deepEqual(mcp.instructionsFor(mcp.tools), [said]);
    assert.deepEqual(mcp.instructionsFor([]), []);
    assert.equal(facts.length, 1);
    const { server, tool, outcome, handed, bytesIn } = facts[0] ?? assert.fail("no fact");
    assert.deepEqual([server, tool, outcome, handed, bytesIn], [
      "One",
      "good",
      "succeeded",
      false,
      2,
    ]);
  });
});

Deno.test("all pages are read, and junk and noise cost nothing", async () => {
  const page = (name: string) => [{ ...GOOD, name }];
  const plan = { pages: [page("a"), page("b"), page("c")], modes: ["junk", "noisy"] };
  await withServers({ one: scripted(plan) }, async ({ mcp, call, connection }) => {
    await mcp.settled(30_000);
    assert.deepEqual(mcp.tools.map(({ name }) => name), ["one__a", "one__b", "one__c"]);
    assert.deepEqual(await call("one__c"), text("c ok"));
    assert.ok(connection("one").stderr.length <= 4096);
  });
});

Deno.test("a server gets its own variables, PATH, HOME and a mark, and nothing of the hub's", async () => {
  const env = { A: "${SECRET}", EMPTY: "${UNSET:-}", B: "plain" };
  await withServers({ one: scripted({ tools: [GOOD] }, { env }) }, async (rig) => {
    await rig.mcp.settled(30_000);
    const { content: [piece] } = await rig.call("one__good", { env: true });
    const seen = JSON.parse(piece?.type === "text" ? piece.text : "{}");
    // The secret arrived, and is redacted in the result.
    assert.deepEqual([seen.A, seen.B, seen.EMPTY], ["[redacted]", "plain", undefined]);
    const own = Object.keys(seen).filter((name) => !["PWD", "SHLVL", "_", "OLDPWD"].includes(name));
    assert.deepEqual(own.sort(), ["A", "B", "HOME", "LOOPHUB_CHILD", "PATH"]);
    assert.ok(rig.secrets.includes("s3cret-value"));
  }, { env: { SECRET: "s3cret-value", LOOPHUB_MASTER_KEY: "never" } });
});

Deno.test("what is wrong with a server is its state, and the others do not notice", async () => {
  const settings = {
    good: scripted({ tools: [GOOD] }),
    unset: scripted({}, { env: { TOKEN: "${NOT_THERE}" } }),
    missing: { command: "no-such-program-here" },
    dying: scripted({ modes: ["dies-at-once"] }),
    mute: scripted({ modes: ["mute"] }, { connectTimeoutMs: 1500 }),
    off: { command: "nothing", enabled: false },
  };
  await withServers(settings, async ({ mcp, call, connection }) => {
    await mcp.settled(30_000);
    const state = (name: string) => {
      const found = connection(name).state;
      return "reason" in found ? `${found.kind}: ${found.reason}` : found.kind;
    };
    const becomes = (name: string, wanted: RegExp) =>
      eventually(() => wanted.test(state(name)) || null);
    assert.equal(state("good"), "ready");
    assert.equal(state("unset"), "failed: the variable NOT_THERE is not set");
    await becomes("missing", /^backoff: the program could not be started: .*not found/);
    await becomes("dying", /^backoff: the program ended with code 3: no licence found$/);
    await becomes("mute", /^backoff: it did not answer within 1500 ms$/);
    assert.equal(state("off"), "disabled");
    assert.deepEqual(await call("good__good"), text("good ok"));
  });
});

Deno.test("a server that dies in a call is started again, and the call is not made twice", async () => {
  await withServers({ one: scripted({ tools: [GOOD] }) }, async ({ mcp, call, connection }) => {
    await mcp.settled(30_000);
    await assert.rejects(
      call("one__good", { die: true }),
      /ended during the call \(the program ended with code 1.*do not assume that the tool did/,
    );
    assert.equal(connection("one").state.kind, "backoff");
    assert.deepEqual(await call("one__good"), text("good ok"));
    assert.equal(connection("one").state.kind, "ready");
  });
});

Deno.test("a line that is too long ends the server, not the hub", async () => {
  await withServers({ one: scripted({ tools: [GOOD] }) }, async ({ mcp, call }) => {
    await mcp.settled(30_000);
    await assert.rejects(
      call("one__good", { huge: 40 * 1024 * 1024 }),
      /ended during the call \(the server sent a line of more than 16777216 bytes\)/,
    );
    assert.deepEqual(await call("one__good"), text("good ok"));
  });
});

Deno.test("progress gives a call more time, but never more than its total", async () => {
  const one = scripted({ tools: [GOOD] }, { timeoutMs: 1000, totalTimeoutMs: 60_000 });
  const two = scripted({ tools: [GOOD] }, { timeoutMs: 1000, totalTimeoutMs: 1500 });
  await withServers({ one, two }, async ({ mcp, context, progressed, facts }) => {
    await mcp.settled(60_000);
    const [patient, short] = mcp.tools;
    assert.ok(patient !== undefined && short !== undefined);
    const long = await callTool(patient, { every: 50, until: 30 }, { context });
    assert.ok(long.ok && long.durationMs > 1000, JSON.stringify(long));
    assert.deepEqual(progressed.at(-1), { progress: 30 });
    const told = progressed.length;
    const endless = await callTool(short, { every: 50 }, { context });
    assert.ok(!endless.ok);
    assert.deepEqual([endless.status, endless.inDoubt], ["timed-out", true]);
    assert.match(endless.errorText, /did not end within 1500 ms; do not assume/);
    assert.ok(progressed.length > told);
    assert.deepEqual(facts.map(({ outcome }) => outcome), ["succeeded", "unknown"]);
  });
});

Deno.test("progress is told; a call that is not wanted any more, or says nothing, is cancelled at the server", async () => {
  const one = scripted({ tools: [GOOD] }, { timeoutMs: 500 });
  await withServers({ one }, async ({ mcp, call, progressed, connection }) => {
    await mcp.settled(30_000);
    assert.deepEqual(await call("one__good", { progress: 3 }), text("good ok"));
    assert.deepEqual(progressed.at(-1), { progress: 3, total: 3 });
    await assert.rejects(call("one__good", { silent: true }), /said nothing for 500 ms/);
    const stop = new AbortController();
    const before = progressed.length;
    const stopped = call("one__good", { progress: 1, silent: true }, stop.signal);
    await eventually(() => progressed.length > before || null);
    stop.abort(new Error("a secret reason"));
    await assert.rejects(stopped, /a secret reason/);
    const said = await eventually(() => {
      const { stderr } = connection("one");
      return stderr.split("cancelled").length > 2 ? stderr : null;
    });
    assert.match(said, /cancelled: The result is not wanted any more/);
    assert.doesNotMatch(said, /secret/);
  });
});

Deno.test("a storm of changes is a few lists", async () => {
  await withServers({ one: scripted({ tools: [GOOD] }) }, async ({ mcp, call }) => {
    await mcp.settled(30_000);
    await call("one__good", { storm: 1000 });
    const lists = await eventually(async () => {
      const { content: [piece] } = await call("one__good", { lists: true });
      return piece?.type === "text" && Number(piece.text) > 1 ? Number(piece.text) : null;
    });
    assert.ok(lists <= 4, `${lists} lists`);
  });
});

Deno.test("a list that cannot be read again leaves the one of before, until one comes", async () => {
  const toolsFile = await Deno.makeTempFile({ dir: "/tmp", prefix: "loophub-mcp-" });
  const write = async (tools: unknown) =>
    await Deno.writeTextFile(toolsFile, JSON.stringify(tools));
  const notify = [{ method: "notifications/tools/list_changed" }];
  await write([GOOD]);
  try {
    await withServers({ one: scripted({ toolsFile }, { trust: true }) }, async (rig) => {
      const { mcp, call, logged, connection } = rig;
      const names = () => mcp.tools.map(({ name }) => name);
      await mcp.settled(30_000);
      await write({ code: -32603, message: "The shelf is empty" });
      await call("one__good", { notify });
      await eventually(() => logged.some((line) => /could not be read/.test(line)) || null);
      assert.deepEqual(names(), ["one__good"]);
      assert.deepEqual(connection("one").state, { kind: "ready" });
      await write([GOOD, { ...GOOD, name: "more" }]);
      await call("one__good", { notify });
      await eventually(() => names().length === 2 || null);
    });
  } finally {
    await Deno.remove(toolsFile);
  }
});

Deno.test("of two tools with one name the later server's is left out, whichever is there first, and both are named", async () => {
  const says = (server: string) => ({ good: text(`of ${server}`), own: text(server) });
  const tools = (own: string) => [GOOD, { ...GOOD, name: own }];
  const settings = {
    first: scripted({ tools: tools("a"), results: says("first") }, { prefix: false }),
    second: scripted({ tools: tools("b"), results: says("second") }, { prefix: false }),
    third: scripted({ tools: [GOOD], results: says("third") }),
  };
  for (const order of [["first", "second", "third"], ["third", "second", "first"]]) {
    await withServers(settings, async ({ mcp, call, connection, logged }) => {
      for (const name of order) await connection(name).connect();
      assert.deepEqual(mcp.tools.map(({ name }) => name), ["a", "b", "good", "third__good"]);
      assert.deepEqual(await call("good"), text("of first"));
      assert.deepEqual(await call("third__good"), text("of third"));
      assert.ok(logged.some((line) => /^error Two tools of MCP servers have one name/.test(line)));
    });
  }
});
