import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent } from "../../src/core/event.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { readSubRun } from "../../src/core/sub_run_event.ts";
import { logOf } from "../support/log_of.ts";
import { startHubProcess } from "../support/hub_process.ts";
import { startTestPostgres } from "../support/postgres.ts";
import {
  chatStream,
  type RecordedRequest,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import {
  eventually,
  startTestHub,
  type TestHub,
  withHub,
  withReplicas,
} from "../support/test_hub.ts";

type Reply = ReturnType<typeof chatStream>;

interface ChatBody {
  messages: { role: string; content: string }[];
}

const USAGE = { promptTokens: 10, completionTokens: 5 };

const agents: JsonObject = {
  boss: { systemPrompt: "I am boss", tools: ["hub.wait"], agents: ["helper", "clerk"] },
  helper: { systemPrompt: "I am helper", tools: ["hub.calculate"], agents: ["*"] },
  clerk: {
    systemPrompt: "I am clerk",
    tools: ["hub.calculate"],
    agents: ["scribe"],
    approvals: { ask: ["hub.calculate"] },
  },
  scribe: { systemPrompt: "I am scribe", tools: [], agents: ["boss", "last"] },
  last: { systemPrompt: "I am last", tools: [] },
};

const configOf = (url: string): JsonObject => ({
  providers: { one: { baseUrl: url, apiKey: "sk-upstream" } },
  defaultModel: "one/m",
  agents,
});

/** Answers each agent by its own script, whoever calls when. */
function byAgent(scripts: Record<string, Reply[]>) {
  const next = new Map<string, number>();
  return (request: RecordedRequest) => {
    const { messages } = request.json as unknown as ChatBody;
    const name = /I am (\w+)/.exec(messages[0]?.content ?? "")?.[1] ?? "";
    const at = next.get(name) ?? 0;
    next.set(name, at + 1);
    return scripts[name]?.[at] ?? assert.fail(`${name} is not expected to call a ${at + 1}. time`);
  };
}

const asks = (name: string, input: JsonObject = { prompt: "Do it" }) =>
  chatStream({ toolCalls: [{ name, arguments: input }], usage: USAGE });
const says = (text: string) => chatStream({ text, usage: USAGE });

async function begin(hub: TestHub, body: JsonObject = {}) {
  const { id } = await (await hub.call("/v1/sessions", { body: { agent: "boss" } })).json();
  return await hub.call(`/v1/sessions/${id}/messages`, { body: { text: "Go", ...body } });
}

async function run(hub: TestHub, body: JsonObject = {}): Promise<HubEvent[]> {
  const log = logOf(await (await begin(hub, body)).text());
  assert.deepEqual(checkLog(log), []);
  return log.map(({ event }) => event);
}

const outputsOf = (events: readonly HubEvent[]) =>
  events.flatMap((event) =>
    event.type === "tool-output-available"
      ? [event.output]
      : event.type === "tool-output-error"
      ? [event.errorText]
      : []
  );
const subRunsOf = (events: readonly HubEvent[]) => events.flatMap((one) => readSubRun(one) ?? []);
const finishOf = (events: readonly HubEvent[]) => {
  const last = events.at(-1);
  return last?.type === "finish" ? last : assert.fail("no finish");
};

/** The runs below a run, as their parent's log names them while they go on. */
async function childOf(hub: TestHub, runId: string): Promise<string> {
  return await eventually(async () => {
    const { data: sessions } = await (await hub.call("/v1/sessions")).json();
    for (const { metadata, activeRun } of sessions) {
      if (metadata?.parentRunId === runId && activeRun !== null) return activeRun.runId;
    }
    return null;
  });
}

Deno.test("agents ask agents", async (t) => {
  const upstream = await startScriptedUpstream();
  try {
    await withHub(configOf(upstream.url), async (hub) => {
      await t.step(
        "the answer is a result, the run its own, and what it used is added up",
        async () => {
          upstream.script(byAgent({
            boss: [asks("agents_helper", { prompt: "6*7?" }), says("It says 42")],
            helper: [asks("hub_calculate", { expression: "6*7" }), says("42")],
          }));
          const events = await run(hub);
          assert.deepEqual(outputsOf(events), ["42"]);
          const [child] = subRunsOf(events);
          assert.ok(child);
          assert.deepEqual([child.agent, child.steps], ["helper", 2]);
          const own = events.flatMap((event) => event.type === "step-finish" ? [event.usage] : []);
          const tokens = own.reduce((sum, usage) => sum + usage.totalTokens, 0);
          assert.equal(child.usage.totalTokens, 30);
          assert.equal(finishOf(events).usage.totalTokens, tokens + child.usage.totalTokens);
          const stored = await (await hub.call(`/v1/runs/${child.runId}`)).json();
          const begun = events[0];
          assert.equal(stored.parent.runId, begun?.type === "start" ? begun.runId : "");
          assert.equal(stored.status, "completed");
          const log = logOf(await (await hub.call(`/v1/runs/${child.runId}/stream`)).text());
          assert.deepEqual(checkLog(log), []);
          const { data: messages } =
            await (await hub.call(`/v1/sessions/${child.sessionId}/messages`))
              .json();
          assert.equal(messages[0].parts[0].text, "6*7?", "a history of its own");
        },
      );

      await t.step("two asked at once answer both", async () => {
        const call = (prompt: string) => ({ name: "agents_helper", arguments: { prompt } });
        upstream.script(byAgent({
          boss: [chatStream({ toolCalls: [call("a"), call("b")] }), says("Both")],
          helper: [says("One"), says("Two")],
        }));
        const events = await run(hub);
        assert.deepEqual(outputsOf(events).toSorted(), ["One", "Two"]);
        assert.equal(subRunsOf(events).length, 2);
      });

      await t.step("nobody is asked in a circle, nor too deep", async () => {
        upstream.script(byAgent({
          boss: [asks("agents_clerk"), says("Done")],
          clerk: [asks("agents_scribe"), says("Scribe says so")],
          scribe: [asks("agents_boss"), asks("agents_last"), says("Nobody")],
        }));
        const events = await run(hub);
        assert.deepEqual(outputsOf(events), ["Scribe says so"]);
        const sent = upstream.requests.map(({ json }) => JSON.stringify(json));
        assert.ok(sent.some((one) => /boss waits for this one already/.test(one)));
        assert.ok(sent.some((one) => /as deep as agents may ask/.test(one)));
        assert.equal(subRunsOf(events)[0]?.steps, 5, "those of the runs below it too");
      });

      await t.step("what an agent fails with is told", async () => {
        upstream.script(byAgent({
          boss: [asks("agents_helper"), says("Alas")],
          helper: [{ ...says("x"), status: 422 } as Reply],
        }));
        const [said] = outputsOf(await run(hub));
        assert.match(String(said), /The agent helper gave no answer/);
      });

      await t.step("a key asks through an agent nobody that it may not run", async () => {
        const policy = { agents: ["boss"] };
        const made = await hub.call("/v1/admin/keys", { body: { name: "few", policy } });
        const headers = { authorization: `Bearer ${(await made.json()).token}` };
        upstream.script(byAgent({ boss: [asks("agents_helper"), says("Alas")], helper: [] }));
        const session = { body: { agent: "boss" }, headers };
        const { id } = await (await hub.call("/v1/sessions", session)).json();
        const said = { body: { text: "Go" }, headers };
        const answer = await hub.call(`/v1/sessions/${id}/messages`, said);
        const [refused] = outputsOf(logOf(await answer.text()).map(({ event }) => event));
        assert.match(String(refused), /helper/);
      });

      await t.step("a budget bounds all together", async () => {
        upstream.script(byAgent({
          boss: [asks("agents_helper"), says("Short")],
          helper: [asks("hub_calculate", { expression: "1" }), says("Enough")],
        }));
        const events = await run(hub, { budget: { steps: 4 } });
        assert.equal(subRunsOf(events)[0]?.steps, 2);
        assert.equal(finishOf(events).finishReason, "max-steps");
        const call = (prompt: string) => ({ name: "agents_helper", arguments: { prompt } });
        upstream.script(byAgent({
          boss: [chatStream({ toolCalls: [call("a"), call("b")] }), says("Short")],
          helper: [says("One")],
        }));
        const twice = await run(hub, { budget: { steps: 3 } });
        assert.deepEqual(outputsOf(twice).map((said) => /budget of the run/.test(String(said))), [
          false,
          true,
        ]);
        assert.equal(finishOf(twice).finishReason, "max-steps");
      });

      await t.step("whoever stops a run stops those below it", async () => {
        const stall = chatStream({ text: "One two three", endAfter: 3, end: "stall" });
        upstream.script(byAgent({ boss: [asks("agents_helper")], helper: [stall] }));
        const answer = await begin(hub);
        const runId = answer.headers.get("x-loophub-run") ?? "";
        const child = await childOf(hub, runId);
        await hub.call(`/v1/runs/${runId}/stop`, { body: {} });
        const log = logOf(await answer.text());
        assert.deepEqual(checkLog(log), []);
        await eventually(async () => {
          const { status } = await (await hub.call(`/v1/runs/${child}`)).json();
          return status === "cancelled" ? true : null;
        });
      });

      await t.step("who answers for a run answers for those below it", async () => {
        upstream.script(byAgent({
          boss: [asks("agents_clerk"), says("Done")],
          clerk: [asks("hub_calculate", { expression: "2+2" }), says("4")],
        }));
        const answer = await begin(hub);
        const runId = answer.headers.get("x-loophub-run") ?? "";
        const asked = await eventually(async () => {
          const { data: approvals } = await (await hub.call(`/v1/runs/${runId}/approvals`)).json();
          return approvals[0] ?? null;
        });
        assert.equal(asked.toolName, "hub.calculate");
        assert.notEqual(asked.runId, runId);
        const given = await hub.call(`/v1/runs/${runId}/approvals/${asked.id}`, {
          body: { approved: true },
        });
        assert.equal(given.status, 200);
        const text = await answer.text();
        assert.match(text, /"name":"progress".*"approvalId":"apr_/);
        assert.deepEqual(outputsOf(logOf(text).map(({ event }) => event)), ["4"]);
      });

      await t.step("an answer for a session holds for the one of the run at the top", async () => {
        const session = async () =>
          (await (await hub.call("/v1/sessions", { body: { agent: "boss" } })).json()).id;
        const say = async (id: string) => {
          upstream.script(byAgent({
            boss: [asks("agents_clerk"), says("Done")],
            clerk: [asks("hub_calculate", { expression: "2+2" }), says("4")],
          }));
          const answer = await hub.call(`/v1/sessions/${id}/messages`, { body: { text: "Go" } });
          return { runId: answer.headers.get("x-loophub-run") ?? "", text: answer.text() };
        };
        const answerAsked = async (runId: string, body: JsonObject) => {
          const path = `/v1/runs/${runId}/approvals`;
          const asked = await eventually(async () => {
            const { data: approvals } = await (await hub.call(path)).json();
            return approvals[0] ?? null;
          });
          assert.equal((await hub.call(`${path}/${asked.id}`, { body })).status, 200);
        };
        const one = await session();
        const first = await say(one);
        await answerAsked(first.runId, { approved: true, remember: "session" });
        await first.text;
        const { data: grants } = await (await hub.call("/v1/approvals/grants")).json();
        assert.deepEqual([grants[0].sessionId, grants[0].agent], [one, "clerk"]);

        const second = await say(one);
        const text = await second.text;
        assert.doesNotMatch(text, /approvalId/);
        assert.deepEqual(outputsOf(logOf(text).map(({ event }) => event)), ["4"]);

        const third = await say(await session());
        await answerAsked(third.runId, { approved: false });
        await third.text;
      });
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("whoever takes a run over finds the agent that it has asked at work", async () => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-asked-" });
  const config = { ...configOf(upstream.url), runs: { leaseMs: 5000 } };
  try {
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    const stall = chatStream({ text: "One two three", endAfter: 3, end: "stall" });
    upstream.script(byAgent({ boss: [asks("agents_helper")], helper: [stall] }));
    const first = await startHubProcess(folder, { DATABASE_URL: postgres.url });
    let key: string;
    let runId: string;
    try {
      key = await eventually(() => Promise.resolve(first.key()));
      const { id } = await (await first.post("/v1/sessions", { agent: "boss" })).json();
      const answer = await first.post(`/v1/sessions/${id}/messages`, { text: "Go" });
      runId = answer.headers.get("x-loophub-run") ?? "";
      await eventually(() => Promise.resolve(upstream.requests.length >= 2 ? true : null));
      await answer.body?.cancel();
    } finally {
      await first.end("SIGKILL");
    }
    upstream.script(byAgent({ boss: [says("It has said four")], helper: [says("four")] }));
    const second = await startTestHub(config, {
      databaseUrl: postgres.url,
      dataDir: `${folder}/data`,
      key,
    });
    try {
      await eventually(async () => {
        const { status } = await (await second.call(`/v1/runs/${runId}`)).json();
        return status === "completed" ? true : null;
      });
      const log = logOf(await (await second.call(`/v1/runs/${runId}/stream`)).text());
      assert.deepEqual(checkLog(log), []);
      const events = log.map(({ event }) => event);
      assert.deepEqual(outputsOf(events), ["four"]);
      assert.equal(subRunsOf(events).length, 1);
      const { data: sessions } = await (await second.call("/v1/sessions")).json();
      assert.equal(sessions.length, 2, "no second run was begun");
    } finally {
      await second.close();
    }
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a replica that ends leaves an agent at work, and the one that has asked it, to another", async () => {
  const upstream = await startScriptedUpstream();
  const config = {
    ...configOf(upstream.url),
    server: { shutdownDelayMs: 0, shutdownGraceMs: 300_000 },
    runs: { leaveAfterMs: 500 },
  };
  try {
    await withReplicas([config, config], async (first, second) => {
      const stall = chatStream({ text: "One two three", endAfter: 3, end: "stall" });
      upstream.script(byAgent({
        boss: [asks("agents_helper"), says("It has said four")],
        helper: [stall, says("four")],
      }));
      const answer = await begin(first);
      const runId = answer.headers.get("x-loophub-run") ?? "";
      await upstream.until(() => upstream.requests.length === 2);
      const child = await childOf(first, runId);
      const followed = second.call(`/v1/runs/${runId}/stream`);
      await first.hub.leave();
      const closed = first.hub.close();
      const log = logOf(await (await followed).text());
      assert.deepEqual(checkLog(log), []);
      const events = log.map(({ event }) => event);
      assert.deepEqual(outputsOf(events), ["four"]);
      assert.deepEqual(subRunsOf(events).map((run) => run.runId), [child]);
      assert.equal(finishOf(events).finishReason, "stop");
      const below = logOf(await (await second.call(`/v1/runs/${child}/stream`)).text());
      assert.deepEqual(checkLog(below), []);
      const resets = below.filter(({ event }) => event.type === "step-reset");
      assert.equal(resets.length, 1, "it was left in mid-step, and went on once");
      assert.equal(upstream.requests.length, 4);
      const { data: sessions } = await (await second.call("/v1/sessions")).json();
      assert.equal(sessions.length, 2, "no second run was begun");
      await answer.body?.cancel().catch(() => {});
      await closed;
    });
  } finally {
    await upstream.stop();
  }
});
