import assert from "node:assert/strict";
import type { HubEvent } from "../../src/core/event.ts";
import type { JsonObject } from "../../src/core/json.ts";
import {
  answer,
  checkStreams,
  countOf,
  PAY,
  runOf,
  start,
  startTill,
  untilWaiting,
} from "../support/approvals_rig.ts";
import {
  chatStream,
  type RecordedRequest,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub, withReplicas } from "../support/test_hub.ts";

const usage = { promptTokens: 100, completionTokens: 20 };
const step = (tool: string, purpose = "It is needed") => ({ tool, purpose });
const propose = (...steps: JsonObject[]) =>
  chatStream({ toolCalls: [{ name: "hub_propose_plan", arguments: { steps } }], usage });
const calls = (...names: string[]) =>
  chatStream({
    toolCalls: names.map((name) => ({ name, arguments: argumentsOf(name) })),
    usage,
  });
let till = { url: "" };
const argumentsOf = (name: string): JsonObject =>
  name === "test_pay"
    ? { url: till.url, amount: 7 }
    : name === "hub_calculate"
    ? { expression: "1+1" }
    : {};

/** What the model read as the results of its last step. */
const resultsOf = ({ messages }: RecordedRequest): string[] =>
  messages.filter(({ role }) => role === "tool").map(({ content }) => String(content));

async function untilPlanned(hub: TestHub, runId: string) {
  await eventually(async () => (await runOf(hub, runId)).status === "waiting" ? true : null);
  const reply = await hub.call(`/v1/runs/${runId}/preflight`);
  assert.equal(reply.status, 200);
  return await reply.json();
}

async function decide(hub: TestHub, runId: string, body: JsonObject) {
  const reply = await hub.call(`/v1/runs/${runId}/preflight`, { body });
  return { status: reply.status, ...await reply.json() };
}

const deniedIn = (events: readonly HubEvent[]) =>
  events.flatMap((event) => event.type === "tool-output-denied" ? [event.errorText] : []);

Deno.test("a plan waits for a person, who agrees to it, changes it or rejects it, on any replica", async (t) => {
  const upstream = await startScriptedUpstream();
  const server = startTill();
  till = server;
  const { paid } = server;
  const pricing = { inputPerMillion: 1, outputPerMillion: 2 };
  const config = {
    providers: { one: { baseUrl: upstream.url, models: { m: { pricing } } } },
    defaultModel: "one/m",
    operations: { modules: [PAY] },
    agents: {
      default: { approvals: { rules: [{ tools: ["test.pay"], tier: "auto" }] } },
      careful: {
        preflight: { calls: 2 },
        approvals: { rules: [{ tools: ["test.pay"], tier: "auto" }] },
      },
      hasty: { preflight: { when: "always", timeoutMs: 1000 } },
    },
    runs: { leaseMs: 15_000, approvalTimeoutMs: 600_000 },
  };
  const script = (...replies: ReturnType<typeof chatStream>[]) => {
    const requests: RecordedRequest[] = [];
    upstream.script((request) => {
      requests.push(request);
      return replies[requests.length - 1] ?? chatStream({ text: "Done", usage });
    });
    return requests;
  };
  try {
    await withReplicas([config, config], async (first, second) => {
      await t.step("asked for by the caller; what it shows; a step is skipped", async () => {
        const requests = script(
          propose(step("hub_calculate"), step("test_pay", "Pay the bill"), step("no_such")),
          calls("hub_calculate", "test_pay"),
        );
        const { runId, stream } = await start(first, { preflight: true });
        const plan = await untilPlanned(second, runId);
        assert.deepEqual(requests[0]?.json.tool_choice, {
          type: "function",
          function: { name: "hub_propose_plan" },
        });
        assert.equal(plan.state, "pending");
        assert.deepEqual(plan.steps, [
          { tool: "hub.calculate", purpose: "It is needed", risk: "low", asks: false },
          { tool: "test.pay", purpose: "Pay the bill", risk: "high", asks: false },
          { tool: "no_such", purpose: "It is needed", risk: null, asks: false },
        ]);
        assert.deepEqual(plan.permissions, [
          { tool: "hub.calculate", effect: "pure" },
          { tool: "test.pay", effect: "effect" },
        ]);
        assert.deepEqual(plan.warnings, [
          "Step 2: test.pay has a high risk",
          "Step 3: the agent has no tool no_such",
        ]);
        // Four calls, each with 120 tokens so far, and 1200 more behind each of the three results.
        assert.deepEqual(plan.estimate, {
          modelCalls: 4,
          tokens: 4 * 120 + 6 * 1200 + 4 * 200,
          costMicros: 4 * 120 + 6 * 1200 + 4 * 200 * 2,
        });
        for (const hub of [first, second]) assert.equal(hub.hub.start.live.size, 0);

        assert.equal((await decide(second, runId, { approved: true, skip: [4] })).status, 400);
        assert.equal((await decide(second, runId, { approved: false, skip: [2] })).status, 400);
        const other = await decide(second, runId, { approved: true, hash: "other" });
        assert.deepEqual([other.status, other.error.code], [409, "approval_changed"]);
        const said = await decide(second, runId, {
          approved: true,
          skip: [2],
          reason: "It is paid",
          hash: plan.hash,
        });
        assert.deepEqual([said.status, said.state], [200, "approved"]);
        const events = await checkStreams(stream, [first, second], runId);
        const late = await decide(first, runId, { approved: true });
        assert.deepEqual([late.status, late.error.code], [409, "approval_approved"]);

        assert.deepEqual(deniedIn(events), [
          "Not executed: a person has skipped this step of the plan",
        ]);
        assert.deepEqual(paid, []);
        const shown = events.findIndex((event) =>
          event.type === "data" && event.name === "preflight"
        );
        assert.equal(events[shown + 1]?.type, "tool-approval-request");
        const [read] = resultsOf(requests[1] as RecordedRequest);
        const result = JSON.parse(read ?? "");
        assert.deepEqual([result.outcome, result.said], ["changed", "It is paid"]);
        assert.deepEqual(
          result.steps.map((one: JsonObject) => one["decision"]),
          ["do", "skip: do not do it", "do"],
        );
        assert.equal((await second.call(`/v1/runs/${runId}/preflight`)).status, 200);
      });

      await t.step("too many calls want a plan; with it they run, and others do not", async () => {
        const requests = script(
          calls("hub_calculate", "test_pay"),
          propose(step("test.pay"), step("hub_calculate")),
          calls("hub_calculate", "test_pay"),
          calls("test_note"),
        );
        const { runId, stream } = await start(first, { agent: "careful" });
        await untilPlanned(first, runId);
        assert.equal(requests[0]?.json.tool_choice, undefined);
        assert.deepEqual(paid, []);
        await decide(second, runId, { approved: true });
        const events = await checkStreams(stream, [first, second], runId);
        assert.deepEqual(deniedIn(events), [
          "Not executed: propose a plan first, with hub.propose_plan: with these this run makes 2 calls",
          "Not executed: propose a plan first, with hub.propose_plan: test.pay has a high risk",
        ]);
        assert.deepEqual(paid, ["7"]);
        assert.match(resultsOf(requests[2] as RecordedRequest).at(-1) ?? "", /"approved"/);
      });

      await t.step("one harmless call wants none, and a small plan asks nobody", async () => {
        const requests = script(calls("hub_calculate"), propose(step("hub_calculate")));
        const { runId, stream } = await start(first, { agent: "careful" });
        const events = await checkStreams(stream, [first, second], runId);
        assert.equal(countOf(events, "tool-approval-request"), 0);
        assert.match(resultsOf(requests[2] as RecordedRequest).at(-1) ?? "", /"not-asked"/);
        assert.equal((await first.call(`/v1/runs/${runId}/preflight`)).status, 404);
      });

      await t.step("rejected: the model reads why, and nothing of it runs", async () => {
        const requests = script(propose(step("test_pay")), calls("test_pay"));
        const before = paid.length;
        const { runId, stream } = await start(first, { agent: "careful" });
        await untilPlanned(first, runId);
        await decide(second, runId, { approved: false, reason: "not today" });
        const events = await checkStreams(stream, [first, second], runId);
        assert.equal(deniedIn(events)[0], "Not executed: a person denied it: not today");
        assert.match(deniedIn(events)[1] ?? "", /propose a plan first/);
        assert.equal(paid.length, before);
        assert.equal(requests.length, 3);
      });

      await t.step("changed: what a person has put in may run", async () => {
        script(propose(step("hub_calculate"), step("hub_current_time")), calls("test_pay"));
        const before = paid.length;
        const { runId, stream } = await start(first, { agent: "careful" });
        await untilPlanned(first, runId);
        const steps = [step("test_pay", "Pay it at once")];
        const said = await decide(second, runId, { approved: true, steps });
        assert.deepEqual(said.agreed, [{ ...steps[0], isSkipped: false }]);
        const events = await checkStreams(stream, [first, second], runId);
        assert.deepEqual(deniedIn(events), []);
        assert.equal(paid.length, before + 1);
      });

      await t.step("nobody answers: it expires, by the agent's own time", async () => {
        script(propose(step("test_pay")));
        const { runId, stream } = await start(first, { agent: "hasty", preflight: "complex" });
        const events = await checkStreams(stream, [first, second], runId);
        assert.deepEqual(deniedIn(events), [
          "Not executed: nobody approved it in time. Where people need longer, set runs.approvalTimeoutMs or the agent's preflight.timeoutMs; where nobody is there, run without preflight",
        ]);
        const late = await decide(first, runId, { approved: true });
        assert.deepEqual([late.status, late.error.code], [409, "approval_expired"]);
      });

      await t.step("a stop ends it", async () => {
        script(propose(step("test_pay")));
        const { runId, stream } = await start(first, { preflight: true });
        await untilPlanned(first, runId);
        await second.call(`/v1/runs/${runId}/stop`, { method: "POST" });
        const events = await checkStreams(stream, [first, second], runId);
        assert.equal(events.at(-2)?.type, "abort");
        assert.equal((await decide(first, runId, { approved: true })).status, 409);
      });
    });
  } finally {
    await upstream.stop();
    await server.stop();
  }
});

Deno.test("a hub that starts again knows what the caller wanted, and the plan that it had asked about", async () => {
  const upstream = await startScriptedUpstream();
  const server = startTill();
  till = server;
  let asked = 0;
  upstream.script(() =>
    ++asked === 1
      ? propose(step("hub_calculate"))
      : asked === 2
      ? calls("test_pay")
      : chatStream({ text: "Done" })
  );
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    operations: { modules: [PAY] },
    agents: { default: { approvals: { rules: [{ tier: "auto" }] } } },
    runs: { approvalTimeoutMs: 600_000 },
  };
  try {
    await withHub(config, async (hub) => {
      const { runId, stream } = await start(hub, { preflight: true });
      const cut = stream.catch(() => "");
      await untilPlanned(hub, runId);
      const after = await hub.restart();
      await cut;
      assert.equal((await decide(after, runId, { approved: true })).status, 200);
      const replay = after.call(`/v1/runs/${runId}/stream`).then((reply) => reply.text());
      const events = await checkStreams(replay, [after], runId);
      assert.match(deniedIn(events)[0] ?? "", /test\.pay is not in the plan/);
      assert.deepEqual(server.paid, []);
    });
  } finally {
    await upstream.stop();
    await server.stop();
  }
});

Deno.test("a plan says which steps a person will be asked about, by what was read of others until then", async () => {
  const upstream = await startScriptedUpstream();
  const server = startTill();
  till = server;
  const dir = await Deno.realPath(await Deno.makeTempDir({ prefix: "loophub-plan-" }));
  await Deno.writeTextFile(`${dir}/a.txt`, "words of somebody\n");
  const agent = {
    tools: ["test.pay", "file.read"],
    approvals: { rules: [{ tools: ["test.pay"], tier: "auto" }] },
  };
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    operations: { modules: [PAY] },
    workspace: { dir },
    agents: {
      default: agent,
      careless: { ...agent, approvals: { ...agent.approvals, tainted: "allow" } },
    },
    runs: { approvalTimeoutMs: 600_000 },
  };
  const plan = ["test_pay", "file_read", "test_pay"].map((name) => step(name));
  try {
    await withHub(config, async (hub) => {
      const asksOf = async (body: JsonObject) => {
        upstream.script([propose(...plan), chatStream({ text: "Done", usage })]);
        const { runId, stream } = await start(hub, { preflight: true, ...body });
        const { steps } = await untilPlanned(hub, runId);
        assert.equal((await decide(hub, runId, { approved: false })).status, 200);
        await stream;
        return steps.map(({ asks }: { asks: boolean }) => asks);
      };
      assert.deepEqual(await asksOf({}), [false, false, true]);
      assert.deepEqual(await asksOf({ agent: "careless" }), [false, false, false]);

      upstream.script([
        chatStream({ toolCalls: [{ name: "file_read", arguments: { path: "a.txt" } }] }),
        chatStream({ text: "Done" }),
      ]);
      const { session, stream } = await start(hub);
      await stream;
      assert.deepEqual(await asksOf({ session }), [true, false, true]);

      // What was approved for longer, in sight of it, is not asked about again.
      upstream.script([calls("test_pay"), chatStream({ text: "Done" })]);
      const paying = await start(hub, { session });
      const [asked] = await untilWaiting(hub, paying.runId);
      const approved = { approved: true, remember: "session" };
      assert.equal((await answer(hub, paying.runId, asked.id, approved)).status, 200);
      await paying.stream;
      assert.deepEqual(await asksOf({ session }), [false, false, false]);
    });
  } finally {
    await upstream.stop();
    await server.stop();
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a plan that the caller wants is wanted of the agents too that its run asks", async () => {
  const upstream = await startScriptedUpstream();
  try {
    await withHub({
      providers: { one: { baseUrl: upstream.url } },
      defaultModel: "one/m",
      agents: {
        default: { tools: [], agents: ["helper"], preflight: { when: "complex" } },
        helper: { tools: ["hub.calculate"] },
      },
      runs: { approvalTimeoutMs: 600_000 },
    }, async (hub) => {
      const asks = chatStream({
        toolCalls: [{ name: "agents_helper", arguments: { prompt: "1+1?" } }],
        usage,
      });
      const said = (text: string) => chatStream({ text, usage });
      const done = [calls("hub_calculate"), said("2"), said("It is 2")];
      upstream.script([
        propose(step("agents_helper")),
        asks,
        propose(step("hub_calculate")),
        ...done,
      ]);
      const { runId, stream } = await start(hub, { preflight: true });
      await untilPlanned(hub, runId);
      assert.equal((await decide(hub, runId, { approved: true })).status, 200);
      const waiting = await eventually(async () => {
        const { data: approvals } = await (await hub.call(`/v1/runs/${runId}/approvals`)).json();
        return approvals.find(({ state }: { state: string }) => state === "pending") ?? null;
      });
      assert.deepEqual([waiting.toolName, waiting.runId === runId], ["hub.propose_plan", false]);
      assert.equal(waiting.plan.steps[0].tool, "hub.calculate");
      assert.equal((await decide(hub, waiting.runId, { approved: true })).status, 200);
      assert.match(await stream, /It is 2/);

      // What the agent itself wants holds for its own runs.
      upstream.script([asks, ...done]);
      const own = await start(hub);
      assert.match(await own.stream, /It is 2/);
    });
  } finally {
    await upstream.stop();
  }
});
