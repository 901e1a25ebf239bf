import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import { readCompaction } from "../../src/core/context_events.ts";
import { SUMMARISE } from "../../src/inference/ask_summary.ts";
import { startHubProcess } from "../support/hub_process.ts";
import { logOf } from "../support/log_of.ts";
import { startTestPostgres } from "../support/postgres.ts";
import {
  chatStream,
  type RecordedRequest,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, startTestHub } from "../support/test_hub.ts";

const stalled = (text: string) => chatStream({ text, endAfter: 2, end: "stall" });
const lastText = ({ messages }: RecordedRequest) => messages.at(-1)?.content ?? "";
const isSummary = (request: RecordedRequest) => lastText(request) === SUMMARISE;
const hasSummary = ({ json }: RecordedRequest) =>
  JSON.stringify(json.messages).includes("SUMMARY OF OLD");

Deno.test("hubs that are killed in the middle of a summary, and right behind it: the run goes on with one summary", async () => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-killed-" });
  const model = { contextWindow: 4500, contextBuffer: 500, maxOutputTokens: 300 };
  const fixture = new URL("../fixtures/operations/long_list.ts", import.meta.url).pathname;
  const config = {
    providers: { one: { baseUrl: upstream.url, models: { m: model } } },
    defaultModel: "one/m",
    operations: { modules: [fixture] },
    agents: { default: { tools: ["test.*"], maxSteps: 100 } },
    runs: { leaseMs: 5000 },
  };
  const words = "It matters, word for word. ".repeat(12);
  let lines = 0;
  const work = () =>
    chatStream({
      text: words,
      toolCalls: [{ name: "test_long_list", arguments: { lines: 10 + lines++ } }],
    });
  const startHub = () => startHubProcess(folder, { DATABASE_URL: postgres.url });
  try {
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    upstream.script((request) => isSummary(request) ? stalled("SUMMARY that is lost") : work());
    const first = await startHub();
    let key: string;
    let runId: string;
    try {
      key = await eventually(() => first.key());
      const session = (await (await first.post("/v1/sessions", {})).json()).id;
      const stream = await first.post(`/v1/sessions/${session}/messages`, { text: "Go" });
      runId = stream.headers.get("x-loophub-run") ?? "";
      const read = stream.text().catch(() => "");
      await upstream.until(() => upstream.requests.some(isSummary));
      await first.end("SIGKILL");
      await read;
    } catch (error) {
      await first.end("SIGKILL");
      throw error;
    }

    const before = upstream.requests.length;
    upstream.script((request) =>
      isSummary(request) ? chatStream({ text: "SUMMARY OF OLD" }) : stalled("Half an answer")
    );
    const second = await startHub();
    await upstream.until(() => upstream.requests.slice(before).some(hasSummary))
      .finally(() => second.end("SIGKILL"));
    const shaped = upstream.requests.slice(before).find(hasSummary);
    assert.equal(upstream.requests.slice(before).filter(isSummary).length, 1);

    const again = upstream.requests.length;
    upstream.script(chatStream({ text: "Done" }));
    const options = { databaseUrl: postgres.url, dataDir: `${folder}/data`, key };
    const third = await startTestHub(config, options);
    try {
      const ended = await eventually(async () => {
        const run = await (await third.call(`/v1/runs/${runId}`)).json();
        return run.status === "running" ? null : run;
      });
      assert.deepEqual([ended.status, ended.finishReason], ["completed", "stop"]);
      const requests = upstream.requests.slice(again);
      assert.equal(requests.length, 1, "nothing is summarised again");
      assert.deepEqual(requests[0]?.json.messages, shaped?.json.messages);
      const log = logOf(await (await third.call(`/v1/runs/${runId}/stream`)).text());
      assert.deepEqual(checkLog(log), []);
      const summaries = log.flatMap(({ event }) =>
        event.type === "data" ? readCompaction(event)?.summary ?? [] : []
      );
      assert.deepEqual(new Set(summaries), new Set(["SUMMARY OF OLD"]));
      const { data: messages } =
        await (await third.call(`/v1/sessions/${ended.sessionId}/messages`))
          .json();
      const made = messages.at(-1).parts.filter((part: { name?: string }) =>
        part.name === "compaction"
      );
      assert.equal(made.length, 1);
      const resets = log.filter(({ event }) => event.type === "step-reset");
      assert.equal(resets.length, 2);
    } finally {
      await third.close();
    }
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
