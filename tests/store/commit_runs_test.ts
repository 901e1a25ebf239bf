import assert from "node:assert/strict";
import type { SequencedEvent } from "../../src/core/event.ts";
import { toUuid } from "../../src/core/id.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import { commitRuns } from "../../src/store/commit_runs.ts";
import { createRun } from "../../src/store/create_run.ts";
import type { Database } from "../../src/store/database.ts";
import { listMessages, readHistory, readMessage } from "../../src/store/messages.ts";
import type { RunCommit } from "../../src/store/run_commit.ts";
import { claimAbandoned } from "../../src/store/claim_runs.ts";
import { pruneEvents } from "../../src/store/prune_events.ts";
import { readEvents, readRun, renewLeases, requestStop } from "../../src/store/runs.ts";
import {
  createSession,
  deleteSession,
  listSessions,
  readSession,
  updateSession,
} from "../../src/store/sessions.ts";
import { insertUsage } from "../../src/store/usage_rows.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { callRow } from "../run/run_rig.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { rowOf } from "../support/usage_rows.ts";

const tenantId = DEFAULT_TENANT_ID;
/** A caller that reaches all sessions of the tenant. */
const ALL = { tenantId, keyId: testIds.next("key"), sessions: "all" } as const;

async function newSession(db: Database) {
  const sessionId = testIds.next("ses");
  await createSession(db, { tenantId, sessionId, agent: "default", keyId: testIds.next("key") });
  return sessionId;
}

async function newRun(db: Database, sessionId: string, clientId = testIds.next("msg") as string) {
  const run = { runId: testIds.next("run"), messageId: testIds.next("msg") };
  const created = await createRun(db, {
    tenantId,
    sessionId,
    ...run,
    agent: "default",
    model: "m",
    owner: "test",
    leaseMs: 15_000,
    reserve: 100,
    userMessage: {
      messageId: testIds.next("msg"),
      clientId,
      hash: "h",
      parts: [{ type: "text", id: "t", text: "Hello", state: "done" }],
    },
  });
  return { ...run, created };
}

const text = (seq: number): SequencedEvent => ({
  seq,
  event: { type: "text-delta", id: "p0", delta: `d${seq}` },
});

/** An event with a text that does not compress. */
function noise(seq: number, length: number): SequencedEvent {
  let state = seq;
  const delta = Array.from({ length }, () => {
    state = (state * 1_664_525 + 1_013_904_223) >>> 0;
    return String.fromCharCode(0x41 + state / 2 ** 32 * 58);
  }).join("");
  return { seq, event: { type: "text-delta", id: "p0", delta } };
}

function commitOf(
  sessionId: string,
  run: { runId: string; messageId: string },
  more: Partial<RunCommit> = {},
): RunCommit {
  return {
    tenantId,
    sessionId,
    runId: run.runId,
    messageId: run.messageId,
    epoch: 1,
    follows: (more.events?.[0]?.seq ?? 1) - 1,
    events: [],
    reserveTo: 200,
    parts: [],
    steps: [],
    toolCalls: [],
    ...more,
  };
}

Deno.test("runs in Postgres", async (t) => {
  await withDatabase(async (db) => {
    await t.step("a run begins once per message, and one at a time", async () => {
      const sessionId = await newSession(db);
      const first = await newRun(db, sessionId, "m1");
      assert.deepEqual(first.created, { kind: "created", epoch: 1 });
      const again = await newRun(db, sessionId, "m1");
      assert.deepEqual(again.created, {
        kind: "duplicate",
        runId: first.runId,
        messageId: first.messageId,
        status: "running",
      });
      const busy = await newRun(db, sessionId, "m2");
      assert.equal(busy.created.kind, "busy");
      assert.equal((await newRun(db, testIds.next("ses"))).created.kind, "no-session");
      assert.equal((await readSession(db, { ...ALL, sessionId }))?.messageCount, 2);
      assert.equal(await deleteSession(db, { tenantId, sessionId }), "busy");
    });

    await t.step("20 starts at once make one run", async () => {
      const sessionId = await newSession(db);
      const starts = await Promise.all(
        Array.from({ length: 20 }, (_, index) => newRun(db, sessionId, `m${index}`)),
      );
      assert.equal(starts.filter((run) => run.created.kind === "created").length, 1);
      assert.equal(starts.filter((run) => run.created.kind === "busy").length, 19);
    });

    await t.step("a wrong epoch, an old number and a finished run are fenced", async () => {
      const sessionId = await newSession(db);
      const other = await newSession(db);
      const run = await newRun(db, sessionId);
      const good = await newRun(db, other);
      const commits = [
        commitOf(sessionId, run, { epoch: 2, events: [text(1)] }),
        commitOf(other, good, { events: [text(1), text(2)] }),
      ];
      const owned = await commitRuns(db, { commits, leaseMs: 1000 });
      assert.deepEqual([...owned.keys()], [good.runId]);
      assert.equal((await readRun(db, { tenantId, runId: run.runId }))?.lastSeq, 0);
      const old = commitOf(other, good, { events: [text(2)] });
      assert.equal((await commitRuns(db, { commits: [old], leaseMs: 1000 })).size, 0);
      const finish = {
        status: "completed" as const,
        finishReason: "stop" as const,
        usage: { ...NO_USAGE, promptTokens: 3, completionTokens: 4, totalTokens: 7 },
        costMicros: 12,
        provider: "p",
        model: "m",
      };
      const last = commitOf(other, good, {
        events: [text(3)],
        finish,
        parts: [
          { index: 0, part: { type: "text", id: "p0", text: "Hi", state: "done" } },
          { index: 1, part: null },
        ],
        steps: [{ step: 0, state: "done", attempt: 1, usage: finish.usage }],
      });
      assert.equal((await commitRuns(db, { commits: [last], leaseMs: 1000 })).size, 1);
      const late = commitOf(other, good, { events: [text(4)] });
      assert.equal((await commitRuns(db, { commits: [late], leaseMs: 1000 })).size, 0);

      const stored = await readRun(db, { tenantId, runId: good.runId });
      assert.equal(stored?.status, "completed");
      assert.equal(stored?.lastSeq, 3);
      assert.deepEqual(stored?.usage, finish.usage);
      const message = await readMessage(db, { tenantId, messageId: good.messageId });
      assert.deepEqual(message?.parts, [{ type: "text", id: "p0", text: "Hi", state: "done" }]);
      assert.deepEqual(message?.metadata?.["usage"], finish.usage);
      assert.equal((await readSession(db, { ...ALL, sessionId: other }))?.costMicros, 12);
      const history = await readHistory(db, { tenantId, sessionId: other });
      assert.deepEqual(history.map((item) => item.role), ["user", "assistant"]);
    });

    await t.step("what model calls used is written with what they said, once", async () => {
      const sessionId = await newSession(db);
      const run = await newRun(db, sessionId);
      const usageId = testIds.next("usg");
      const facts = { usageId, tenantId, keyId: testIds.next("key"), sessionId, runId: run.runId };
      const row = rowOf(0, { ...facts, kind: "run", step: 0, costMicros: 7 });
      const commits = [commitOf(sessionId, run, { events: [text(1)], usage: [row] })];
      assert.equal((await commitRuns(db, { commits, leaseMs: 1000 })).size, 1);
      await insertUsage(db, [row]);
      const rows = await db.read`select cost_micros::int, step from hub.usage
        where usage_id = ${toUuid(usageId)}`;
      assert.deepEqual(rows.map((one) => ({ ...one })), [{ cost_micros: 7, step: 0 }]);
    });

    await t.step("a commit that arrives late changes nothing, though it has no event", async () => {
      const sessionId = await newSession(db);
      const run = await newRun(db, sessionId);
      const row = callRow(testIds.next("call"));
      const commit = async (more: Partial<RunCommit>) => {
        const commits = [commitOf(sessionId, run, more)];
        return (await commitRuns(db, { commits, leaseMs: 15_000 })).size;
      };
      const started = { reserveTo: 100, toolCalls: [row] };
      assert.equal(await commit(started), 1);
      assert.equal(await commit(started), 1, "the same again before anything else is no harm");
      const output = {
        type: "tool-output-available",
        toolCallId: row.toolCallId,
        output: 1,
      } as const;
      const done = { ...row, state: "succeeded" as const, output: 1 };
      assert.equal(
        await commit({ events: [{ seq: 1, event: output }], reserveTo: 101, toolCalls: [done] }),
        1,
      );
      assert.equal(await commit(started), 0);
      const [call] = await db.read`select state from hub.tool_calls
        where run_id = ${toUuid(run.runId)}`;
      assert.equal(call?.["state"], "succeeded");
    });

    await t.step("rows with NUL and lone surrogates in any place are written", async () => {
      const sessionId = await newSession(db);
      const run = await newRun(db, sessionId);
      const hostile = "a\0b\ud800c";
      const commit = commitOf(sessionId, run, {
        events: [{ seq: 1, event: { type: "abort", reason: hostile } }],
        parts: [{ index: 0, part: { type: "text", id: "p0", text: hostile, state: "done" } }],
        steps: [{ step: 0, state: "done", attempt: 1, provider: hostile, model: hostile }],
        toolCalls: [{
          toolCallId: testIds.next("call"),
          step: 0,
          index: 0,
          toolName: hostile,
          input: { [hostile]: [hostile] },
          inputText: hostile,
          argsHash: "h",
          effect: "pure",
          idempotencyKey: "k",
          state: "failed",
          output: hostile,
          errorText: hostile,
          providerCallId: hostile,
        }],
        finish: {
          status: "failed",
          finishReason: "error",
          usage: NO_USAGE,
          costMicros: null,
          provider: hostile,
          model: hostile,
          error: { code: "x", message: hostile },
        },
      });
      assert.equal((await commitRuns(db, { commits: [commit], leaseMs: 1000 })).size, 1);
      const [call] = await db.read`select tool_name, input, error_text from hub.tool_calls
        where run_id = ${toUuid(run.runId)}`;
      assert.deepEqual({ ...call }, {
        tool_name: "a\ufffdb\ufffdc",
        input: { "a\ufffdb\ufffdc": ["a\ufffdb\ufffdc"] },
        error_text: "a\ufffdb\ufffdc",
      });
    });

    await t.step("a cursor never skips while 8 runs write", async () => {
      const runs = await Promise.all(Array.from({ length: 8 }, async () => {
        const sessionId = await newSession(db);
        return { sessionId, ...await newRun(db, sessionId) };
      }));
      let writing = true;
      const seen = new Map(runs.map((run) => [run.runId, [] as number[]]));
      const read = async () => {
        for (const { runId } of runs) {
          const numbers = seen.get(runId) ?? [];
          const afterSeq = numbers.at(-1) ?? 0;
          const events = await readEvents(db, { tenantId, runId, afterSeq, limit: 1000 });
          numbers.push(...events.map((event) => event.seq));
        }
      };
      const reader = (async () => {
        while (writing) await read();
      })();
      await Promise.all(runs.map(async (run) => {
        for (let seq = 1; seq <= 60; seq += 3) {
          const events = [text(seq), text(seq + 1), text(seq + 2)];
          const commits = [commitOf(run.sessionId, run, { events })];
          assert.equal((await commitRuns(db, { commits, leaseMs: 15_000 })).size, 1);
        }
      }));
      writing = false;
      await reader;
      await read();
      const wanted = Array.from({ length: 60 }, (_, index) => index + 1);
      for (const numbers of seen.values()) assert.deepEqual(numbers, wanted);
      const [any] = runs;
      const tail = await readEvents(db, {
        tenantId,
        runId: any?.runId ?? "",
        afterSeq: 31,
        limit: 1000,
      });
      assert.deepEqual(tail.map((event) => event.seq), wanted.slice(31));
    });

    await t.step(
      "large batches come in pages that are bounded in bytes, none left out",
      async () => {
        const sessionId = await newSession(db);
        const run = await newRun(db, sessionId);
        for (let seq = 1; seq <= 6; seq++) {
          const commits = [commitOf(sessionId, run, { events: [noise(seq, 1024 * 1024)] })];
          assert.equal((await commitRuns(db, { commits, leaseMs: 15_000 })).size, 1);
        }
        const pages: number[][] = [];
        for (let afterSeq = 0; afterSeq < 6;) {
          const page = await readEvents(db, { tenantId, runId: run.runId, afterSeq, limit: 1000 });
          assert.ok(page.length > 0);
          pages.push(page.map((event) => event.seq));
          afterSeq = page.at(-1)?.seq ?? 6;
        }
        assert.deepEqual(pages.flat(), [1, 2, 3, 4, 5, 6]);
        assert.ok(pages.length > 1 && pages.every((page) => page.length <= 4), `${pages.length}`);
      },
    );

    await t.step("stop, renewal, takeover and pruning", async () => {
      const sessionId = await newSession(db);
      const run = await newRun(db, sessionId);
      const key = { tenantId, runId: run.runId };
      assert.deepEqual(await requestStop(db, key), { stopped: true, status: "running" });
      const owned = await renewLeases(db, { runs: [{ ...key, epoch: 1 }], leaseMs: 1 });
      assert.deepEqual(owned.get(run.runId), { stopRequested: true, steered: 0 });
      await db.within(db.read`select pg_sleep(0.02)`);
      const claimed = await claimAbandoned(db, { owner: "other", leaseMs: 15_000, limit: 1000 });
      assert.ok(claimed.some((row) => row.runId === run.runId));
      assert.equal((await renewLeases(db, { runs: [{ ...key, epoch: 1 }], leaseMs: 1 })).size, 0);
      assert.equal((await readRun(db, key))?.epoch, 2);
      assert.equal(await requestStop(db, { tenantId, runId: testIds.next("run") }), null);
      assert.equal(await pruneEvents(db, 1), 0);
      assert.ok(await pruneEvents(db, 0) > 0);
    });

    await t.step("sessions are listed by keyset, changed and deleted", async () => {
      const agent = `agent-${crypto.randomUUID()}`;
      const ids = [];
      for (let index = 0; index < 5; index++) {
        const sessionId = testIds.next("ses");
        await createSession(db, { tenantId, sessionId, agent, keyId: testIds.next("key") });
        ids.unshift(sessionId);
      }
      const first = await listSessions(db, { ...ALL, limit: 3, agent });
      assert.ok(first.nextCursor !== null);
      const second = await listSessions(db, {
        ...ALL,
        limit: 3,
        agent,
        after: first.nextCursor ?? "",
      });
      assert.equal(second.nextCursor, null);
      const listed = [...first.sessions, ...second.sessions].map((session) => session.id);
      assert.deepEqual(listed, ids);
      const key = { tenantId, sessionId: ids[0] ?? "" };
      assert.ok(await updateSession(db, { ...key, title: "T", metadata: { a: 1 } }));
      assert.equal((await readSession(db, { ...ALL, ...key }))?.title, "T");
      assert.equal(await deleteSession(db, key), "deleted");
      assert.equal(await deleteSession(db, key), "missing");
      const other = { tenantId: crypto.randomUUID(), sessionId: ids[1] ?? "" };
      assert.equal(await readSession(db, { ...ALL, ...other }), null);
      await assert.rejects(
        listSessions(db, { ...ALL, limit: 3, after: "' or 1=1" }),
        /next_cursor/,
      );
    });

    await t.step("a message without parts is listed as such", async () => {
      const sessionId = await newSession(db);
      const run = await newRun(db, sessionId);
      const filter = { tenantId, sessionId, limit: 10, superseded: false };
      const { messages } = await listMessages(db, { ...filter, inFlight: true });
      assert.deepEqual(messages.map((message) => message.parts.length), [1, 0]);
      assert.equal(messages[1]?.id, run.messageId);
      assert.equal((await listMessages(db, { ...filter, inFlight: false })).messages.length, 1);
    });
  });
});
