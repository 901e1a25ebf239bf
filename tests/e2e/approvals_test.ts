import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import {
  answer,
  approvalsOf,
  checkStreams,
  countOf,
  PAY,
  runOf,
  start,
  startTill,
  untilWaiting,
  withTwo,
} from "../support/approvals_rig.ts";
import { command, startHubProcess } from "../support/hub_process.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { logOf } from "../support/log_of.ts";
import {
  chatStream,
  type RecordedRequest,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, startTestHub, type TestHub } from "../support/test_hub.ts";

Deno.test("a call waits for a person, who answers on any replica", async (t) => {
  await withTwo({ approvalTimeoutMs: 600_000 }, async ({ first, second, paid, script }) => {
    await t.step("approved on the replica that did not start it", async () => {
      const requests = script(1);
      const { session, runId, stream } = await start(first);
      const follower = second.call(`/v1/runs/${runId}/stream`).then((reply) => reply.text());
      const [asked, ...others] = await untilWaiting(second, runId);
      assert.deepEqual(others, []);
      assert.deepEqual(
        [asked.toolName, asked.input.amount, asked.risk, asked.state],
        ["test.pay", 1, "high", "pending"],
      );
      // What needs nobody has run meanwhile; nothing of the run is held anywhere.
      const calls = await first.hub.start.db.read`select state from hub.tool_calls order by idx`;
      assert.deepEqual(calls.map(({ state }) => state), ["awaiting_approval", "succeeded"]);
      for (const hub of [first, second]) assert.equal(hub.hub.start.live.size, 0);
      const [row] = await first.hub.start.db.read`select lease_owner, lease_until, attempts
        from hub.runs where status = 'waiting'`;
      assert.deepEqual({ ...row }, { lease_owner: null, lease_until: null, attempts: 0 });
      const busy = await first.call(`/v1/sessions/${session}/messages`, { body: { text: "And?" } });
      assert.equal((await busy.json()).error.code, "run_active");
      const listed = await (await second.call("/v1/approvals?status=pending")).json();
      assert.deepEqual([listed.data, listed.has_more], [[asked], false]);
      assert.deepEqual(paid, []);

      const changed = await answer(second, runId, asked.id, { approved: true, hash: "other" });
      assert.deepEqual([changed.status, changed.error.code], [409, "approval_changed"]);
      const said = await answer(second, runId, asked.id, { approved: true, hash: asked.hash });
      assert.deepEqual([said.status, said.state, said.decidedBy !== null], [200, "approved", true]);
      const events = await checkStreams(stream, [first, second], runId);
      assert.equal(await follower, await (await first.call(`/v1/runs/${runId}/stream`)).text());
      assert.deepEqual(paid, ["1"]);
      assert.equal(countOf(events, "tool-approval-request"), 1);
      assert.equal(countOf(events, "tool-approval-response"), 1);
      assert.equal(countOf(events, "step-reset"), 0);
      assert.equal(events.at(-1)?.type, "finish");
      assert.equal(requests.length, 2);
      assert.match(JSON.stringify(requests[1]?.json.messages), /"content":"paid"/);
      const { data: messages } = await (await second.call(`/v1/sessions/${session}/messages`))
        .json();
      const part = messages.at(-1).parts.find((one: { toolName?: string }) =>
        one.toolName === "test.pay"
      );
      assert.deepEqual([part.approval.approvalId, part.approval.approved], [asked.id, true]);
      const late = await answer(first, runId, asked.id, { approved: false });
      assert.deepEqual([late.status, late.error.code], [409, "approval_approved"]);
    });

    await t.step("denied: the model reads why, and the tool never runs", async () => {
      const requests = script(2);
      const { runId, stream } = await start(first);
      const [asked] = await untilWaiting(second, runId);
      await answer(second, runId, asked.id, { approved: false, reason: "too much" });
      const events = await checkStreams(stream, [first, second], runId);
      assert.ok(!paid.includes("2"));
      const denied = events.find(({ type }) => type === "tool-output-denied");
      assert.match(JSON.stringify(denied), /a person denied it: too much/);
      assert.match(JSON.stringify(requests[1]?.json.messages), /denied it: too much/);
      assert.equal((await runOf(first, runId)).status, "completed");
    });

    await t.step("answered twice from two clients: one answer, one effect", async () => {
      script(3);
      const { runId, stream } = await start(first);
      const [asked] = await untilWaiting(first, runId);
      const said = await Promise.all(
        [first, second, first, second].map((hub, at) =>
          answer(hub, runId, asked.id, { approved: true, reason: `by ${at}` })
        ),
      );
      assert.deepEqual(said.map(({ status }) => status).sort(), [200, 409, 409, 409]);
      const events = await checkStreams(stream, [first, second], runId);
      assert.equal(countOf(events, "tool-approval-response"), 1);
      assert.deepEqual(paid.filter((amount) => amount === "3"), ["3"]);
    });

    await t.step("several of one step, each by itself", async () => {
      script(10, 11, 12);
      const { runId, stream } = await start(first);
      const asked = await untilWaiting(second, runId);
      assert.deepEqual(asked.map(({ input }) => input.amount), [10, 11, 12]);
      await answer(second, runId, asked[1]?.id ?? "", { approved: true });
      await eventually(() => paid.includes("11") ? true : null);
      await untilWaiting(first, runId);
      assert.ok(!paid.includes("10") && !paid.includes("12"));
      await Promise.all([
        answer(first, runId, asked[0].id, { approved: true }),
        answer(second, runId, asked[2]?.id ?? "", { approved: false }),
      ]);
      const events = await checkStreams(stream, [first, second], runId);
      assert.deepEqual(paid.filter((amount) => amount.length === 2).sort(), ["10", "11"]);
      assert.equal(countOf(events, "tool-approval-response"), 3);
      assert.equal(countOf(events, "step-start"), 2);
    });

    await t.step("stopped while it waits: it ends, and no answer comes behind", async () => {
      script(4);
      const { runId, stream } = await start(first);
      const [asked] = await untilWaiting(first, runId);
      const stopped = await second.call(`/v1/runs/${runId}/stop`, { method: "POST" });
      assert.deepEqual((await stopped.json()).status, "waiting");
      const late = await answer(first, runId, asked.id, { approved: true });
      assert.deepEqual([late.status, late.error.code], [409, "approval_cancelled"]);
      const events = await checkStreams(stream, [first, second], runId);
      assert.equal(countOf(events, "abort"), 1);
      assert.equal(countOf(events, "tool-approval-response"), 1);
      assert.equal((await runOf(first, runId)).status, "cancelled");
      assert.deepEqual((await approvalsOf(second, runId)).map(({ state }) => state), ["cancelled"]);
      assert.ok(!paid.includes("4"));
      const [call] = await first.hub.start.db.read`select c.state from hub.tool_calls c
        join hub.runs r on r.tenant_id = c.tenant_id and r.run_id = c.run_id
        where r.status = 'cancelled' and c.tool_name = 'test.pay'`;
      assert.equal(call?.["state"], "cancelled");
    });

    await t.step("what is said to it while it waits is read when it goes on", async () => {
      const requests = script(5);
      const { runId, stream } = await start(first);
      const [asked] = await untilWaiting(first, runId);
      const said = await second.call(`/v1/runs/${runId}/steer`, { body: { text: "Hurry" } });
      assert.equal(said.status, 202);
      assert.equal((await runOf(first, runId)).status, "waiting");
      await answer(second, runId, asked.id, { approved: true });
      await checkStreams(stream, [first, second], runId);
      assert.match(JSON.stringify(requests[1]?.json.messages), /Hurry/);
    });

    await t.step(
      "an agent may ask for any tool; whoever wants the whole message waits",
      async () => {
        script();
        const session = (await (await first.call("/v1/sessions", { body: {} })).json()).id;
        const whole = first.call(`/v1/sessions/${session}/messages`, {
          body: { text: "Go", agent: "careful", stream: false },
        });
        const [pending] = await eventually(async () => {
          const { data: approvals } = await (await first.call("/v1/approvals?status=pending"))
            .json();
          return approvals.length === 1 ? approvals : null;
        });
        assert.equal(pending.toolName, "hub.current_time");
        await answer(second, pending.runId, pending.id, { approved: true });
        const { run } = await (await whole).json();
        assert.deepEqual([run.id, run.status], [pending.runId, "completed"]);
      },
    );

    await t.step("AI SDK clients see the question and its answer", async () => {
      script(6);
      const reply = await first.call("/api/chat", {
        body: {
          id: "chat_1",
          trigger: "submit-message",
          messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "Go" }] }],
        },
      });
      const text = reply.text();
      const [pending] = await eventually(async () => {
        const { data: approvals } = await (await first.call("/v1/approvals?status=pending")).json();
        return approvals.length === 1 ? approvals : null;
      });
      await answer(second, pending.runId, pending.id, { approved: true });
      const chunks = (await text).split("\n\n").filter((frame) => frame.startsWith("data: {"))
        .map((frame) => JSON.parse(frame.slice(6)));
      const shown = chunks.filter(({ type }) => type === "data-approval");
      assert.deepEqual(shown.map(({ id, data }) => [id, data.state]), [
        [pending.id, "requested"],
        [pending.id, "approved"],
      ]);
      assert.equal(chunks.at(-1).type, "finish");
      const stored = await (await second.call("/api/chat/chat_1/messages")).json();
      const kept = stored.messages.at(-1).parts.find((part: { type: string }) =>
        part.type === "data-approval"
      );
      assert.deepEqual(kept, { type: "data-approval", id: pending.id, data: shown[1].data });
    });
  });
});

Deno.test("nobody is waited for without an end", async () => {
  await withTwo({ approvalTimeoutMs: 1500 }, async ({ first, second, paid, script }) => {
    const requests = script(1);
    const { runId, stream } = await start(first);
    const events = await checkStreams(stream, [first, second], runId);
    const response = events.find((event) => event.type === "tool-approval-response");
    assert.deepEqual([response?.approved, response?.reason], [false, "expired"]);
    assert.match(JSON.stringify(requests[1]?.json.messages), /nobody approved it in time/);
    const [asked] = await approvalsOf(second, runId);
    assert.equal(asked.state, "expired");
    const late = await answer(second, runId, asked.id, { approved: true });
    assert.deepEqual([late.status, late.error.code], [409, "approval_expired"]);
    assert.deepEqual(paid, []);
  });
});

Deno.test("a run that waits outlives all hubs, and a kill behind the answer repeats no effect", async (t) => {
  const upstream = await startScriptedUpstream();
  const till = startTill();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-approvals-" });
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    operations: { modules: [PAY] },
    runs: { leaseMs: 5000, approvalTimeoutMs: 600_000 },
  };
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  let key = "";
  const startProcess = async () => {
    const process = await startHubProcess(folder, { DATABASE_URL: postgres.url });
    key = key === "" ? await eventually(() => process.key()) : key;
    const call: TestHub["call"] = (path, { body } = {}) =>
      fetch(process.url + path, {
        method: body === undefined ? "GET" : "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    return { end: process.end, hub: { call } as TestHub };
  };
  const startNext = () =>
    startTestHub(config, { databaseUrl: postgres.url, dataDir: `${folder}/data`, key });
  const script = () => {
    let asked = 0;
    const requests: RecordedRequest[] = [];
    upstream.script((request) => {
      requests.push(request);
      const call = { name: "test_pay", arguments: { url: till.url, amount: 1 } };
      return asked++ === 0 ? chatStream({ toolCalls: [call] }) : chatStream({ text: "Done" });
    });
    return requests;
  };
  /** Begins a run whose stream breaks with its hub. */
  const begin = async (hub: TestHub) => {
    const { runId, stream } = await start(hub);
    stream.catch(() => {});
    const [asked] = await untilWaiting(hub, runId);
    return { runId, asked };
  };
  const untilOver = (hub: TestHub, runId: string) =>
    eventually(async () => (await runOf(hub, runId)).status === "completed" ? true : null);
  try {
    await t.step("killed while it waits, answered while there is no hub", async () => {
      script();
      const killed = await startProcess();
      const { runId, asked } = await begin(killed.hub).finally(() => killed.end("SIGKILL"));
      const next = await startNext();
      try {
        assert.equal((await runOf(next, runId)).status, "waiting");
      } finally {
        await next.close();
      }
      const runs = (...args: string[]) =>
        command(folder, ["runs", ...args], { DATABASE_URL: postgres.url });
      assert.match((await runs()).out, new RegExp(`${runId} +waiting +- `));
      const approved = await runs("approve", runId, asked.id);
      assert.deepEqual([approved.code, approved.out], [0, "test.pay is approved\n"], approved.err);
      const again = await runs("deny", runId, asked.id, "no");
      assert.equal(again.code, 1);
      assert.match(again.err, /cannot be answered any more: it is approved/);
      const last = await startNext();
      try {
        await untilOver(last, runId);
        assert.deepEqual(till.paid, ["1"]);
        const log = logOf(await (await last.call(`/v1/runs/${runId}/stream`)).text());
        assert.deepEqual(checkLog(log), []);
        assert.equal(countOf(log.map(({ event }) => event), "tool-approval-response"), 1);
      } finally {
        await last.close();
      }
    });

    await t.step("killed while the approved call acts", async () => {
      till.paid.length = 0;
      const requests = script();
      const killed = await startProcess();
      const { runId } = await (async () => {
        const begun = await begin(killed.hub);
        till.hold();
        await answer(killed.hub, begun.runId, begun.asked.id, { approved: true });
        await eventually(() => till.paid.length > 0 ? true : null);
        return begun;
      })().finally(() => killed.end("SIGKILL"));
      till.release();
      const next = await startNext();
      try {
        await untilOver(next, runId);
        assert.deepEqual(till.paid, ["1"]);
        assert.match(JSON.stringify(requests.at(-1)?.json.messages), /outcome unknown/);
        const log = logOf(await (await next.call(`/v1/runs/${runId}/stream`)).text());
        assert.deepEqual(checkLog(log), []);
        assert.equal(countOf(log.map(({ event }) => event), "tool-approval-response"), 1);
      } finally {
        await next.close();
      }
    });
  } finally {
    await upstream.stop();
    till.release();
    await till.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
