import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { runOf, start } from "../support/approvals_rig.ts";
import { startCommand, startHubProcess } from "../support/hub_process.ts";
import { logOf } from "../support/log_of.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, startTestHub, type TestHub, withHub } from "../support/test_hub.ts";

const calls = (...made: [string, JsonObject][]) =>
  chatStream({ toolCalls: made.map(([name, input]) => ({ name, arguments: input })) });
const propose = (...tools: string[]) =>
  calls(["hub_propose_plan", { steps: tools.map((tool) => ({ tool, purpose: "It is needed" })) }]);
const add = (n: number): [string, JsonObject] => ["hub_calculate", { expression: `${n}+1` }];

/** How the calls of a run ended, in their order. */
async function endsOf(stream: Promise<string>): Promise<string[]> {
  const log = logOf(await stream);
  assert.deepEqual(checkLog(log), []);
  return log.flatMap(({ event }) =>
    event.type === "tool-output-available"
      ? ["ran"]
      : event.type === "tool-output-denied" || event.type === "tool-output-error"
      ? [event.errorText]
      : []
  );
}

async function planOf(hub: TestHub, runId: string) {
  await eventually(async () => (await runOf(hub, runId)).status === "waiting" ? true : null);
  return await (await hub.call(`/v1/runs/${runId}/preflight`)).json();
}

const wants = (why: string) => `Not executed: propose a plan first, with hub.propose_plan: ${why}`;

Deno.test("what makes a run complex: three calls where nothing is said, and calls of the risk that is said", async (t) => {
  const upstream = await startScriptedUpstream();
  const dir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-planned-" });
  const agent = (preflight: JsonObject) => ({
    tools: ["hub.calculate", "file.write"],
    preflight,
    approvals: { rules: [{ tier: "auto" }], tainted: "allow" },
  });
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    workspace: { dir },
    agents: {
      default: agent({}),
      medium: agent({ risk: "medium" }),
      low: agent({ risk: "low", calls: 50 }),
    },
    runs: { approvalTimeoutMs: 600_000 },
  };
  const write = (path: string): [string, JsonObject] => [
    "file_write",
    { path, content: "x", hash: null },
  ];
  try {
    await withHub(config, async (hub) => {
      const run = (agent: string, ...answers: ReturnType<typeof chatStream>[]) => {
        upstream.script([...answers, chatStream({ text: "Done" })]);
        return start(hub, { agent });
      };
      await t.step("the third call wants a plan, the first two none", async () => {
        const { stream } = await run("default", calls(add(1), add(2)), calls(add(3)));
        assert.deepEqual(await endsOf(stream), [
          "ran",
          "ran",
          wants("with these this run makes 3 calls"),
        ]);
        const together = await run("default", calls(add(1), add(2), add(3)));
        const ends = await endsOf(together.stream);
        assert.deepEqual(ends, Array(3).fill(wants("with these this run makes 3 calls")));
      });

      await t.step("a plan of two harmless steps asks nobody, one of three does", async () => {
        const two = await run("default", propose("hub.calculate", "hub.calculate"));
        assert.deepEqual(await endsOf(two.stream), ["ran"]);
        assert.equal((await hub.call(`/v1/runs/${two.runId}/preflight`)).status, 404);
        const three = await run(
          "default",
          propose("hub.calculate", "hub.calculate", "hub.calculate"),
          calls(add(1), add(2), add(3)),
        );
        const plan = await planOf(hub, three.runId);
        assert.deepEqual(plan.warnings, ["The price of the model is not known"]);
        await hub.call(`/v1/runs/${three.runId}/preflight`, { body: { approved: true } });
        assert.deepEqual(await endsOf(three.stream), ["ran", "ran", "ran", "ran"]);
      });

      await t.step("risk: a call of that risk, or of a greater one", async () => {
        const said = wants("file.write has a medium risk");
        const usual = await run("default", calls(write("usual"), add(1)));
        assert.deepEqual(await endsOf(usual.stream), ["ran", "ran"]);
        const medium = await run("medium", calls(write("medium"), add(1)));
        const beside = wants("file.write beside it has a medium risk");
        assert.deepEqual(await endsOf(medium.stream), [said, beside]);
        const low = await run("low", calls(add(1)));
        assert.deepEqual(await endsOf(low.stream), [wants("hub.calculate has a low risk")]);
        const small = await run("medium", propose("file.write"), calls(write("medium")));
        assert.equal((await planOf(hub, small.runId)).state, "pending");
        await hub.call(`/v1/runs/${small.runId}/preflight`, { body: { approved: true } });
        assert.deepEqual(await endsOf(small.stream), ["ran", "ran"]);
        assert.deepEqual([...Deno.readDirSync(dir)].map(({ name }) => name).sort(), [
          "medium",
          "usual",
        ]);
      });
    });
  } finally {
    await upstream.stop();
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a run with a plan before work begins with it though its tools are not there yet", async () => {
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    mcpServers: { late: { command: "false" } },
    agents: {
      default: { tools: ["late__*"], preflight: { when: "always" } },
      talker: { tools: [], preflight: { when: "always" } },
    },
    runs: { approvalTimeoutMs: 600_000 },
  };
  try {
    await withHub(config, async (hub) => {
      upstream.script([propose("late__look"), chatStream({ text: "Done" })]);
      const { runId, stream } = await start(hub, {});
      const plan = await planOf(hub, runId);
      assert.ok(plan.warnings.includes("Step 1: the agent has no tool late__look"));
      await hub.call(`/v1/runs/${runId}/preflight`, { body: { approved: false } });
      assert.match((await endsOf(stream)).join(), /a person denied it/);

      upstream.script([chatStream({ text: "There is nothing to plan" })]);
      const talk = await start(hub, { agent: "talker" });
      assert.deepEqual(await endsOf(talk.stream), []);
      assert.equal(upstream.requests.at(-1)?.json["tools"], undefined);
    });
  } finally {
    await upstream.stop();
  }
});

/** A folder with a configuration, and a database, for processes and hubs beside them. */
async function withPlace(
  agents: JsonObject,
  body: (place: {
    folder: string;
    config: JsonObject;
    databaseUrl: string;
    upstream: Awaited<ReturnType<typeof startScriptedUpstream>>;
    beside(key?: string): ReturnType<typeof startTestHub>;
  }) => Promise<void>,
): Promise<void> {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-preflight-" });
  await Deno.chmod(folder, 0o755);
  const config = {
    providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "one/m",
    agents,
    runs: { leaseMs: 5000, approvalTimeoutMs: 600_000 },
  };
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  const databaseUrl = postgres.url;
  const beside = (key?: string) =>
    startTestHub(config, {
      databaseUrl,
      dataDir: `${folder}/data`,
      ...key === undefined ? {} : { key },
    });
  try {
    await body({ folder, config, databaseUrl, upstream, beside });
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("loophub run --preflight waits for a plan to be agreed to, by whatever hub", async () => {
  const agents = { hasty: { preflight: { timeoutMs: 1000 } } };
  await withPlace(agents, async ({ folder, databaseUrl, upstream, beside }) => {
    const hub = await beside();
    try {
      upstream.script([propose("hub.calculate"), calls(add(1)), chatStream({ text: "It is 2" })]);
      const env = { DATABASE_URL: databaseUrl };
      const running = await startCommand(folder, ["run", "--preflight", "1+1?"], env);
      const runId = await eventually(async () => {
        const { data: sessions } = await (await hub.call("/v1/sessions")).json();
        return sessions[0]?.activeRun?.runId;
      });
      const plan = await planOf(hub, runId);
      assert.deepEqual(plan.steps.map(({ tool }: JsonObject) => tool), ["hub.calculate"]);
      await hub.call(`/v1/runs/${runId}/preflight`, { body: { approved: true } });
      assert.equal(await running.ended(), 0, running.err());
      assert.equal(running.out(), "It is 2\n");
      assert.deepEqual(upstream.requests[0]?.json["tool_choice"], {
        type: "function",
        function: { name: "hub_propose_plan" },
      });

      upstream.script([propose("hub.calculate"), chatStream({ text: "Nobody was there" })]);
      const args = ["run", "--preflight", "--agent", "hasty", "1+1?"];
      const left = await startCommand(folder, args, env);
      assert.equal(await left.ended(), 0, left.err());
      assert.match(upstream.requests.at(-1)?.text ?? "", /nobody approved it in time/);
    } finally {
      await hub.close();
    }
  });
});

Deno.test("a run that waits for a plan since it is complex goes on elsewhere when its hub was killed", async () => {
  const agents = { default: { preflight: {}, approvals: { rules: [{ tier: "auto" }] } } };
  await withPlace(agents, async ({ folder, databaseUrl, upstream, beside }) => {
    upstream.script([
      calls(add(1), add(2), add(3)),
      propose("hub.calculate", "hub.calculate", "hub.calculate"),
      calls(add(1), add(2), add(3)),
      chatStream({ text: "Done" }),
    ]);
    const first = await startHubProcess(folder, { DATABASE_URL: databaseUrl });
    let key: string;
    let runId: string;
    let hash: string;
    try {
      key = await eventually(() => first.key());
      const call = async (path: string, body?: JsonObject) =>
        await fetch(first.url + path, {
          method: body === undefined ? "GET" : "POST",
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          ...body === undefined ? {} : { body: JSON.stringify(body) },
        });
      const { id } = await (await call("/v1/sessions", {})).json();
      const answer = await call(`/v1/sessions/${id}/messages`, { text: "Go" });
      runId = answer.headers.get("x-loophub-run") ?? "";
      hash = await eventually(async () => {
        const plan = await (await call(`/v1/runs/${runId}/preflight`)).json();
        return plan.state === "pending" ? plan.hash : null;
      });
      await answer.body?.cancel();
    } finally {
      await first.end("SIGKILL");
    }
    const second = await beside(key);
    try {
      const plan = await planOf(second, runId);
      assert.deepEqual([plan.state, plan.hash], ["pending", hash]);
      const said = await second.call(`/v1/runs/${runId}/preflight`, {
        body: { approved: true, hash },
      });
      assert.equal(said.status, 200);
      await said.body?.cancel();
      const stream = second.call(`/v1/runs/${runId}/stream`).then((reply) => reply.text());
      assert.deepEqual(await endsOf(stream), [
        ...Array(3).fill(wants("with these this run makes 3 calls")),
        ...Array(4).fill("ran"),
      ]);
      assert.equal(upstream.requests.length, 4);
    } finally {
      await second.close();
    }
  });
});
