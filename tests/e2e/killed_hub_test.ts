import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import { startHubProcess } from "../support/hub_process.ts";
import { logOf } from "../support/log_of.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, startTestHub } from "../support/test_hub.ts";
import { usageOf } from "../support/usage_of.ts";

/** Reads a stream until its text has what is wanted, or it breaks. */
async function readUntil(answer: Response, wanted: string): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of answer.body ?? assert.fail("no body")) {
    text += decoder.decode(bytes, { stream: true });
    if (text.includes(wanted)) return text;
  }
  return text;
}

Deno.test("a run of a hub that was killed goes on where it was, on the next one", async () => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-killed-" });
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    runs: { leaseMs: 5000 },
  };
  try {
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    upstream.script(chatStream({ text: "One two three", endAfter: 3, end: "stall" }));
    const first = await startHubProcess(folder, { DATABASE_URL: postgres.url });
    let seen: string;
    let key: string;
    let session: string;
    try {
      key = await eventually(() => Promise.resolve(first.key()));
      session = (await (await first.post("/v1/sessions", {})).json()).id;
      seen = await readUntil(
        await first.post(`/v1/sessions/${session}/messages`, { text: "Go" }),
        "two",
      );
    } finally {
      await first.end("SIGKILL");
    }
    const [start, ...rest] = logOf(seen);
    assert.ok(start?.event.type === "start" && rest.length > 0);
    const { runId } = start.event;

    upstream.script(chatStream({ text: "One two three four" }));
    const dataDir = `${folder}/data`;
    const second = await startTestHub(config, { databaseUrl: postgres.url, dataDir, key });
    try {
      const ended = await eventually(async () => {
        const run = await (await second.call(`/v1/runs/${runId}`)).json();
        return run.status === "running" ? null : run;
      });
      assert.equal(ended.status, "completed");
      assert.equal(ended.finishReason, "stop");
      const messages = await (await second.call(`/v1/sessions/${session}/messages`)).json();
      // What the call of the killed hub has used stands beside what was said.
      const parts = messages.data.at(-1).parts
        .filter((part: { name?: string }) => part.name !== "lost-calls");
      assert.deepEqual(parts.map((part: { text?: string }) => part.text), [
        undefined,
        "One two three four",
      ]);

      const all = logOf(await (await second.call(`/v1/runs/${runId}/stream`)).text());
      assert.deepEqual(checkLog(all), []);
      assert.equal(all.filter(({ event }) => event.type === "step-reset").length, 1);
      assert.deepEqual(all.slice(-2).map(({ event }) => event.type), ["step-finish", "finish"]);
      // Whoever was cut off goes on behind the last event it saw, and sees no number twice.
      const cursor = String(rest.at(-1)?.seq);
      const resumed = logOf(
        await (await second.call(`/v1/runs/${runId}/stream`, {
          headers: { "last-event-id": cursor },
        })).text(),
      );
      assert.deepEqual(resumed, all.filter(({ seq }) => seq > Number(cursor)));
      assert.equal(resumed.at(-1)?.event.type, "finish");
      assert.deepEqual(checkLog([start, ...rest, ...resumed]), []);

      upstream.script(chatStream({ text: "Again" }));
      const next = await second.call(`/v1/sessions/${session}/messages`, {
        body: { text: "And now?", stream: false },
      });
      assert.equal((await next.json()).run.finishReason, "stop");
    } finally {
      await second.close();
    }
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a hub that is killed behind the end of a run has written what its model calls used", async () => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-killed-" });
  const config = { providers: { one: { baseUrl: upstream.url } }, defaultModel: "one/m" };
  try {
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    const usage = { promptTokens: 20, completionTokens: 4 };
    const toolCalls = [{ name: "hub_calculate", arguments: { expression: "6*7" } }];
    upstream.script([chatStream({ toolCalls, usage }), chatStream({ text: "It is 42.", usage })]);
    const hub = await startHubProcess(folder, { DATABASE_URL: postgres.url });
    try {
      const session = (await (await hub.post("/v1/sessions", {})).json()).id;
      const answer = await hub.post(`/v1/sessions/${session}/messages`, { text: "Go" });
      assert.match(await readUntil(answer, `"type":"finish"`), /It is 42/);
    } finally {
      await hub.end("SIGKILL");
    }
    const rows = await usageOf({ databaseUrl: postgres.url }, "run");
    assert.deepEqual(rows.map((row) => [row["step"], row["prompt_tokens"]]), [
      [0, "20"],
      [1, "20"],
    ]);
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
