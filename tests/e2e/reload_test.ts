import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { type HubProcess, startHubProcess } from "../support/hub_process.ts";
import { takeKeys } from "../support/providers_rig.ts";
import { startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";

const RELOADED = "The configuration was reloaded";
const REFUSED = "The configuration was not reloaded: the last good one stays";
const CANARY = "sk-canary-2a7bd1940c3e-file";

async function withProcess(
  args: string[],
  body: (parts: {
    hub: HubProcess;
    write(config: JsonObject | string): Promise<void>;
    /** What a chat completion comes to, over a connection of its own. */
    chat(model: string): Promise<string>;
    url: string;
  }) => Promise<void>,
): Promise<void> {
  const upstream = await startScriptedUpstream();
  takeKeys(upstream, "key-000001", "key-000002");
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-reload-" });
  await Deno.chmod(folder, 0o755);
  const write = async (config: JsonObject | string) => {
    const text = typeof config === "string" ? config : JSON.stringify({
      server: { shutdownDelayMs: 0 },
      defaultModel: "one/m",
      ...config,
    });
    await Deno.writeTextFile(`${folder}/new.json`, text);
    await Deno.rename(`${folder}/new.json`, `${folder}/loophub.json`);
  };
  await write({ providers: { one: { baseUrl: upstream.url, apiKey: "key-000001" } } });
  const hub = await startHubProcess(folder, {}, args);
  const key = hub.key() ?? assert.fail("no key");
  try {
    await body({
      hub,
      write,
      url: upstream.url,
      async chat(model) {
        const answer = await fetch(`${hub.url}/v1/chat/completions`, {
          method: "POST",
          headers: {
            authorization: `Bearer ${key}`,
            "content-type": "application/json",
            connection: "close",
          },
          body: JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }] }),
        });
        const value = await answer.json();
        return answer.status === 200 ? value.choices[0].message.content : `${answer.status}`;
      },
    });
  } finally {
    await hub.end("SIGTERM");
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("a changed file is taken over, on SIGHUP and by itself; a wrong one is not", async (t) => {
  await withProcess([], async ({ hub, write, chat, url }) => {
    assert.equal(await chat("one/m"), "by 000001");

    await t.step("another key and another provider, by itself", async () => {
      await write({
        providers: {
          one: { baseUrl: url, apiKey: "key-000002" },
          two: { baseUrl: url, apiKey: "key-000001" },
        },
        models: { smart: { targets: ["two/m"] } },
        agents: { default: {}, other: {} },
      });
      await eventually(() => hub.logged(RELOADED).length === 1 || null);
      assert.deepEqual(hub.logged(RELOADED)[0].changed, ["providers", "models", "agents"]);
      assert.deepEqual([await chat("one/m"), await chat("smart")], ["by 000002", "by 000001"]);
    });

    await t.step(
      "a wrong one stays away, by itself and on SIGHUP, and no secret is told",
      async () => {
        await write({ providers: { one: { baseUrl: "nowhere", apiKey: `${CANARY} x` } } });
        await eventually(() => hub.logged(REFUSED).length === 1 || null);
        await write(`{ "providers": { "one": { "apiKey": "${CANARY}" `);
        hub.signal("SIGHUP");
        await eventually(() => hub.logged(REFUSED).length >= 2 || null);
        const [first] = hub.logged(REFUSED);
        assert.match(first.error.message, /providers\.one\.baseUrl.*got "nowhere", wanted a URL/);
        assert.deepEqual([await chat("one/m"), await chat("smart")], ["by 000002", "by 000001"]);
        assert.ok(!hub.err().includes(CANARY) && !hub.out().includes(CANARY));
      },
    );

    await t.step("what needs a restart is named, the rest counts", async () => {
      const before = hub.logged(RELOADED).length;
      await write({
        limits: { maxParallelTools: 3 },
        providers: { one: { baseUrl: url, apiKey: "key-000001" } },
      });
      hub.signal("SIGHUP");
      await eventually(() => hub.logged(RELOADED).length > before || null);
      const [waiting] = await eventually(() => {
        const lines = hub.logged("Some changes of the configuration wait for the next start");
        return lines.length > 0 ? lines : null;
      });
      assert.deepEqual(waiting.settings, ["limits"]);
      assert.deepEqual([await chat("one/m"), await chat("smart")], ["by 000001", "404"]);
    });
  });
});

Deno.test({
  name: "all workers of a port take a changed file over, one that is started later too",
  ignore: Deno.build.os !== "linux",
  async fn() {
    await withProcess(["--workers", "2"], async ({ hub, write, chat, url }) => {
      await write({ providers: { one: { baseUrl: url, apiKey: "key-000002" } } });
      hub.signal("SIGHUP");
      const isTaken = (from: number) =>
        eventually(() => {
          const workers = hub.logged(RELOADED).slice(from).map(({ worker }) => worker);
          return new Set(workers).size === 2 || null;
        });
      await isTaken(0);
      for (let turn = 0; turn < 20; turn++) assert.equal(await chat("one/m"), "by 000002");
      const [{ pid }] = hub.logged("A worker listens");
      Deno.kill(pid, "SIGKILL");
      await eventually(() => hub.logged("A worker listens").length === 3 || null);
      for (let turn = 0; turn < 20; turn++) assert.equal(await chat("one/m"), "by 000002");
      assert.equal(
        hub.logged("Some changes of the configuration wait for the next start").length,
        0,
      );
    });
  },
});
