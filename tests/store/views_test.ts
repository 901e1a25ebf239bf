import assert from "node:assert/strict";
import { type Id, toUuid } from "../../src/core/id.ts";
import type { UIPart } from "../../src/core/ui_message.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import { commitRuns } from "../../src/store/commit_runs.ts";
import { createRun } from "../../src/store/create_run.ts";
import type { Database } from "../../src/store/database.ts";
import { supersedeLastAnswer } from "../../src/store/messages.ts";
import type { RunCommit, RunFinish, ToolCallRow } from "../../src/store/run_commit.ts";
import { createSession } from "../../src/store/sessions.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { encodeUsageRow, insertUsage, type UsageRow } from "../../src/store/usage_rows.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { usageRow } from "../support/usage_rows.ts";

const tenantId = DEFAULT_TENANT_ID;
const keyId = testIds.next("key");
const text = (value: string): UIPart => ({ type: "text", id: "t", text: value, state: "done" });

async function newRun(db: Database, sessionId: string, userParts: UIPart[] | null) {
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
    userMessage: userParts === null ? null : {
      messageId: testIds.next("msg"),
      clientId: testIds.next("msg"),
      hash: "h",
      parts: userParts,
    },
  });
  assert.equal(created.kind, "created");
  return run;
}

async function finish(
  db: Database,
  run: { sessionId: string; runId: string; messageId: string },
  { parts, toolCalls = [], ...end }:
    & { parts: UIPart[]; toolCalls?: ToolCallRow[] }
    & Partial<
      RunFinish
    >,
) {
  const commit: RunCommit = {
    tenantId,
    ...run,
    epoch: 1,
    follows: 0,
    events: [],
    reserveTo: 100,
    parts: parts.map((part, index) => ({ index, part })),
    steps: [],
    toolCalls,
    finish: {
      status: "completed",
      finishReason: "stop",
      usage: { ...NO_USAGE, promptTokens: 3, completionTokens: 4, totalTokens: 7 },
      costMicros: 1_500_000,
      provider: "p",
      model: "m",
      ...end,
    },
  };
  assert.equal((await commitRuns(db, { commits: [commit], leaseMs: 15_000 })).size, 1);
}

async function newSession(db: Database, title: string): Promise<string> {
  const sessionId = testIds.next("ses");
  await createSession(db, { tenantId, sessionId, title, agent: "default", keyId });
  return sessionId;
}

Deno.test("the operators' views", async (t) => {
  await withDatabase(async (db) => {
    await t.step("a transcript reads from top to bottom", async () => {
      const sessionId = await newSession(db, "weather");
      const run = await newRun(db, sessionId, [
        text("Weather in Ulm?"),
        { type: "file", mediaType: "image/png", url: "data:,", filename: "sky.png" },
      ]);
      const call = { type: "tool", toolName: "hub.weather", step: 0 } as const;
      await finish(db, { sessionId, ...run }, {
        parts: [
          { type: "step-start", step: 0 },
          { type: "reasoning", id: "r", text: "Ask.", state: "done" },
          {
            ...call,
            toolCallId: testIds.next("call"),
            state: "result",
            input: { city: "Ulm" },
            output: { type: "json", value: { celsius: 7 } },
          },
          {
            ...call,
            toolCallId: testIds.next("call"),
            state: "error",
            inputText: '{"city":',
            errorText: "no JSON",
          },
          { type: "source-url", sourceId: "s", url: "https://example.org/ulm" },
          text("7 °C."),
        ],
      });
      const rows = await db.within(db.read`
        select position, part, role, kind, text, superseded from hub.transcript
        where session = ${sessionId} and role <> 'hub' order by position, part`);
      assert.deepEqual(rows.map((row) => `${row["role"]} | ${row["kind"]} | ${row["text"]}`), [
        "user | text | Weather in Ulm?",
        "user | file | sky.png",
        "assistant | reasoning | Ask.",
        'assistant | tool hub.weather | {"city":"Ulm"} => {"type":"json","value":{"celsius":7}}',
        'assistant | tool hub.weather | {"city": => error: no JSON',
        "assistant | source-url | https://example.org/ulm",
        "assistant | text | 7 °C.",
      ]);
      assert.deepEqual(rows.map((row) => row["position"]), [1, 1, 2, 2, 2, 2, 2]);
      assert.ok(rows.every((row) => row["superseded"] === false));
    });

    await t.step("a transcript marks an answer that was made again", async () => {
      const sessionId = await newSession(db, "again");
      const first = await newRun(db, sessionId, [text("Hi")]);
      await finish(db, { sessionId, ...first }, { parts: [text("one")] });
      const second = await newRun(db, sessionId, null);
      await supersedeLastAnswer(db, { tenantId, sessionId, newMessageId: second.messageId });
      await finish(db, { sessionId, ...second }, { parts: [text("two")] });
      const rows = await db.within(db.read`
        select text, superseded from hub.transcript where session = ${sessionId} and role <> 'hub' order by position`);
      assert.deepEqual([...rows], [
        { text: "Hi", superseded: false },
        { text: "one", superseded: true },
        { text: "two", superseded: false },
      ]);
    });

    await t.step("the overview counts, adds up and says what runs", async () => {
      const sessionId = await newSession(db, "overview");
      const read = async () =>
        (await db.within(db.read`
          select title, agent, messages, runs, status, prompt_tokens::int, completion_tokens::int,
            cost_usd::text from hub.session_overview where session = ${sessionId}`))[0];
      const facts = { title: "overview", agent: "default", messages: 2, runs: 1 };
      const run = await newRun(db, sessionId, [text("Hi")]);
      const none = { prompt_tokens: 0, completion_tokens: 0, cost_usd: "0.000000" };
      assert.deepEqual(await read(), { ...facts, status: "running", ...none });
      await finish(db, { sessionId, ...run }, { parts: [text("Ho")] });
      const sums = { prompt_tokens: 3, completion_tokens: 4, cost_usd: "1.500000" };
      assert.deepEqual(await read(), { ...facts, status: "idle", ...sums });
      const unpriced = await newRun(db, sessionId, [text("Hi")]);
      await finish(db, { sessionId, ...unpriced }, { parts: [text("Ho")], costMicros: null });
      assert.equal((await read())?.["cost_usd"], null);
    });

    await t.step("failures and tool calls name run, session and reason", async () => {
      const sessionId = await newSession(db, "failing");
      const run = await newRun(db, sessionId, [text("Hi")]);
      const toolCallId = testIds.next("call");
      await finish(db, { sessionId, ...run }, {
        parts: [],
        status: "failed",
        error: { code: "upstream_cut", message: "The answer ended early" },
        toolCalls: [{
          toolCallId,
          step: 0,
          index: 0,
          toolName: "hub.shell",
          input: { command: "ls" },
          inputText: '{"command":"ls"}',
          argsHash: "h",
          effect: "effect",
          idempotencyKey: "i",
          state: "failed",
          errorText: "exit 1",
          durationMs: 12,
        }],
      });
      const failures = await db.within(db.read`
        select run, session, provider, code, message, attempts from hub.run_failures`);
      assert.deepEqual([...failures], [{
        run: run.runId,
        session: sessionId,
        provider: "p",
        code: "upstream_cut",
        message: "The answer ended early",
        attempts: 1,
      }]);
      const calls = await db.within(db.read`
        select run, call, tool_name, effect, state, duration_ms, input, error_text from hub.tool_activity`);
      assert.deepEqual([...calls], [{
        run: run.runId,
        call: toolCallId,
        tool_name: "hub.shell",
        effect: "effect",
        state: "failed",
        duration_ms: 12,
        input: { command: "ls" },
        error_text: "exit 1",
      }]);
    });

    await t.step(
      "usage is summed by UTC day, model and key; unknown prices are counted",
      async () => {
        const row = (startedAt: string, more: Partial<UsageRow> = {}): UsageRow =>
          usageRow(0, {
            usageId: testIds.next("usg"),
            tenantId,
            keyId,
            usage: { ...NO_USAGE, promptTokens: 10, completionTokens: 1, totalTokens: 11 },
            costMicros: 250_000,
            startedAt: Date.parse(startedAt),
            ...more,
          });
        const failed = { outcome: "error", usage: null, costMicros: null } as const;
        await insertUsage(
          db,
          [
            row("2026-01-01T23:59:59.999Z"),
            row("2026-01-02T00:00:00.000Z"),
            row("2026-01-02T12:00:00.000Z"),
            row("2026-01-02T23:59:59.999Z", failed),
          ].map(encodeUsageRow),
        );
        // A session of another time zone sees the same days.
        const rows = await db.read.begin(async (tx) => {
          await tx`set local timezone = 'Pacific/Auckland'`;
          return await tx`
          select day::text, provider, model, key, requests::int, failed::int, prompt_tokens::int,
            cost_usd::text, unpriced::int from hub.usage_daily order by day`;
        });
        const same = { provider: "p", model: "m", key: keyId };
        assert.deepEqual([...rows], [
          {
            day: "2026-01-01",
            ...same,
            requests: 1,
            failed: 0,
            prompt_tokens: 10,
            cost_usd: "0.250000",
            unpriced: 0,
          },
          {
            day: "2026-01-02",
            ...same,
            requests: 3,
            failed: 1,
            prompt_tokens: 20,
            cost_usd: "0.500000",
            unpriced: 1,
          },
        ]);
      },
    );

    await t.step("only approvals that wait are listed", async () => {
      const sessionId = await newSession(db, "approving");
      const { runId } = await newRun(db, sessionId, [text("Hi")]);
      const call = testIds.next("call");
      await db.within(db.control`
        insert into hub.approvals (tenant_id, approval_id, run_id, tool_call_id, tool_name, args_hash, def_hash,
          risk, state, expires_at)
        select ${tenantId}::uuid, gen_random_uuid(), ${toUuid(runId as Id)}::uuid, ${
        toUuid(call)
      }::uuid, 'hub.shell', 'a', 'd', 'high', state, now() + interval '1 hour'
        from unnest(array['pending', 'approved', 'denied', 'expired']) state`);
      const rows = await db.within(db.read`
        select run, call, tool_name, risk from hub.pending_approvals`);
      assert.deepEqual([...rows], [{ run: runId, call, tool_name: "hub.shell", risk: "high" }]);
    });
  });
});
