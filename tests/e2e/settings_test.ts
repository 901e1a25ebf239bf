import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent, SequencedEvent } from "../../src/core/event.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { chatError, chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

/** Says something to an agent in a session of its own and gives the log of the run. */
async function runOnce(hub: TestHub, agent: string): Promise<HubEvent[]> {
  const { id } = await (await hub.call("/v1/sessions", { body: { agent } })).json();
  const answer = await hub.call(`/v1/sessions/${id}/messages`, { body: { text: "Hi" } });
  const log = [...(await answer.text()).matchAll(/^id: (\d+)\ndata: (.*)$/gm)]
    .map(([, seq, data]): SequencedEvent => ({ seq: Number(seq), event: JSON.parse(data ?? "") }));
  assert.deepEqual(checkLog(log), []);
  return log.map(({ event }) => event);
}

Deno.test("settings reach the runs of agents", async (t) => {
  const upstream = await startScriptedUpstream();
  const config: JsonObject = {
    providers: {
      one: { baseUrl: upstream.url, apiKey: "sk-upstream" },
      two: {
        baseUrl: upstream.url,
        apiKey: "sk-upstream",
        maxRetries: 0,
        models: {
          forced: { temperature: 0.5, topP: 0.25, maxOutputTokens: 99, toolChoice: "required" },
          mute: { parallelToolCalls: false, toolChoice: "none" },
        },
      },
    },
    defaultModel: "one/m",
    agents: {
      holder: { tools: ["test.*"] },
      searcher: { tools: ["*", "!hub.wait"], maxOfferedTools: 3 },
      tuned: { tools: ["hub.calculate"], models: ["two/forced", "two/mute"], topP: 0.75 },
    },
    operations: {
      modules: [fileURLToPath(new URL("../fixtures/operations/hold.ts", import.meta.url))],
    },
    limits: { toolTimeoutMs: 40, maxParallelTools: 1 },
  };
  try {
    await withHub(config, async (hub) => {
      await t.step("the deadline of tools, and how many run at once", async () => {
        const call = { name: "test_hold", arguments: {} };
        upstream.script([chatStream({ toolCalls: [call, call] }), chatStream({ text: "Done" })]);
        const startedMs = performance.now();
        const events = await runOnce(hub, "holder");
        const errors = events.flatMap((event) =>
          event.type === "tool-output-error" ? [event.errorText] : []
        );
        assert.equal(errors.length, 2);
        for (const error of errors) assert.match(error, /did not end within 40 ms/);
        const tookMs = performance.now() - startedMs;
        assert.ok(tookMs >= 80, `one after the other takes twice 40 ms, not ${tookMs}`);
      });

      await t.step("the settings of each model, under those of the agent", async () => {
        const sum = { name: "hub_calculate", arguments: { expression: "6*7" } };
        upstream.script([
          chatStream({ toolCalls: [sum] }),
          chatError(500),
          chatStream({ toolCalls: [sum], text: "Done" }),
        ]);
        const events = await runOnce(hub, "tuned");
        const calls = events.filter((event) => event.type === "tool-input-available");
        assert.equal(calls.length, 1, "what a model calls that may not is not heard");
        const sent = upstream.requests.slice(-3).map((request) => request.json as JsonObject);
        const settings = sent.map((body) => [
          body["model"],
          body["temperature"],
          body["top_p"],
          body["max_tokens"],
          body["tool_choice"],
          body["parallel_tool_calls"],
        ]);
        assert.deepEqual(settings, [
          ["forced", 0.5, 0.75, 99, "required", undefined],
          ["forced", 0.5, 0.75, 99, undefined, undefined],
          ["mute", undefined, 0.75, undefined, "none", false],
        ]);
      });

      await t.step("of too many tools some are shown, and others found", async () => {
        const find = { name: "hub_find_tools", arguments: { query: "arithmetic", limit: 1 } };
        const sum = { name: "hub_calculate", arguments: { expression: "6*7" } };
        upstream.script([
          chatStream({ toolCalls: [find] }),
          chatStream({ toolCalls: [sum] }),
          chatStream({ text: "42" }),
        ]);
        const events = await runOnce(hub, "searcher");
        const [begun] = events.filter((event) => event.type === "data" && event.name === "tools");
        assert.ok(begun?.type === "data");
        assert.deepEqual(begun.data, { offered: ["hub.find_tools", "hub.read_result"] });
        const shown = upstream.requests.slice(-3).map(({ json }) =>
          (json as { tools: { function: { name: string } }[] }).tools.map((tool) =>
            tool.function.name
          )
        );
        assert.deepEqual(shown, [
          ["hub_find_tools", "hub_read_result"],
          ["hub_find_tools", "hub_read_result", "hub_calculate"],
          ["hub_find_tools", "hub_read_result", "hub_calculate"],
        ]);
      });

      await t.step("runs are counted by agent", async () => {
        const counts = await eventually(async () => {
          const text = await (await hub.call("/metrics")).text();
          const counts = [...text.matchAll(/^loophub_runs_total\{(.*)\} (\d+)$/gm)];
          return counts.length >= 3 ? counts : null;
        });
        assert.deepEqual(counts.map(([, labels, count]) => `${labels} ${count}`).toSorted(), [
          'agent="holder",finish_reason="stop" 1',
          'agent="searcher",finish_reason="stop" 1',
          'agent="tuned",finish_reason="stop" 1',
        ]);
      });
    });
  } finally {
    await upstream.stop();
  }
});
