import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import { toUuid } from "../../src/core/id.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { callTool } from "../../src/operations/call.ts";
import { LiveRuns } from "../../src/run/live_runs.ts";
import { startRun } from "../../src/run/start_run.ts";
import { readEvents } from "../../src/store/runs.ts";
import { createSession } from "../../src/store/sessions.ts";
import { asks, makeTool, says, textResult } from "../inference/loop_rig.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { systemClock } from "../support/system_clock.ts";
import { tenantId } from "./run_rig.ts";

Deno.test("a tool that needs an approval is refused while nobody can be asked", async () => {
  await withDatabase(async (db) => {
    const warnings: unknown[] = [];
    const log = {
      ...SILENT_LOG,
      with: () => log,
      warn: (...said: unknown[]) => warnings.push(said),
    };
    const ran: string[] = [];
    const tool = (name: string, approval: "ask" | "never") =>
      makeTool(name, () => {
        ran.push(name);
        return textResult("done");
      }, { approval });
    const live = new LiveRuns({ db, clock: systemClock, log: SILENT_LOG, leaseMs: 15_000 });
    const sessionId = testIds.next("ses");
    const keyId = testIds.next("key");
    await createSession(db, { tenantId, sessionId, agent: "default", keyId });
    const answers = [asks(["test_delete", {}], ["test_look", {}]), says("So be it")];
    const started = await startRun({
      principal: { tenantId, keyId, keyName: "test", role: "user" },
      requestId: "req_1",
      sessionId,
      agent: {
        settings: { name: "default", systemPrompt: "", maxSteps: 5, maxParallelTools: 4 },
        model: "smart",
        tools: [tool("test.delete", "ask"), tool("test.look", "never")],
        callModel: () => (request, context) => {
          const answer = answers.shift();
          assert.ok(answer);
          return answer(request, context);
        },
      },
      message: { clientId: null, parts: [{ type: "text", id: "t", text: "Go", state: "done" }] },
    }, {
      db,
      live,
      executeTool: (tool, input, context) => callTool(tool, input, { context }),
      clock: systemClock,
      ids: testIds,
      random: () => 0.5,
      log,
      owner: "test",
      leaseMs: 15_000,
    });
    await started.live?.done;
    assert.deepEqual(ran, ["test.look"]);
    const events = await readEvents(db, {
      tenantId,
      runId: started.runId,
      afterSeq: 0,
      limit: 100,
    });
    assert.deepEqual(checkLog(events), []);
    const denied = events.map(({ event }) => event).find(({ type }) =>
      type === "tool-output-denied"
    );
    assert.ok(denied?.type === "tool-output-denied");
    assert.match(
      denied.errorText,
      /test\.delete needs an approval, which this hub cannot ask for yet/,
    );
    const rows = await db.read`select state from hub.tool_calls
      where run_id = ${toUuid(started.runId as "run_")} order by idx`;
    assert.deepEqual(rows.map((row) => row["state"]), ["denied", "succeeded"]);
    assert.match(JSON.stringify(warnings), /needs an approval.*test\.delete/);
    await live.close("test");
  });
});
