import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import { readRun } from "../../src/store/runs.ts";
import { addSteering, listSteering } from "../../src/store/steering.ts";
import { beginRun, tenantId, write } from "../run/run_rig.ts";
import { startHubProcess } from "../support/hub_process.ts";
import { logOf } from "../support/log_of.ts";
import { startTestPostgres, testIds, withDatabase } from "../support/postgres.ts";
import {
  chatStream,
  type RecordedRequest,
  type Script,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, startTestHub, type TestHub, withReplicas } from "../support/test_hub.ts";

const CALL = chatStream({ toolCalls: [{ name: "hub_current_time", arguments: {} }] });

/** What the users say in a request, in order. */
const usersOf = (request: RecordedRequest): string[] =>
  request.messages.flatMap(({ role, content }) => role === "user" ? [content] : []);

async function withTwo(
  body: (parts: { first: TestHub; second: TestHub; upstream: ScriptedUpstream }) => Promise<void>,
): Promise<void> {
  const upstream = await startScriptedUpstream();
  const config = { providers: { one: { baseUrl: upstream.url } }, defaultModel: "one/m" };
  try {
    await withReplicas(
      [config, config],
      (first, second) => body({ first, second, upstream }),
    );
  } finally {
    await upstream.stop();
  }
}

/** Starts a run whose stream nobody has to read; gives it and its session. */
async function start(hub: Pick<TestHub, "call">) {
  const session: string = (await (await hub.call("/v1/sessions", { body: {} })).json()).id;
  const answer = await hub.call(`/v1/sessions/${session}/messages`, { body: { text: "Go" } });
  assert.equal(answer.status, 200);
  return { session, runId: answer.headers.get("x-loophub-run") ?? "", stream: answer.text() };
}

async function steer(hub: TestHub, runId: string, body: Record<string, string>) {
  const answer = await hub.call(`/v1/runs/${runId}/steer`, { body });
  return { status: answer.status, ...await answer.json() };
}

const statesOf = async (hub: TestHub, runId: string) =>
  (await (await hub.call(`/v1/runs/${runId}`)).json()).steering
    .map(({ text, state }: { text: string; state: string }) => `${text} ${state}`);

Deno.test("a run is steered through the replica that does not drive it", async (t) => {
  await withTwo(async ({ first, second, upstream }) => {
    await t.step("steers at the next step, queued ones at the end, each once", async () => {
      const asked: string[][] = [];
      const during: ((runId: string) => Promise<void>)[] = [
        async (runId) => {
          const said = await steer(second, runId, { text: "one", id: "a" });
          assert.equal(said.status, 202);
          assert.deepEqual([said.kind, said.state, said.clientId], ["steer", "pending", "a"]);
          assert.equal((await steer(second, runId, { text: "two", kind: "queue" })).status, 202);
          assert.equal((await steer(first, runId, { text: "three" })).status, 202);
          const again = await steer(first, runId, { text: "one", id: "a" });
          assert.deepEqual([again.status, again.id], [202, said.id]);
          const other = await steer(second, runId, { text: "other", id: "a" });
          assert.deepEqual([other.status, other.error.code], [422, "idempotency_mismatch"]);
          assert.deepEqual(
            await statesOf(first, runId),
            ["one pending", "two pending", "three pending"],
          );
        },
        () => Promise.resolve(),
        async (runId) => {
          assert.equal((await steer(second, runId, { text: "four" })).status, 202);
        },
        () => Promise.resolve(),
      ];
      const begun = Promise.withResolvers<string>();
      let index = 0;
      const script: Script = async (request) => {
        const place = index++;
        asked.push(usersOf(request));
        await during[place]?.(await begun.promise);
        return place === 0 ? CALL : chatStream({ text: `Answer ${place}` });
      };
      upstream.script(script);
      const { session, runId, stream } = await start(first);
      begun.resolve(runId);
      const log = logOf(await stream);
      assert.deepEqual(checkLog(log), []);
      assert.deepEqual(asked, [
        ["Go"],
        ["Go", "one", "three"],
        ["Go", "one", "three", "two"],
        ["Go", "one", "three", "two", "four"],
      ]);
      for (const hub of [first, second]) {
        assert.deepEqual(
          await statesOf(hub, runId),
          ["one applied", "two applied", "three applied", "four applied"],
        );
        const replay = await hub.call(`/v1/runs/${runId}/stream`);
        assert.deepEqual(logOf(await replay.text()), log);
        const late = await steer(hub, runId, { text: "late" });
        assert.deepEqual([late.status, late.error.code], [409, "run_over"]);
        const known = await steer(hub, runId, { text: "one", id: "a" });
        assert.deepEqual([known.status, known.state], [202, "applied"]);
      }
      // A later run reads them at the same places, whoever drives it.
      upstream.script(chatStream({ text: "Good" }));
      const next = await second.call(`/v1/sessions/${session}/messages`, {
        body: { text: "Next", stream: false },
      });
      assert.equal((await next.json()).run.finishReason, "stop");
      const messages = upstream.requests.at(-1)?.messages ?? [];
      assert.deepEqual(messages.map(({ role, content }) => role === "user" ? content : role), [
        ...["Go", "assistant", "tool", "one", "three", "assistant", "two", "assistant", "four"],
        ...["assistant", "Next"],
      ]);
    });

    await t.step("what is said while a tool runs is read in the very next step", async () => {
      for (const teller of [first, second]) {
        const from = upstream.requests.length;
        upstream.script((_, index) =>
          index > from
            ? chatStream({ text: "Done" })
            : chatStream({ toolCalls: [{ name: "hub_wait", arguments: { seconds: 5 } }] })
        );
        const { runId, stream } = await start(first);
        await eventually(async () => {
          const run = await (await second.call(`/v1/runs/${runId}`)).json();
          return run.seq > 4 ? true : null;
        });
        assert.equal((await steer(teller, runId, { text: "meanwhile" })).status, 202);
        assert.deepEqual(checkLog(logOf(await stream)), []);
        assert.equal(upstream.requests.length, from + 2);
        assert.deepEqual(usersOf(upstream.requests[from + 1] ?? assert.fail()), [
          "Go",
          "meanwhile",
        ]);
      }
    });

    await t.step("what a stop comes before is undelivered, and said so", async () => {
      upstream.script(chatStream({ text: "One two", endAfter: 2, end: "stall" }));
      const before = upstream.requests.length;
      const { runId, stream } = await start(first);
      // The step that reads what was said has begun.
      await upstream.until(() => upstream.requests.length > before);
      assert.equal((await steer(second, runId, { text: "unread" })).status, 202);
      await second.call(`/v1/runs/${runId}/stop`, { method: "POST" });
      const refused = await steer(first, runId, { text: "late" });
      assert.deepEqual([refused.status, refused.error.code], [409, "run_over"]);
      const log = logOf(await stream);
      assert.deepEqual(checkLog(log), []);
      const [said, abort] = log.slice(-3).map(({ event }) => event);
      assert.deepEqual(said?.type === "data" && said.data, {
        kind: "steer",
        text: "unread",
        state: "undelivered",
      });
      assert.equal(abort?.type, "abort");
      for (const hub of [first, second]) {
        assert.deepEqual(await statesOf(hub, runId), ["unread undelivered"]);
      }
    });

    await t.step("texts from everywhere while runs end: each is answered for", async () => {
      for (let round = 0; round < 5; round++) {
        upstream.script(() => chatStream({ text: "One two three", delayMs: 2 }));
        const { runId, stream } = await start(first);
        const taken: string[] = [];
        let isOver = false;
        void stream.then(() => isOver = true);
        for (let at = 0; !isOver && at < 40; at++) {
          const hub = at % 2 === 0 ? first : second;
          const { status } = await steer(hub, runId, {
            text: `t${at}`,
            kind: at % 3 === 0 ? "queue" : "steer",
          });
          if (status === 202) taken.push(`t${at} applied`);
          else assert.equal(status, 409);
        }
        assert.deepEqual(checkLog(logOf(await stream)), []);
        assert.deepEqual(await statesOf(second, runId), taken);
      }
    });
  });
});

Deno.test("a text that was read when its replica was killed is read once, at the same place", async () => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-steer-" });
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    runs: { leaseMs: 5000 },
  };
  try {
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    const first = await startHubProcess(folder, { DATABASE_URL: postgres.url });
    let isEnded = false;
    try {
      const key = await eventually(() => Promise.resolve(first.key()));
      const dataDir = `${folder}/data`;
      const second = await startTestHub(config, { databaseUrl: postgres.url, dataDir, key });
      const driver: Pick<TestHub, "call"> = {
        call: (path, { body } = {}) =>
          fetch(first.url + path, {
            method: "POST",
            headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
            body: JSON.stringify(body),
          }),
      };
      try {
        const begun = Promise.withResolvers<string>();
        let index = 0;
        upstream.script(async () => {
          if (index++ > 0) return chatStream({ text: "One", endAfter: 2, end: "stall" });
          const runId = await begun.promise;
          await steer(second, runId, { text: "one", id: "a" });
          await steer(second, runId, { text: "two", kind: "queue" });
          return CALL;
        });
        const { runId, stream } = await start(driver);
        begun.resolve(runId);
        void stream.catch(() => {});
        // Written with the beginning of the step that it was taken for.
        await eventually(async () =>
          (await statesOf(second, runId))[0] === "one applied" ? true : null
        );
        await upstream.until(() => upstream.requests.length === 2);
        upstream.script(() => chatStream({ text: "Done" }));
        isEnded = true;
        await first.end("SIGKILL");
        const run = await eventually(async () => {
          const run = await (await second.call(`/v1/runs/${runId}`)).json();
          return run.status === "running" ? null : run;
        });
        assert.equal(run.status, "completed");
        assert.deepEqual(await statesOf(second, runId), ["one applied", "two applied"]);
        const [, before, after, last] = upstream.requests;
        assert.ok(before !== undefined && after !== undefined && last !== undefined);
        assert.equal(upstream.requests.length, 4);
        assert.equal(JSON.stringify(after.json.messages), JSON.stringify(before.json.messages));
        assert.deepEqual(usersOf(last), ["Go", "one", "two"]);
        const log = logOf(await (await second.call(`/v1/runs/${runId}/stream`)).text());
        assert.deepEqual(checkLog(log), []);
        const said = log.filter(({ event }) => event.type === "data" && event.name === "steering");
        assert.equal(said.length, 2);
        const again = await steer(second, runId, { text: "one", id: "a" });
        assert.deepEqual([again.status, again.state], [202, "applied"]);
      } finally {
        await second.close();
      }
    } finally {
      if (!isEnded) await first.end("SIGKILL");
    }
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a run that was left between two steps is taken up with what was said to it", async () => {
  const upstream = await startScriptedUpstream(() => chatStream({ text: "Done" }));
  const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-left-" });
  try {
    await withDatabase(async (db, databaseUrl) => {
      const run = await beginRun(db);
      const { runId } = run;
      const toolCallId = testIds.next("call");
      const call = { toolCallId, toolName: "hub.current_time" };
      await write(db, run, [
        run.start,
        { type: "step-start", step: 0 },
        { type: "tool-input-available", ...call, input: {} },
        { type: "step-finish", step: 0, finishReason: "tool-calls", usage: NO_USAGE },
        { type: "tool-output-available", toolCallId, output: "now" },
      ]);
      const steeringId = testIds.next("steer");
      const said = { tenantId, runId, steeringId, clientId: null, text: "so" };
      assert.equal((await addSteering(db, { ...said, kind: "steer" })).kind, "said");
      await db.control`update hub.runs set model = 'one/m', lease_owner = null, lease_until = null`;
      const config = { providers: { one: { baseUrl: upstream.url } }, defaultModel: "one/m" };
      const hub = await startTestHub(config, { databaseUrl, dataDir });
      try {
        assert.deepEqual(
          await eventually(async () => {
            const stored = await readRun(db, { tenantId, runId });
            if (stored?.status === "running") return null;
            const [one] = await listSteering(db, { tenantId, runId });
            return [stored?.status, one?.state];
          }),
          ["completed", "applied"],
        );
        assert.deepEqual(upstream.requests.map(usersOf), [["so"]]);
      } finally {
        await hub.close();
      }
    });
  } finally {
    await upstream.stop();
    await Deno.remove(dataDir, { recursive: true });
  }
});
