import assert from "node:assert/strict";
import { HubError } from "../../src/core/error.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { callTool } from "../../src/operations/call.ts";
import { LiveRuns } from "../../src/run/live_runs.ts";
import type { RunnableAgent, StartOptions } from "../../src/run/runnable_agent.ts";
import { startRun } from "../../src/run/start_run.ts";
import { takeOverAbandoned } from "../../src/run/take_over.ts";
import type { Database } from "../../src/store/database.ts";
import { readHistory } from "../../src/store/messages.ts";

import { createSession } from "../../src/store/sessions.ts";
import { type Answer, says } from "../inference/loop_rig.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { systemClock } from "../support/system_clock.ts";
import { eventually } from "../support/test_hub.ts";
import { tenantId } from "./run_rig.ts";

/** Postgres whose answer to the `at`-th statement from now on is lost: the first one is done all the same. */
function losing(db: Database, at: number): Database {
  let statement = 0;
  return {
    ...db,
    async within(query) {
      statement++;
      const answer = statement === at && at > 1 ? undefined : await db.within(query);
      if (statement !== at) return answer as Awaited<typeof query>;
      throw new HubError("database_unavailable", "The answer was lost");
    },
  };
}

function agentOf(answers: Answer[]): RunnableAgent {
  return {
    settings: { name: "default", systemPrompt: "", maxSteps: 5, maxParallelTools: 4 },
    model: "smart",
    tools: [],
    callModel: () => (request, context) => {
      const answer = answers.shift();
      assert.ok(answer);
      return answer(request, context);
    },
  };
}

Deno.test("a run that was begun and could not be driven is free for the next look", async (t) => {
  await withDatabase(async (db) => {
    const live = new LiveRuns({ db, clock: systemClock, log: SILENT_LOG, leaseMs: 15_000 });
    const optionsOn = (db: Database): StartOptions => ({
      db,
      live,
      executeTool: (tool, input, context) => callTool(tool, input, { context }),
      clock: systemClock,
      ids: testIds,
      random: () => 0.5,
      log: SILENT_LOG,
      owner: "test",
      leaseMs: 15_000,
      approvalTimeoutMs: 60_000,
    });
    const agent = agentOf(["one", "two", "three", "four"].map(says));
    const keyId = testIds.next("key");
    const start = (sessionId: string, options: { text: string | null; db: Database }) =>
      startRun({
        principal: { tenantId, keyId, keyName: "test", role: "user" },
        requestId: "req_1",
        sessionId,
        agent,
        message: options.text === null ? null : {
          clientId: options.text,
          parts: [{ type: "text", text: options.text, id: "t", state: "done" }],
        },
      }, optionsOn(options.db));
    const newSession = async () => {
      const sessionId = testIds.next("ses");
      await createSession(db, { tenantId, sessionId, agent: "default", keyId });
      return sessionId;
    };
    const takeOver = async () => {
      await eventually(async () => {
        const [row] = await db
          .read`select 1 from hub.runs where status = 'running' and lease_until is null`;
        return row;
      });
      const recordUsage = () => assert.fail("no call was under way");
      const options = {
        start: optionsOn(db),
        findAgent: () => agent,
        recordUsage,
        onCommitted() {},
        onLeft() {},
      };
      assert.equal(await takeOverAbandoned(options), 1);
      await eventually(() => Promise.resolve(live.size === 0 ? true : null));
    };
    const texts = async (sessionId: string) =>
      (await readHistory(db, { tenantId, sessionId })).map(({ parts }) =>
        parts.map((part) => part.type === "text" ? part.text : "").join("")
      );

    for (const [at, said] of [[1, "one"], [2, "two"]] as const) {
      await t.step(`statement ${at} fails`, async () => {
        const sessionId = await newSession();
        await assert.rejects(start(sessionId, { text: "Go", db: losing(db, at) }), /lost/);
        await takeOver();
        assert.deepEqual(await texts(sessionId), ["Go", said]);
        const again = await start(sessionId, { text: "Go", db });
        assert.equal(again.live, null);
      });
    }

    await t.step("an answer made again takes the place of the one before", async () => {
      const sessionId = await newSession();
      await (await start(sessionId, { text: "Go", db })).live?.done;
      assert.deepEqual(await texts(sessionId), ["Go", "three"]);
      await assert.rejects(start(sessionId, { text: null, db: losing(db, 2) }), /lost/);
      await takeOver();
      assert.deepEqual(await texts(sessionId), ["Go", "four"]);
    });
    await live.close("test");
  });
});
