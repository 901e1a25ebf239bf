import assert from "node:assert/strict";
import type { HubEvent } from "../../src/core/event.ts";
import { createRun } from "../../src/store/create_run.ts";
import { commitRuns } from "../../src/store/commit_runs.ts";
import type { Database } from "../../src/store/database.ts";
import type { RunCommit, ToolCallRow } from "../../src/store/run_commit.ts";
import { createSession } from "../../src/store/sessions.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { testIds } from "../support/postgres.ts";

export const tenantId = DEFAULT_TENANT_ID;

/** A lease that no test outlasts, however slow its machine is. */
export const LEASE_MS = 600_000;

/** A run in a session of its own, begun and not driven by anybody. */
export async function beginRun(
  db: Database,
  options: {
    leaseMs?: number;
    caller?: { keyId: string; requestId: string };
    parent?: { runId: string; toolCallId: string };
    outside?: readonly string[];
  } = {},
) {
  const sessionId = testIds.next("ses");
  await createSession(db, { tenantId, sessionId, agent: "default", keyId: testIds.next("key") });
  const run = { tenantId, sessionId, runId: testIds.next("run"), messageId: testIds.next("msg") };
  const userMessageId = testIds.next("msg");
  const created = await createRun(db, {
    ...run,
    agent: "default",
    model: "smart",
    owner: "test",
    leaseMs: options.leaseMs ?? LEASE_MS,
    reserve: 4096,
    caller: options.caller ?? null,
    ...(options.parent === undefined ? {} : { parent: options.parent }),
    ...(options.outside === undefined ? {} : { outside: options.outside }),
    userMessage: { messageId: userMessageId, clientId: userMessageId, hash: "h", parts: [] },
  });
  assert.equal(created.kind, "created");
  const start: HubEvent = { type: "start", model: "smart", ...run };
  delete (start as { tenantId?: string }).tenantId;
  return { ...run, start };
}

/** Writes events of a run behind number `after`, as its owner of epoch 1 does. */
export async function write(
  db: Database,
  run: { tenantId: string; sessionId: string; runId: string; messageId: string },
  events: HubEvent[],
  more: Partial<RunCommit> & { after?: number; leaseMs?: number } = {},
) {
  const { after = 0, leaseMs = LEASE_MS, ...rest } = more;
  const commit: RunCommit = {
    tenantId: run.tenantId,
    sessionId: run.sessionId,
    runId: run.runId,
    messageId: run.messageId,
    epoch: 1,
    follows: after,
    events: events.map((event, index) => ({ seq: after + index + 1, event })),
    reserveTo: 4096,
    parts: [],
    steps: [],
    toolCalls: [],
    ...rest,
  };
  assert.equal((await commitRuns(db, { commits: [commit], leaseMs })).size, 1);
}

/** A row of the journal. */
export function callRow(toolCallId: string, more: Partial<ToolCallRow> = {}): ToolCallRow {
  return {
    toolCallId,
    step: 0,
    index: 0,
    toolName: "test.tool",
    input: {},
    inputText: "{}",
    argsHash: "h",
    effect: "effect",
    idempotencyKey: toolCallId,
    state: "started",
    ...more,
  };
}
