import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent } from "../../src/core/event.ts";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { readQuestion } from "../../src/core/run_question.ts";
import { type AskingServer, startAsking } from "../support/asking_server.ts";
import { command } from "../support/hub_process.ts";
import { logOf } from "../support/log_of.ts";
import { startTestPostgres } from "../support/postgres.ts";
import {
  chatStream,
  type RecordedRequest,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, startTestHub, type TestHub, withReplicas } from "../support/test_hub.ts";

const ACCEPT = { action: "accept", content: { colour: "red" } };

interface Rig {
  first: TestHub;
  second: TestHub;
  server: AskingServer;
  upstream: ScriptedUpstream;
  requests: RecordedRequest[];
}

/** A question as the API shows it. */
interface Asked {
  id: string;
  source: string;
  kind: string;
  message: string;
  schema?: Json;
  url?: string;
  model?: string;
  maxTokens?: number;
  state: string;
  decidedBy: string | null;
}

/** An agent that calls one tool of a server in its first step, and then says a word. */
function scriptOne(upstream: ScriptedUpstream, tool: string): RecordedRequest[] {
  const requests: RecordedRequest[] = [];
  upstream.script((request) => {
    requests.push(request);
    return requests.length > 1
      ? chatStream({ text: "Done" })
      : chatStream({ toolCalls: [{ name: `peer__${tool}`, arguments: {} }] });
  });
  return requests;
}

function configOf(
  { url, upstream, runs = {}, peer = {}, server = {} }: {
    url: string;
    upstream: ScriptedUpstream;
    runs?: JsonObject;
    peer?: JsonObject;
    server?: JsonObject;
  },
) {
  return {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    agents: { default: { tools: ["*__*"] }, shy: { tools: ["*__*"], questions: false } },
    mcpServers: { peer: { url, ...peer } },
    runs: { leaseMs: 5000, ...runs },
    server,
  };
}

async function withTwo(
  { era = "legacy", ...settings }: {
    era?: "legacy" | "modern";
    runs?: JsonObject;
    peer?: JsonObject;
    server?: JsonObject;
  },
  body: (rig: Omit<Rig, "requests">) => Promise<void>,
): Promise<void> {
  const server = startAsking(era);
  const upstream = await startScriptedUpstream();
  const config = configOf({ url: server.url, upstream, ...settings });
  try {
    await withReplicas([config, config], async (first, second) => {
      await first.hub.mcp.settled(10_000);
      await body({ first, second, server, upstream });
    });
  } finally {
    await upstream.stop();
    await server.stop();
  }
}

async function start(hub: TestHub, agent = "default") {
  const session = await (await hub.call("/v1/sessions", { body: { agent } })).json();
  const answer = await hub.call(`/v1/sessions/${session.id}/messages`, { body: { text: "Go" } });
  assert.equal(answer.status, 200);
  return { runId: answer.headers.get("x-loophub-run") ?? "", stream: answer.text() };
}

async function questionsOf(hub: TestHub, runId: string): Promise<Asked[]> {
  return (await (await hub.call(`/v1/runs/${runId}/questions`)).json()).data;
}

async function untilAsked(hub: TestHub, runId: string): Promise<Asked> {
  return await eventually(async () => (await questionsOf(hub, runId))[0]);
}

async function answer(hub: TestHub, runId: string, id: string, body: JsonObject) {
  const reply = await hub.call(`/v1/runs/${runId}/questions/${id}`, { body });
  return { status: reply.status, ...await reply.json() };
}

/** The run's log, checked, as its stream told it and as the other replica replays it. */
async function logOfRun(stream: Promise<string>, other: TestHub, runId: string) {
  const live = await stream;
  const log = logOf(live);
  assert.deepEqual(checkLog(log), []);
  const replay = await (await other.call(`/v1/runs/${runId}/stream`)).text();
  assert.deepEqual(logOf(replay), log);
  return log.map(({ event }) => event);
}

const statesIn = (events: readonly HubEvent[]) =>
  events.flatMap((event) => event.type === "data" ? readQuestion(event)?.state ?? [] : []);

const outputOf = (events: readonly HubEvent[]): string =>
  JSON.stringify(events.find((event) => event.type.startsWith("tool-output")));

/** Everything that Postgres holds of the run. */
async function storedOf(hub: TestHub): Promise<string> {
  const { db } = hub.hub.start;
  const rows = await db.read`
    select (select json_agg(events) from hub.run_events) as events, (select json_agg(p) from hub.parts p) as parts,
      (select json_agg(q) from hub.questions q) as questions`;
  return JSON.stringify(rows);
}

for (const era of ["legacy", "modern"] as const) {
  Deno.test(`what a ${era} server asks in a run is answered on any replica, once`, async () => {
    await withTwo({ era, peer: { timeoutMs: 10_000 } }, async ({ first, second, upstream }) => {
      const requests = scriptOne(upstream, "paint");
      const { runId, stream } = await start(first);
      const asked = await untilAsked(second, runId);
      assert.deepEqual(
        [asked.source, asked.kind, asked.message, asked.state],
        ["peer", "form", "Which\\u202e colour?", "pending"],
      );
      assert.match(JSON.stringify(asked.schema), /"required":\["colour"\]/);
      for (
        const [body, why] of [
          [{ action: "accept", content: { colour: 5, size: "x" } }, /\/size: wanted integer/],
          [{ action: "accept" }, /\/colour: wanted/],
          [{ action: "decline", content: { colour: "red" } }, /accept and a form alone/],
          [{ action: "shrug" }, /action/],
        ] as const
      ) {
        const wrong = await answer(second, runId, asked.id, body as JsonObject);
        assert.equal(wrong.status, 400);
        assert.match(wrong.error.message, why);
      }
      const both = await Promise.all(
        [first, second].map((hub) => answer(hub, runId, asked.id, ACCEPT)),
      );
      assert.deepEqual(both.map(({ status }) => status).sort(), [200, 409]);
      const won = both.find(({ status }) => status === 200);
      const lost = both.find(({ status }) => status === 409);
      assert.equal(won?.state, "answered");
      assert.match(won?.decidedBy, /^key_/);
      assert.equal(lost?.error.code, "question_answered");
      const events = await logOfRun(stream, second, runId);
      assert.deepEqual(statesIn(events), ["pending", "answered"]);
      const output = outputOf(events);
      assert.match(output, /accept/);
      assert.match(output, /\\"colour\\":\\"red\\"/);
      assert.match(output, /\\"size\\":7/);
      assert.match(JSON.stringify(requests[1]?.json.messages), /accept/);
      const other = await first.call("/v1/runs/run_00000000000000000000000000000000/questions");
      assert.equal(other.status, 404);
    });
  });

  Deno.test(`a password that a ${era} server asks for is kept nowhere, an address is opened by the person`, async () => {
    await withTwo({ era, peer: { trace: true } }, async ({ first, second, upstream }) => {
      scriptOne(upstream, "login");
      const { runId, stream } = await start(first);
      const { id } = await untilAsked(second, runId);
      const secret = "tr0ub4dor&3";
      const mail = { mail: "nobody", password: 12_345_678 };
      const wrong = await answer(second, runId, id, {
        action: "accept",
        content: mail as unknown as JsonObject,
      });
      assert.equal(wrong.status, 400);
      assert.doesNotMatch(wrong.error.message, /12345678/);
      const notMail = { mail: "nobody", password: "long enough" };
      const odd = await answer(second, runId, id, { action: "accept", content: notMail });
      assert.match(odd.error.message, /\/mail: wanted the format email/);
      const content = { mail: "nobody@example.com", password: secret };
      assert.equal((await answer(second, runId, id, { action: "accept", content })).status, 200);
      assert.match(outputOf(await logOfRun(stream, second, runId)), /\\"length\\":11/);
      const stored = await storedOf(first);
      assert.ok(!stored.includes(secret) && !stored.includes("nobody@"), stored);
      assert.match(stored, /"ciphertext":null/);
      const trace = await (await first.call("/v1/admin/mcp/peer/logs")).text();
      assert.match(trace, /redacted/);
      assert.ok(!trace.includes(secret));

      scriptOne(upstream, "visit");
      const visit = await start(first);
      const asked = await untilAsked(second, visit.runId);
      assert.deepEqual([asked.kind, asked.url], ["url", "https://example.com/sign?in=1"]);
      await answer(second, visit.runId, asked.id, { action: "accept" });
      const events = await logOfRun(visit.stream, second, visit.runId);
      assert.match(outputOf(events), /accept/);
    });
  });
}

Deno.test("the time of a person is not the call's", async () => {
  const peer = { timeoutMs: 1000, totalTimeoutMs: 1000 };
  await withTwo({ peer }, async ({ first, second, upstream }) => {
    scriptOne(upstream, "paint");
    const { runId, stream } = await start(first);
    const asked = await untilAsked(second, runId);
    const fromMs = performance.now();
    await eventually(() => performance.now() - fromMs > 1500 || null);
    await answer(second, runId, asked.id, ACCEPT);
    assert.match(outputOf(await logOfRun(stream, second, runId)), /\\"colour\\":\\"red\\"/);
  });
});

Deno.test("nobody is waited for without an end, and the model is told", async () => {
  await withTwo({ runs: { questionTimeoutMs: 1000 } }, async ({ first, second, upstream }) => {
    const requests = scriptOne(upstream, "paint");
    const { runId, stream } = await start(first);
    const events = await logOfRun(stream, second, runId);
    assert.deepEqual(statesIn(events), ["pending", "expired"]);
    assert.match(outputOf(events), /cancel/);
    assert.match(
      JSON.stringify(requests[1]?.json.messages),
      /nobody answered in time what the tool has asked: .*Which\\+u202e colour/,
    );
    const [asked] = await questionsOf(second, runId);
    assert.equal(asked?.state, "expired");
    const late = await answer(second, runId, asked?.id ?? "", ACCEPT);
    assert.deepEqual([late.status, late.error.code], [409, "question_expired"]);
  });
});

Deno.test("a run that is stopped asks nobody any more; one that may ask nobody declines at once", async () => {
  await withTwo({}, async ({ first, second, upstream }) => {
    scriptOne(upstream, "paint");
    const { runId, stream } = await start(first);
    const asked = await untilAsked(second, runId);
    assert.equal((await second.call(`/v1/runs/${runId}/stop`, { body: {} })).status, 202);
    const late = await answer(second, runId, asked.id, ACCEPT);
    assert.deepEqual([late.status, late.error.code], [409, "question_cancelled"]);
    const events = await logOfRun(stream, second, runId);
    assert.deepEqual(statesIn(events), ["pending", "cancelled"]);
    assert.ok(events.some(({ type }) => type === "abort"));
    assert.equal((await questionsOf(second, runId))[0]?.state, "cancelled");

    scriptOne(upstream, "paint");
    const shy = await start(first, "shy");
    assert.match(outputOf(await logOfRun(shy.stream, second, shy.runId)), /decline/);
    assert.deepEqual(await questionsOf(first, shy.runId), []);
  });
});

Deno.test("a replica that stops asks nobody any more, and its run goes on elsewhere", async () => {
  const server = { shutdownDelayMs: 0, shutdownGraceMs: 20_000 };
  await withTwo({ server }, async ({ first, second, upstream }) => {
    scriptOne(upstream, "paint");
    const { runId, stream } = await start(first);
    stream.catch(() => {});
    await untilAsked(second, runId);
    await first.hub.leave();
    await first.hub.close();
    await eventually(async () =>
      (await (await second.call(`/v1/runs/${runId}`)).json()).status === "completed" || null
    );
    const log = logOf(await (await second.call(`/v1/runs/${runId}/stream`)).text());
    assert.deepEqual(checkLog(log), []);
    const events = log.map(({ event }) => event);
    assert.deepEqual(statesIn(events), ["pending", "cancelled"]);
    assert.match(outputOf(events), /tool-output-available.*cancel/);
  });
});

Deno.test("a model is asked for a server in a run once a person has approved it", async () => {
  const peer = { sampling: { approval: "ask", model: "one/small", maxTokens: 50 } };
  await withTwo({ peer }, async ({ first, second, upstream }) => {
    for (const action of ["accept", "decline"]) {
      const models: string[] = [];
      const wish = { messages: [{ role: "user", content: { type: "text", text: "What is 2?" } }] };
      upstream.script(({ json }) => {
        models.push(String(json.model));
        if (models.length > 1) return chatStream({ text: json.model === "small" ? "Two" : "Done" });
        const call = { name: "peer__think", arguments: { ...wish, maxTokens: 400 } };
        return chatStream({ toolCalls: [call] });
      });
      const { runId, stream } = await start(first);
      const asked = await untilAsked(second, runId);
      assert.deepEqual([asked.kind, asked.model, asked.maxTokens], ["sampling", "one/small", 50]);
      assert.equal(
        asked.message,
        "May the model one/small be asked this, for at most 50 tokens? What is 2?",
      );
      assert.deepEqual(models, ["m"]);
      assert.equal((await answer(second, runId, asked.id, { action })).status, 200);
      const output = outputOf(await logOfRun(stream, second, runId));
      assert.match(output, action === "accept" ? /Two/ : /Nobody has approved it/);
      assert.deepEqual(models, action === "accept" ? ["m", "small", "m"] : ["m", "m"]);
    }
  });
});

Deno.test("AI SDK clients see what is asked, and what became of it", async () => {
  await withTwo({}, async ({ first, second, upstream }) => {
    scriptOne(upstream, "paint");
    const reply = await first.call("/api/chat", {
      body: {
        id: "chat_1",
        trigger: "submit-message",
        messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "Go" }] }],
      },
    });
    const text = reply.text();
    const runId = await eventually(async () => {
      const rows = await first.hub.start.db.read<{ id: string }[]>`
        select run as id from hub.pending_questions`;
      return rows[0]?.id;
    });
    const { id } = await untilAsked(second, runId);
    await answer(second, runId, id, { action: "decline" });
    const chunks = (await text).split("\n\n").filter((frame) => frame.startsWith("data: {"))
      .map((frame) => JSON.parse(frame.slice(6)));
    const shown = chunks.filter(({ type }) => type === "data-question");
    assert.deepEqual(shown.map((chunk) => [chunk.id, chunk.data.state]), [
      [id, "pending"],
      [id, "declined"],
    ]);
  });
});

Deno.test("a question ends with the replica whose call asked it; the command line answers others", async () => {
  const server = startAsking("legacy");
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-questions-" });
  const config = configOf({ url: server.url, upstream });
  const options = { databaseUrl: postgres.url, dataDir: `${folder}/data` };
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  const first = await startTestHub(config, options);
  let second: Awaited<ReturnType<typeof startTestHub>> | null = null;
  try {
    await first.hub.mcp.settled(10_000);
    const requests = scriptOne(upstream, "paint");
    const { runId, stream } = await start(first);
    stream.catch(() => {});
    const asked = await untilAsked(first, runId);
    const { db } = first.hub.start;
    await db
      .control`update hub.runs set lease_epoch = lease_epoch + 1, lease_until = now(), lease_owner = 'gone'`;
    second = await startTestHub(config, { ...options, key: first.key });
    const next = second;
    await eventually(async () =>
      (await (await next.call(`/v1/runs/${runId}`)).json()).status === "completed" || null
    );
    const log = logOf(await (await next.call(`/v1/runs/${runId}/stream`)).text());
    assert.deepEqual(checkLog(log), []);
    const events = log.map(({ event }) => event);
    assert.deepEqual(statesIn(events), ["pending", "cancelled"]);
    assert.match(outputOf(events), /outcome unknown/);
    assert.match(JSON.stringify(requests.at(-1)?.json.messages), /outcome unknown/);
    const late = await answer(next, runId, asked.id, ACCEPT);
    assert.deepEqual([late.status, late.error.code], [409, "question_cancelled"]);

    await next.hub.mcp.settled(10_000);
    scriptOne(upstream, "paint");
    const again = await start(next);
    const { id } = await untilAsked(next, again.runId);
    const runs = (...args: string[]) =>
      command(folder, ["runs", ...args], { DATABASE_URL: postgres.url });
    const wrong = await runs("answer", again.runId, id, "accept", '{"size":"x"}');
    assert.equal(wrong.code, 1);
    assert.match(wrong.err, /content does not fit/);
    const said = await runs("answer", again.runId, id, "accept", '{"colour":"blue"}');
    assert.deepEqual([said.code, said.out], [0, "peer is answered\n"], said.err);
    const text = await again.stream;
    assert.match(text, /blue/);
  } finally {
    await second?.close();
    await first.close();
    await postgres.stop();
    await upstream.stop();
    await server.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
