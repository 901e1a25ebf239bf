import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { childrenOf, noneWith, processesWith } from "../support/processes.ts";
import { scripted } from "../mcp/rig.ts";
import { type HubProcess, startHubProcess } from "../support/hub_process.ts";
import { connectMcp } from "../support/mcp_clients.ts";
import { eventually } from "../support/test_hub.ts";

const TOOL = { name: "one", inputSchema: { type: "object" } };

/** A hub as a process of its own with these servers; every process that they start has the tag. */
async function withHubProcess(
  servers: (tag: string) => JsonObject,
  args: string[],
  body: (hub: HubProcess, tag: string) => Promise<void>,
): Promise<void> {
  const tag = `tag-${crypto.randomUUID()}`;
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-mcp-" });
  await Deno.chmod(folder, 0o755);
  const config = { server: { shutdownDelayMs: 0 }, mcpServers: servers(tag) };
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  const hub = await startHubProcess(folder, {}, args);
  try {
    await body(hub, tag);
  } finally {
    await hub.end("SIGTERM").catch(() => {/* it has ended */});
    await noneWith(tag);
    await noneWith(folder);
    await Deno.remove(folder, { recursive: true });
  }
}

/** Servers that are ended with trouble, or are in the middle of being connected. */
const trouble = (tag: string) => {
  const env = { TAG: tag };
  const stuck = `trap '' TERM HUP; (setsid sleep 1000 &); while :; do sleep 1; done`;
  return {
    good: scripted({ tools: [TOOL] }, { env }),
    stubborn: scripted({ tools: [TOOL], modes: ["stubborn"] }, { env }),
    mute: scripted({ modes: ["mute"] }, { env, connectTimeoutMs: 600_000 }),
    stuck: { command: "sh", args: ["-c", stuck], env, connectTimeoutMs: 600_000 },
  };
};

for (const signal of ["SIGTERM", "SIGKILL"] as const) {
  Deno.test(`a hub that gets ${signal} while it connects leaves no server behind`, async () => {
    await withHubProcess(trouble, [], async (hub, tag) => {
      await eventually(async () => (await processesWith(tag)).length >= 16 || null);
      const code = await hub.end(signal);
      if (signal === "SIGTERM") assert.equal(code, 0);
      await noneWith(tag);
    });
  });
}

Deno.test("each worker has servers of its own, which end with it", async () => {
  const one = (tag: string) => ({ one: scripted({ tools: [TOOL] }, { env: { TAG: tag } }) });
  await withHubProcess(one, ["--workers", "2"], async (hub, tag) => {
    const key = hub.key() ?? assert.fail("no key");
    const serversOf = (worker: number) => childrenOf(worker, tag);
    const workers = async () => {
      const found = await childrenOf(hub.pid, " worker");
      return found.length === 2 ? found : null;
    };
    const bothServe = () =>
      eventually(async () => {
        const client = await connectMcp("v2 websocket", { url: hub.url, key });
        await client.call("one__one", {});
        await client.close();
        const found = await workers();
        const servers = await Promise.all((found ?? []).map(serversOf));
        return found !== null && servers.every(({ length }) => length === 1) ? found : null;
      }, 60_000);
    const [first = 0, second = 0] = await bothServe();
    const [kept] = await serversOf(second);
    const [lost] = await serversOf(first);
    Deno.kill(first, "SIGKILL");
    await eventually(async () => !(await processesWith(tag)).includes(lost ?? 0) || null);
    assert.deepEqual(await serversOf(second), [kept]);
    assert.ok(!(await bothServe()).includes(first));
  });
});
