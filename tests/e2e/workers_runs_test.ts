import assert from "node:assert/strict";
import { type HubProcess, startHubProcess } from "../support/hub_process.ts";
import { chatFrames, type Reply, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";

const RUNS = 16;

Deno.test("SIGTERM to the parent of several workers leaves their runs, and the next start goes on with them at once", async () => {
  const gate = Promise.withResolvers<void>();
  const toolCalls = [{ name: "hub_calculate", arguments: { expression: "6*7" } }];
  const [role = "", ...rest] = chatFrames({ text: "One two", toolCalls });
  const upstream = await startScriptedUpstream(({ json }): Reply => {
    const { messages } = json as { messages: { role: string }[] };
    const isFirst = messages.at(-1)?.role === "user";
    return {
      headers: { "content-type": "text/event-stream" },
      frames: isFirst ? [role, { wait: gate.promise }, ...rest] : chatFrames({ text: "Three" }),
    };
  });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-worker-runs-" });
  await Deno.chmod(folder, 0o755);
  const config = {
    server: { shutdownDelayMs: 0, shutdownGraceMs: 60_000 },
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
  };
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  const start = () => startHubProcess(folder, {}, ["--replicas", "2"]);
  let hub: HubProcess = await start();
  try {
    const key = await eventually(() => hub.key() ?? undefined);
    /** Over a connection of its own, so that any worker may get it. */
    const call = (path: string, body?: unknown) =>
      fetch(hub.url + path, {
        headers: {
          authorization: `Bearer ${key}`,
          "content-type": "application/json",
          connection: "close",
        },
        ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      });
    const begun = await Promise.all(Array.from({ length: RUNS }, async () => {
      const { id } = await (await call("/v1/sessions", {})).json();
      const answer = await call(`/v1/sessions/${id}/messages`, { text: "Go" });
      assert.equal(answer.status, 200);
      return {
        runId: answer.headers.get("x-loophub-run") ?? "",
        broken: assert.rejects(answer.text()),
      };
    }));
    await upstream.until(() => upstream.requests.length === RUNS);
    hub.signal("SIGTERM");
    // Nobody listens any more: a request may fail on its way when only one of them has stopped.
    const address = { hostname: "127.0.0.1", port: Number(new URL(hub.url).port) };
    await eventually(() =>
      Deno.connect(address).then((socket) => void socket.close(), (error) => {
        assert.ok(error instanceof Deno.errors.ConnectionRefused, error);
        return true;
      })
    );
    gate.resolve();
    await Promise.all(begun.map(({ broken }) => broken));
    assert.equal(await hub.ended(), 0, hub.err());
    assert.equal(upstream.requests.length, RUNS, "no worker begins a step that it cannot end");
    const served = hub.logged("request").filter(({ route }) => route?.endsWith("/messages"));
    assert.deepEqual([...new Set(served.map(({ worker }) => worker))].toSorted(), [1, 2]);

    hub = await start();
    const startedMs = performance.now();
    const streams = await Promise.all(begun.map(async ({ runId }) => {
      const answer = await call(`/v1/runs/${runId}/stream`);
      return await answer.text();
    }));
    const tookMs = performance.now() - startedMs;
    for (const stream of streams) {
      assert.match(stream, /One[^]*"output":[^]*"step":1[^]*Three[^]*"finishReason":"stop"/);
      assert.doesNotMatch(stream, /step-reset/);
    }
    // A later look than the first one comes after five seconds.
    assert.ok(tookMs <= 4000, `${tookMs} ms`);
    assert.equal(await hub.end("SIGINT"), 0);
  } finally {
    gate.resolve();
    await hub.end("SIGKILL").catch(() => {});
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
