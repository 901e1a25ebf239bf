import assert from "node:assert/strict";
import { toUuid } from "../../src/core/id.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import type { Tool } from "../../src/core/tool.ts";
import { createPermit } from "../../src/run/permit.ts";
import { keepOutsideSources } from "../../src/store/sub_runs.ts";
import { makeTool, textResult } from "../inference/loop_rig.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { beginRun, callRow, tenantId, write } from "./run_rig.ts";

const tool = (rest: Partial<Tool>) => makeTool("a.tool", () => textResult("done"), rest);
const message = { id: "msg", role: "assistant" as const, parts: [] };

Deno.test("what a session has read of others is asked about in all its runs", async () => {
  await withDatabase(async (db) => {
    const run = await beginRun(db);
    const permitOf = (
      { sessionId, runId }: { sessionId: string; runId: string },
      { heedsTaint = true, step = 1 } = {},
    ) => {
      const permit = createPermit({
        ...{ db, tenantId, sessionId, runId, heedsTaint, log: SILENT_LOG },
        keyId: testIds.next("key"),
        agent: "default",
      });
      return (rest: Partial<Tool>) =>
        permit({ toolCallId: "call", step, tool: tool(rest), input: {}, message });
    };
    const call = (outside: string, state: string) =>
      callRow(testIds.next("call"), { outside, state });
    const ask = (...tainted: string[]) => ({ allowed: "ask", tainted });

    const permit = permitOf(run);
    const reads = { effect: "pure", outside: { source: "file", sends: false } } as const;
    const sends = { effect: "pure", outside: { source: "mcp:web", sends: true } } as const;
    assert.deepEqual(await permit({}), { allowed: true });
    // What began counts, whatever became of it.
    await write(db, run, [run.start], {
      toolCalls: [call("mcp:web", "started"), call("mail", "ready"), call("file", "started")],
    });
    assert.deepEqual(await permit({}), ask("file", "mcp:web"));
    assert.deepEqual(await permit({ effect: "idempotent" }), ask("file", "mcp:web"));
    assert.deepEqual(await permit(reads), { allowed: true });
    assert.deepEqual(await permit(sends), ask("file", "mcp:web"));
    assert.deepEqual(await permit({ approval: "always" }), ask("file", "mcp:web"));
    assert.deepEqual(await permitOf(run, { heedsTaint: false })({}), { allowed: true });
    // One that is judged again after a takeover was made before its neighbours gave anything.
    assert.deepEqual(await permitOf(run, { step: 0 })({}), { allowed: true });
    const other = await beginRun(db);
    assert.deepEqual(await permitOf(other)({}), { allowed: true });

    // Whoever is asked by a run has its orders from there, and gives it back what it has read.
    const parent = { runId: run.runId, toolCallId: testIds.next("call") };
    const below = await beginRun(db, { parent });
    assert.deepEqual(await permitOf(below)({}), ask("file", "mcp:web"));
    const under = { runId: other.runId, toolCallId: testIds.next("call") };
    const child = await beginRun(db, { parent: under });
    const grandchild = await beginRun(db, { parent: { ...under, runId: child.runId } });
    await write(db, grandchild, [grandchild.start], { toolCalls: [call("mail", "started")] });
    for (const one of [other, child, grandchild]) {
      assert.deepEqual(await permitOf(one)({}), ask("mail"));
    }
    assert.deepEqual(await permit({}), ask("file", "mcp:web"));

    // What it has given back counts as often as it is written down, and when it is gone.
    const keep = { tenantId, runId: other.runId, from: child.runId };
    for (let time = 0; time < 2; time++) await keepOutsideSources(db, keep);
    await db.within(db.control`
      delete from hub.sessions where tenant_id = ${tenantId}
        and session_id in (${toUuid(child.sessionId)}, ${toUuid(grandchild.sessionId)})`);
    assert.deepEqual(await permitOf(other)({}), ask("mail"));
    const [row] = await db.within(db.control`
      select outside from hub.runs where tenant_id = ${tenantId} and run_id = ${
      toUuid(other.runId)
    }`);
    assert.deepEqual(row?.["outside"], ["mail"]);

    // What a run was begun with counts like what it reads.
    const begun = await beginRun(db, { outside: ["earlier answers"] });
    const asked = await beginRun(db, {
      parent: { runId: begun.runId, toolCallId: testIds.next("call") },
    });
    await write(db, begun, [begun.start], { toolCalls: [call("file", "started")] });
    for (const one of [begun, asked]) {
      assert.deepEqual(await permitOf(one)({}), ask("earlier answers", "file"));
    }
  });
});
