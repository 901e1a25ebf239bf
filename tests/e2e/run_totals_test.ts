import assert from "node:assert/strict";
import postgres from "postgres";
import type { SequencedEvent } from "../../src/core/event.ts";
import { checkLog } from "../../src/core/check_log.ts";
import { type Id, toUuid } from "../../src/core/id.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { startHubProcess } from "../support/hub_process.ts";
import { logOf } from "../support/log_of.ts";
import { startTestPostgres } from "../support/postgres.ts";
import {
  chatStream,
  type Reply,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, startTestHub, type TestHub, withHub } from "../support/test_hub.ts";

const PRICE = { inputPerMillion: 1000, outputPerMillion: 2000 };
const usage = { promptTokens: 20, completionTokens: 4 };
const toolCalls = [{ name: "hub_calculate", arguments: { expression: "6*7" } }];
const CALL = chatStream({ toolCalls, usage });
const ANSWER = chatStream({ text: "It is 42.", usage });
const cut = (end: "cut" | "stall") => chatStream({ text: "One two three four", endAfter: 3, end });

const configOf = (upstream: ScriptedUpstream, more: JsonObject = {}): JsonObject => ({
  providers: {
    one: { baseUrl: upstream.url, maxRetries: 0, models: { m: { pricing: PRICE } } },
  },
  defaultModel: "one/m",
  ...more,
});

interface Totals {
  prompt: number;
  completion: number;
  cost: number | null;
}

const shown = ({ usage, costMicros }: {
  usage: { promptTokens: number; completionTokens: number };
  costMicros: number | null;
}): Totals => ({
  prompt: usage.promptTokens,
  completion: usage.completionTokens,
  cost: costMicros,
});

/** Compares every place that tells what a run has used with its usage rows, and gives these. */
async function assertTotals(hub: TestHub, runId: string, rows: number): Promise<Totals[]> {
  const run = await eventually(async () => {
    const run = await (await hub.call(`/v1/runs/${runId}`)).json();
    return run.status === "running" || run.status === "queued" ? null : run;
  });
  const sql = postgres(hub.databaseUrl, { max: 1 });
  try {
    const uuid = toUuid(runId as Id);
    const written = await eventually(async () => {
      const found = await sql<(Totals & { estimated: boolean })[]>`
        select prompt_tokens::int as prompt, completion_tokens::int as completion, cost_micros::int as cost, estimated
        from hub.usage where run_id = ${uuid} order by started_at, usage_id`;
      return found.length >= rows ? [...found] : null;
    });
    assert.equal(written.length, rows);
    const sum = (of: (row: Totals) => number | null) =>
      written.reduce((total, row) => total + (of(row) ?? 0), 0);
    const wanted: Totals = {
      prompt: sum(({ prompt }) => prompt),
      completion: sum(({ completion }) => completion),
      cost: sum(({ cost }) => cost),
    };
    assert.ok(written.every(({ cost }) => cost !== null && cost > 0), JSON.stringify(written));
    const estimated = written.some((row) => row.estimated);
    assert.deepEqual(shown(run), wanted, "the run");
    assert.equal(run.estimated, estimated);
    const log = logOf(await (await hub.call(`/v1/runs/${runId}/stream`)).text());
    assert.deepEqual(checkLog(log as SequencedEvent[]), []);
    const finish = log.at(-1)?.event;
    assert.ok(finish?.type === "finish");
    assert.deepEqual(shown(finish), wanted, "the finish event");
    assert.equal(finish.estimated ?? false, estimated);
    const session = await (await hub.call(`/v1/sessions/${run.sessionId}`)).json();
    assert.deepEqual(shown(session), wanted, "the session");
    const list = await (await hub.call(`/v1/sessions/${run.sessionId}/messages`)).json();
    const { metadata } = list.data.at(-1);
    assert.deepEqual(shown(metadata), wanted, "the message");
    const [row] =
      await sql`select prompt_tokens::int as prompt, completion_tokens::int as completion,
      cost_micros::int as cost from hub.runs where run_id = ${uuid}`;
    assert.deepEqual({ ...row }, wanted, "the row");
    const steps =
      await sql`select coalesce(sum(cost_micros), 0)::int as cost from hub.steps where run_id = ${uuid}`;
    assert.ok(Number(steps[0]?.["cost"]) <= (wanted.cost ?? 0));
    return written;
  } finally {
    await sql.end();
  }
}

async function begin(hub: TestHub, body: JsonObject = {}) {
  const { id } = await (await hub.call("/v1/sessions", { body: {} })).json();
  const answer = await hub.call(`/v1/sessions/${id}/messages`, { body: { text: "Go", ...body } });
  assert.equal(answer.status, 200, answer.ok ? "" : await answer.text());
  return { answer, runId: answer.headers.get("x-loophub-run") ?? "" };
}

async function withUpstream(
  replies: (Reply | (() => Promise<Reply>))[],
  body: (hub: TestHub, upstream: ScriptedUpstream) => Promise<void>,
): Promise<void> {
  const upstream = await startScriptedUpstream();
  try {
    upstream.script(replies);
    await withHub(configOf(upstream), (hub) => body(hub, upstream));
  } finally {
    await upstream.stop();
  }
}

Deno.test("totals of a run: an answer that was cut, and asked for again, counts with its estimate", async () => {
  await withUpstream([CALL, cut("cut"), ANSWER], async (hub) => {
    const { answer, runId } = await begin(hub);
    assert.match(await answer.text(), /It is 42/);
    await assertTotals(hub, runId, 3);
  });
});

Deno.test("totals of a run: whose answers were all cut", async () => {
  await withUpstream([cut("cut"), cut("cut"), cut("cut")], async (hub) => {
    const { answer, runId } = await begin(hub);
    assert.match(await answer.text(), /"finishReason":"error"/);
    await assertTotals(hub, runId, 3);
  });
});

Deno.test("totals of a run: an answer without usage counts with its estimate", async () => {
  await withUpstream([chatStream({ text: "It is 42." })], async (hub) => {
    const { answer, runId } = await begin(hub);
    await answer.text();
    await assertTotals(hub, runId, 1);
  });
});

Deno.test("totals of a run: one that is stopped in mid-answer", async () => {
  await withUpstream([CALL, cut("stall")], async (hub, upstream) => {
    const { answer, runId } = await begin(hub);
    const reader = (answer.body ?? assert.fail("no body")).getReader();
    const decoder = new TextDecoder();
    for (let text = ""; !text.includes("One ");) {
      text += decoder.decode((await reader.read()).value, { stream: true });
    }
    const stopped = await hub.call(`/v1/runs/${runId}/stop`, { body: {} });
    assert.ok(stopped.ok, await stopped.text());
    await reader.cancel();
    assert.equal(upstream.requests.length, 2);
    await assertTotals(hub, runId, 2);
  });
});

Deno.test("totals of a run: one that is stopped before its model says a word", async () => {
  const never = new Promise<Reply>(() => {});
  for (const reply of [() => never, chatStream({ text: "One", endAfter: 1, end: "stall" })]) {
    await withUpstream([CALL, reply], async (hub, upstream) => {
      const { answer, runId } = await begin(hub);
      const read = answer.text();
      await upstream.until(() => upstream.requests.length === 2);
      await hub.call(`/v1/runs/${runId}/stop`, { body: {} });
      await read;
      await assertTotals(hub, runId, 2);
    });
  }
});

Deno.test("totals of a run: an agent as a model, whose client leaves", async () => {
  await withUpstream([cut("stall")], async (hub, upstream) => {
    const controller = new AbortController();
    const answer = await fetch(`${hub.url}/v1/chat/completions`, {
      method: "POST",
      signal: controller.signal,
      headers: { authorization: `Bearer ${hub.key}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: "agent/default",
        stream: true,
        messages: [{ role: "user", content: "Go" }],
      }),
    });
    const runId = answer.headers.get("x-loophub-run") ?? "";
    assert.match(runId, /^run_/);
    await upstream.until(() => upstream.requests.length === 1);
    controller.abort();
    await answer.body?.cancel().catch(() => {});
    await assertTotals(hub, runId, 1);
  });
});

Deno.test("totals of a run: one whose hub was killed, in mid-answer and between two steps", async () => {
  const upstream = await startScriptedUpstream();
  const database = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-totals-" });
  const config = configOf(upstream, { runs: { leaseMs: 5000 } });
  try {
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    upstream.script([CALL, cut("stall")]);
    const first = await startHubProcess(folder, { DATABASE_URL: database.url });
    let key: string;
    let runId: string;
    try {
      key = await eventually(() => first.key());
      const session = (await (await first.post("/v1/sessions", {})).json()).id;
      const stream = await first.post(`/v1/sessions/${session}/messages`, { text: "Go" });
      runId = stream.headers.get("x-loophub-run") ?? "";
      const read = stream.text().catch(() => "");
      const sql = postgres(database.url, { max: 1 });
      await upstream.until(() => upstream.requests.length === 2);
      await eventually(async () =>
        (await sql`select 1 from hub.model_calls where run_id = ${
          toUuid(runId as Id)
        } and step = 1`)[0]
      ).finally(() => sql.end());
      await first.end("SIGKILL");
      await read;
    } catch (error) {
      await first.end("SIGKILL");
      throw error;
    }
    upstream.script(ANSWER);
    const dataDir = `${folder}/data`;
    const second = await startTestHub(config, { databaseUrl: database.url, dataDir, key });
    try {
      const rows = await assertTotals(second, runId, 3);
      assert.equal(rows.filter(({ prompt }) => prompt === 20).length, 2);
    } finally {
      await second.close();
    }
  } finally {
    await upstream.stop();
    await database.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
