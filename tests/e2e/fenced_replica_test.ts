import assert from "node:assert/strict";
import postgres from "postgres";
import { type Id, toUuid } from "../../src/core/id.ts";
import { noneWith, processesWith } from "../support/processes.ts";
import { startTestPostgres } from "../support/postgres.ts";
import {
  chatStream,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { startTcpProxy, type TcpProxy } from "../support/tcp_proxy.ts";
import { eventually, startTestHub, type TestHub } from "../support/test_hub.ts";

interface Rig {
  hub: TestHub;
  upstream: ScriptedUpstream;
  /** Between the hub and its Postgres. */
  proxy: TcpProxy;
  sql: postgres.Sql;
}

/** A replica whose agent runs scripts, with a lease that is short. */
async function withReplica(body: (rig: Rig) => Promise<void>): Promise<void> {
  const upstream = await startScriptedUpstream();
  const server = await startTestPostgres();
  const proxy = await startTcpProxy(server.url);
  const sql = postgres(server.url, { max: 1, onnotice() {} });
  const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "loophub-fenced-" }));
  const [dir, dataDir] = [`${base}/workspace`, `${base}/data`];
  await Deno.mkdir(dir);
  await Deno.mkdir(dataDir);
  const hub = await startTestHub({
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    workspace: { dir, securityMode: "full-control", shell: { script: true }, approval: "never" },
    agents: { default: { tools: ["shell.script"] } },
    runs: { leaseMs: 6000 },
  }, { databaseUrl: proxy.through(server.url), dataDir });
  try {
    await body({ hub, upstream, proxy, sql });
  } finally {
    await hub.close();
    await sql.end();
    await proxy.stop();
    await server.stop();
    await upstream.stop();
    await Deno.remove(base, { recursive: true });
  }
}

/** Begins a run; its stream is read until it ends or breaks. */
async function begin(hub: TestHub) {
  const session = (await (await hub.call("/v1/sessions", { body: {} })).json()).id;
  const answer = await hub.call(`/v1/sessions/${session}/messages`, { body: { text: "Go" } });
  assert.equal(answer.status, 200);
  const state = { text: "" };
  const read = async () => {
    try {
      for await (const piece of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        state.text += piece;
      }
    } catch {
      // It breaks where the replica loses the run.
    }
  };
  return { runId: answer.headers.get("x-loophub-run") ?? "", state, over: read() };
}

/** Begins a run whose one tool call is under way when this resolves: two processes that would stay for ten minutes. */
async function beginTool({ hub, upstream }: Rig) {
  const mark = `mark-${crypto.randomUUID()}`;
  const script = `(sleep 600; : ${mark}) & trap "" TERM; sleep 600; : ${mark}`;
  const input = { script, cwd: null, timeoutMs: null };
  upstream.script(chatStream({ toolCalls: [{ name: "shell_script", arguments: input }] }));
  const asked = upstream.requests.length;
  const run = await begin(hub);
  await eventually(async () => (await processesWith(mark)).length > 0 || null);
  return { ...run, mark, asked: () => upstream.requests.length - asked };
}

/** What another replica's claim does to the run. */
const takeAway = (sql: postgres.Sql, runId: string) =>
  sql`update hub.runs set lease_owner = 'other', lease_epoch = lease_epoch + 1,
    lease_until = now() + interval '10 minutes' where run_id = ${toUuid(runId as Id)}`;

/** The run as Postgres has it, with the last number of its log. */
const stored = async (sql: postgres.Sql, runId: string) => {
  const [row] = await sql`select r.status, r.lease_owner as owner, r.lease_epoch::int as epoch,
    r.last_seq::int as last, (select max(seq_to)::int from hub.run_events e where e.run_id = r.run_id) as logged,
    (select string_agg(state, ' ') from hub.tool_calls c where c.run_id = r.run_id) as calls
    from hub.runs r where r.run_id = ${toUuid(runId as Id)}`;
  return row;
};

const isBroken = (text: string) => !text.includes('"finish"') && !text.includes("[DONE]");

Deno.test("a replica whose run is another's lets go of it at once", async (t) => {
  await withReplica(async (rig) => {
    const { hub, upstream, sql, proxy } = rig;

    await t.step("a tool that runs is killed, and nothing is written of it", async () => {
      const run = await beginTool(rig);
      await takeAway(sql, run.runId);
      const before = await stored(sql, run.runId);
      await noneWith(run.mark);
      await run.over;
      assert.ok(isBroken(run.state.text), run.state.text);
      await eventually(() => hub.hub.start.live.size === 0 || null);
      assert.deepEqual(await stored(sql, run.runId), before);
      assert.deepEqual([before?.["owner"], before?.["calls"]], ["other", "started"]);
      // The model is not told of a tool that was killed.
      assert.equal(run.asked(), 1);
    });

    await t.step("the upstream's answer is closed, and nothing is written of it", async () => {
      upstream.script(chatStream({ text: "One two", endAfter: 2, end: "stall" }));
      const closed = upstream.closedByClient.length;
      const run = await begin(hub);
      await eventually(async () => Number((await stored(sql, run.runId))?.["last"]) >= 3 || null);
      await takeAway(sql, run.runId);
      const before = await stored(sql, run.runId);
      await upstream.until(() => upstream.closedByClient.length === closed + 1);
      await run.over;
      assert.ok(isBroken(run.state.text), run.state.text);
      await eventually(() => hub.hub.start.live.size === 0 || null);
      assert.deepEqual(await stored(sql, run.runId), before);
    });

    await t.step("one that does not reach Postgres kills its tool by its own clock", async () => {
      const run = await beginTool(rig);
      await proxy.set("stall");
      try {
        await noneWith(run.mark);
        await run.over;
        assert.ok(isBroken(run.state.text), run.state.text);
        const { calls, status } = await stored(sql, run.runId) ?? assert.fail("no run");
        assert.deepEqual([calls, status], ["started", "running"]);
      } finally {
        await proxy.set("pass");
      }
    });
  });
});
