import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { chatStream, type ScriptedUpstream, startScriptedUpstream } from "./scripted_upstream.ts";
import { scriptSteps } from "./trouble_rig.ts";
import { eventually, startTestHub, type TestHub } from "./test_hub.ts";

type ClosableHub = TestHub & { close(): Promise<void> };

/** Hubs with these settings of `database`, as many as are started, and their upstream. */
export async function withHubsAt(
  databaseUrl: string,
  database: JsonObject,
  body: (parts: { start(): Promise<ClosableHub>; upstream: ScriptedUpstream }) => Promise<void>,
): Promise<void> {
  const upstream = await startScriptedUpstream();
  const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-hubs-" });
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    runs: { leaseMs: 10_000 },
    server: { shutdownDelayMs: 0, shutdownGraceMs: 5000 },
    database,
  };
  const hubs: ClosableHub[] = [];
  try {
    await body({
      async start() {
        const key = hubs[0]?.key;
        const hub = await startTestHub(config, {
          databaseUrl,
          dataDir,
          ...(key === undefined ? {} : { key }),
        });
        hubs.push(hub);
        return hub;
      },
      upstream,
    });
  } finally {
    for (const hub of hubs) await hub.close();
    await upstream.stop();
    await Deno.remove(dataDir, { recursive: true });
  }
}

/** Begins a run; gives its id, with its stream left unread. */
async function begin(hub: TestHub): Promise<string> {
  const session = (await (await hub.call("/v1/sessions", { body: {} })).json()).id;
  const answer = await hub.call(`/v1/sessions/${session}/messages`, { body: { text: "Hello" } });
  assert.equal(answer.status, 200);
  await answer.body?.cancel();
  return answer.headers.get("x-loophub-run") ?? "";
}

const streamOf = async (hub: TestHub, runId: string) =>
  await (await hub.call(`/v1/runs/${runId}/stream`)).text();

/** What replicas must do with any Postgres. The first one is closed at the end. */
export async function replicasWork(
  t: Deno.TestContext,
  { first, second, upstream }: { first: ClosableHub; second: TestHub; upstream: ScriptedUpstream },
): Promise<void> {
  await t.step("requests pass", async () => {
    upstream.script(chatStream({ text: "Hello" }));
    const answer = await first.call("/v1/chat/completions", {
      body: { model: "one/m", stream: true, messages: [{ role: "user", content: "Hi" }] },
    });
    assert.match(await answer.text(), /\[DONE\]/);
  });

  await t.step("a run of one is followed on the other", async () => {
    upstream.script(chatStream({ text: "One two three", delayMs: 20 }));
    const text = await streamOf(second, await begin(first));
    assert.match(text, /"finishReason":"stop"/);
  });

  await t.step("a run of one is stopped on the other", async () => {
    upstream.script(chatStream({ text: "One two", endAfter: 2, end: "stall" }));
    const runId = await begin(first);
    const stopped = await second.call(`/v1/runs/${runId}/stop`, { method: "POST" });
    assert.equal((await stopped.json()).stopping, true);
    assert.match(await streamOf(second, runId), /"reason":"stop requested"/);
  });

  await t.step("a run of one that leaves is taken over by the other", async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    scriptSteps(upstream, { gate, steps: 8 });
    const runId = await begin(first);
    await first.hub.leave();
    const closed = first.close();
    await eventually(() => Promise.resolve(first.hub.start.live.isLeaving || null));
    open();
    await closed;
    const [row] = await eventually(async () => {
      const rows = await second.hub.start.db.read`select lease_epoch::int as epoch, status
        from hub.runs where 'run_' || replace(run_id::text, '-', '') = ${runId}
          and status = 'completed'`;
      return rows.length === 1 ? rows : null;
    });
    // Released under an epoch of nobody, then claimed; more than once when the one that leaves has looked in between.
    assert.ok(row?.epoch >= 3, JSON.stringify(row));
    assert.match(await streamOf(second, runId), /"type":"tool-output-available"/);
  });
}
