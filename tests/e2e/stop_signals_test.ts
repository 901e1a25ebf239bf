import assert from "node:assert/strict";
import { type HubProcess, startHubProcess } from "../support/hub_process.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { chatFrames, chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, startTestHub } from "../support/test_hub.ts";

const isRefused = (url: string) =>
  fetch(`${url}/healthz`).then((answer) => answer.body?.cancel().then(() => false), () => true);

Deno.test("a hub that is asked to stop", async (t) => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-stop-" });
  let key = "";
  const withProcess = async (
    server: Record<string, number>,
    body: (hub: HubProcess) => Promise<void>,
  ) => {
    const config = { server, providers: { one: { baseUrl: upstream.url } }, defaultModel: "one/m" };
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    const hub = await startHubProcess(folder, { DATABASE_URL: postgres.url });
    if (key === "") key = await eventually(() => Promise.resolve(hub.key()));
    try {
      await body(hub);
    } catch (error) {
      await hub.end("SIGKILL").catch(() => {});
      throw error;
    }
  };
  const ask = (hub: HubProcess) =>
    fetch(`${hub.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: "one/m",
        stream: true,
        messages: [{ role: "user", content: "Hello" }],
      }),
    });
  try {
    await t.step("SIGTERM: not ready, but serving; a second signal ends at once", async () => {
      await withProcess({ shutdownDelayMs: 60_000 }, async (hub) => {
        hub.signal("SIGTERM");
        await eventually(async () => {
          const ready = await fetch(`${hub.url}/readyz`);
          await ready.body?.cancel();
          return ready.status === 503 ? true : null;
        });
        upstream.script(chatStream({ text: "Still here" }));
        const answer = await ask(hub);
        // A client that keeps its connection would meet the closing of the port with a request.
        assert.equal(answer.headers.get("connection"), "close");
        assert.match(await answer.text(), /here[^]*\[DONE\]/);
        assert.equal(await hub.end("SIGTERM"), 130);
      });
    });

    await t.step("Ctrl-C does not wait for load balancers", async () => {
      await withProcess({ shutdownDelayMs: 60_000 }, async (hub) => {
        assert.equal(await hub.end("SIGINT"), 0);
      });
    });

    await t.step("the port closes, and an answer under way ends whole", async () => {
      await withProcess({ shutdownDelayMs: 0, shutdownGraceMs: 60_000 }, async (hub) => {
        const gate = Promise.withResolvers<void>();
        const [role = "", first = "", ...rest] = chatFrames({ text: "One two three" });
        upstream.script({
          headers: { "content-type": "text/event-stream" },
          frames: [role, first, { wait: gate.promise }, ...rest],
        });
        const answer = await ask(hub);
        hub.signal("SIGTERM");
        await eventually(async () => await isRefused(hub.url) ? true : null);
        gate.resolve();
        assert.equal(await answer.text(), [role, first, ...rest].join(""));
        assert.equal(await hub.ended(), 0);
      });
    });

    await t.step("an answer that does not end is cut when its time is over", async () => {
      await withProcess({ shutdownDelayMs: 0, shutdownGraceMs: 1 }, async (hub) => {
        upstream.script(chatStream({ text: "One two three", endAfter: 2, end: "stall" }));
        const answer = await ask(hub);
        const ended = hub.end("SIGTERM");
        await assert.rejects(answer.text());
        assert.equal(await ended, 0);
        assert.equal(hub.logged("Answers were cut off: they did not end in time")[0]?.cut, 1);
      });
    });
    await t.step("SIGTERM: a run is left at the end of its step, to the next hub", async () => {
      let answer: Promise<string> = Promise.resolve("");
      let runId = "";
      await withProcess({ shutdownDelayMs: 0, shutdownGraceMs: 60_000 }, async (hub) => {
        const post = (path: string, body: unknown) =>
          fetch(hub.url + path, {
            method: "POST",
            headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
            body: JSON.stringify(body),
          });
        const gate = Promise.withResolvers<void>();
        const toolCalls = [{ name: "hub_calculate", arguments: { expression: "6*7" } }];
        const [role = "", ...rest] = chatFrames({ text: "One two", toolCalls });
        upstream.script({
          headers: { "content-type": "text/event-stream" },
          frames: [role, { wait: gate.promise }, ...rest],
        });
        const before = upstream.requests.length;
        const session = (await (await post("/v1/sessions", {})).json()).id;
        const streamed = await post(`/v1/sessions/${session}/messages`, { text: "Go" });
        runId = streamed.headers.get("x-loophub-run") ?? "";
        answer = streamed.text();
        answer.catch(() => {});
        await upstream.until(() => upstream.requests.length > before);
        hub.signal("SIGTERM");
        await eventually(async () => await isRefused(hub.url) ? true : null);
        gate.resolve();
        await assert.rejects(answer);
        assert.equal(await hub.ended(), 0);
      });
      upstream.script(chatStream({ text: "And three" }));
      const config = { providers: { one: { baseUrl: upstream.url } }, defaultModel: "one/m" };
      const dataDir = `${folder}/data`;
      const next = await startTestHub(config, { databaseUrl: postgres.url, dataDir, key });
      try {
        const ended = await eventually(async () => {
          const run = await (await next.call(`/v1/runs/${runId}`)).json();
          return run.status === "running" ? null : run;
        });
        assert.deepEqual([ended.status, ended.finishReason], ["completed", "stop"]);
        const stream = await (await next.call(`/v1/runs/${runId}/stream`)).text();
        assert.match(stream, /One[^]*"output":[^]*"step":1[^]*three/);
        assert.doesNotMatch(stream, /step-reset/);
      } finally {
        await next.close();
      }
    });
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
