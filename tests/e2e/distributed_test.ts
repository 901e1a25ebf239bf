import assert from "node:assert/strict";
import { startPickyPostgres } from "../support/picky_postgres.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { scriptSteps } from "../support/trouble_rig.ts";
import { eventually, startTestHub, type TestConfig, type TestHub } from "../support/test_hub.ts";

const OFF = { prepare: false, notify: false, skipLocked: false };
const ON = { prepare: true, notify: true, skipLocked: true };

/** Hubs with these switches at a door that refuses what they are about. */
async function withDoor(
  database: typeof OFF,
  body: (
    parts: {
      start(): Promise<TestHub & { close(): Promise<void> }>;
      upstream: Awaited<ReturnType<typeof startScriptedUpstream>>;
      refused: readonly string[];
    },
  ) => Promise<void>,
): Promise<void> {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres();
  const door = await startPickyPostgres(postgres.url);
  const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-door-" });
  const config: TestConfig = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    runs: { leaseMs: 1000 },
    server: { shutdownDelayMs: 0, shutdownGraceMs: 5000 },
    database,
  };
  const hubs: (TestHub & { close(): Promise<void> })[] = [];
  try {
    await body({
      async start() {
        const key = hubs[0]?.key;
        const options = { databaseUrl: door.url, dataDir, ...(key === undefined ? {} : { key }) };
        const hub = await startTestHub(config, options);
        hubs.push(hub);
        return hub;
      },
      upstream,
      refused: door.refused,
    });
  } finally {
    for (const hub of hubs) await hub.close();
    await door.stop();
    await postgres.stop();
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

Deno.test("with the switches off replicas work where there is no NOTIFY, SKIP LOCKED or prepared statement", async (t) => {
  await withDoor(OFF, async ({ start, upstream, refused }) => {
    const first = await start();
    const second = await start();

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
      scriptSteps(upstream, { gate, steps: 2 });
      const runId = await begin(first);
      await first.hub.leave();
      const closed = first.close();
      open();
      await closed;
      const [row] = await eventually(async () => {
        const rows = await second.hub.start.db.read`select lease_epoch::int as epoch, status
          from hub.runs where 'run_' || replace(run_id::text, '-', '') = ${runId}
            and status = 'completed'`;
        return rows.length === 1 ? rows : null;
      });
      assert.deepEqual({ ...row }, { epoch: 2, status: "completed" });
      assert.match(await streamOf(second, runId), /"type":"tool-output-available"/);
    });

    assert.deepEqual(refused, []);
  });
});

Deno.test("with the switches on the same door refuses a hub what they are about", async () => {
  await withDoor(ON, async ({ start, refused }) => {
    const said = (pattern: RegExp) =>
      eventually(() => Promise.resolve(refused.some((text) => pattern.test(text)) || null));
    await assert.rejects(start(), { code: "internal_error" });
    await said(/^a prepared statement: /);
  });
  await withDoor({ ...ON, prepare: false }, async ({ start, refused }) => {
    const said = (pattern: RegExp) =>
      eventually(() => Promise.resolve(refused.some((text) => pattern.test(text)) || null));
    await start();
    await said(/^LISTEN: listen loophub$/);
    await said(/^SKIP LOCKED: /);
  });
});
