import assert from "node:assert/strict";
import type { HubEvent } from "../../src/core/event.ts";
import { type Id, toUuid } from "../../src/core/id.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import type { SteeringKind } from "../../src/core/steering.ts";
import { steeringEvent } from "../../src/core/steering.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import { endAbandoned } from "../../src/run/end_abandoned.ts";
import { claimAbandoned } from "../../src/store/claim_runs.ts";
import { commitRuns } from "../../src/store/commit_runs.ts";
import type { RunCommit } from "../../src/store/run_commit.ts";
import { listRequests, readEvents, readRun, requestStop } from "../../src/store/runs.ts";
import {
  addSteering,
  listSteering,
  MAX_STEERING,
  MAX_STEERING_BYTES,
  readPendingSteering,
} from "../../src/store/steering.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { beginRun, tenantId, write } from "../run/run_rig.ts";

const FINISH = {
  status: "completed",
  finishReason: "stop",
  usage: NO_USAGE,
  costMicros: 0,
  provider: "acme",
  model: "a",
} as const;

Deno.test("what is said to a run is decided in the database", async (t) => {
  await withDatabase(async (db) => {
    const say = (
      run: { runId: string },
      text: string,
      { clientId = null, kind = "steer" }: { clientId?: string | null; kind?: SteeringKind } = {},
    ) =>
      addSteering(db, {
        tenantId,
        runId: run.runId,
        steeringId: testIds.next("steer"),
        kind,
        text,
        clientId,
      });
    const commitOf = (
      run: Awaited<ReturnType<typeof beginRun>>,
      from: number,
      events: HubEvent[],
      more: Partial<RunCommit> = {},
    ): RunCommit => ({
      tenantId,
      sessionId: run.sessionId,
      runId: run.runId,
      messageId: run.messageId,
      epoch: 1,
      follows: from - 1,
      events: events.map((event, index) => ({ seq: from + index, event })),
      reserveTo: 4096,
      parts: [],
      steps: [],
      toolCalls: [],
      ...more,
    });
    const end: HubEvent = {
      type: "finish",
      finishReason: "stop",
      usage: NO_USAGE,
      costMicros: 0,
      metadata: { model: "a", provider: "acme" },
    };
    const finish = async (run: Awaited<ReturnType<typeof beginRun>>, steered: number) => {
      const commit = commitOf(run, 2, [end], { finish: FINISH, steered });
      return (await commitRuns(db, { commits: [commit], leaseMs: 15_000 })).get(run.runId);
    };
    const raw = (run: { runId: string }) =>
      db.read<{ state: string }[]>`select state from hub.steering
        where tenant_id = ${tenantId} and run_id = ${toUuid(run.runId as Id)} order by position`
        .then((rows) => rows.map(({ state }) => state));

    await t.step("the same id says it once, also at the same time", async () => {
      const run = await beginRun(db);
      const all = await Promise.all(
        Array.from({ length: 8 }, () => say(run, "Hello", { clientId: "one" })),
      );
      assert.deepEqual(all.map(({ kind }) => kind).sort(), [...Array(7).fill("known"), "said"]);
      const ids = all.map((one) => "steering" in one ? one.steering.steeringId : "");
      assert.equal(new Set(ids).size, 1);
      const other = await say(run, "Other", { clientId: "one" });
      assert.ok(other.kind === "known" && other.steering.text === "Hello");
      assert.equal((await readRun(db, run))?.steered, 1);
    });

    await t.step("texts have their order, whoever says them", async () => {
      const run = await beginRun(db);
      await Promise.all(Array.from({ length: 20 }, (_, at) => say(run, `${at}`)));
      const { steered, texts } = await readPendingSteering(db, run);
      assert.equal(steered, 20);
      const listed = await listSteering(db, run);
      assert.deepEqual(listed.map(({ position }) => position), texts.map((_, at) => at + 1));
      assert.deepEqual(listed.map(({ text }) => text), texts.map(({ text }) => text));
      assert.ok(listed.every(({ state, decidedAt }) => state === "pending" && decidedAt === null));
      const asked = await listRequests(db, [run]);
      assert.deepEqual([...asked], [[run.runId, { stopRequested: false, steered: 20 }]]);
    });

    await t.step("every write of the run tells how many there are; the event decides", async () => {
      const run = await beginRun(db);
      await write(db, run, [run.start]);
      const said = await say(run, "Hello");
      assert.ok(said.kind === "said");
      const delta: HubEvent = { type: "text-delta", id: "p", delta: "x" };
      const plain = await commitRuns(db, { commits: [commitOf(run, 2, [delta])], leaseMs: 1000 });
      assert.deepEqual(plain.get(run.runId), { stopRequested: false, steered: 1 });
      const { steeringId } = said.steering;
      const event = steeringEvent(said.steering, "applied");
      const steering = [{ steeringId, state: "applied" as const }];
      const apply = (epoch: number) =>
        commitRuns(db, {
          commits: [commitOf(run, 3, [event], { steering, epoch })],
          leaseMs: 1000,
        });
      assert.equal((await apply(7)).size, 0);
      assert.deepEqual(await raw(run), ["pending"]);
      assert.equal((await apply(1)).size, 1);
      assert.equal((await apply(1)).size, 0);
      assert.deepEqual(await raw(run), ["applied"]);
      const [listed] = await listSteering(db, run);
      assert.ok(listed?.state === "applied" && listed.decidedAt !== null);
      assert.deepEqual(await readPendingSteering(db, run), { steered: 1, texts: [] });
      // Decided once: a text that was read does not become undelivered.
      const late = commitOf(run, 4, [delta], { steering: [{ steeringId, state: "undelivered" }] });
      assert.equal((await commitRuns(db, { commits: [late], leaseMs: 1000 })).size, 1);
      assert.deepEqual(await raw(run), ["applied"]);
    });

    await t.step("no end is written past a text that its writer does not know", async () => {
      const run = await beginRun(db);
      await write(db, run, [run.start]);
      await say(run, "Hello");
      assert.equal(await finish(run, 0), undefined);
      assert.equal((await readRun(db, run))?.lastSeq, 1);
      assert.deepEqual(await finish(run, 1), { stopRequested: false, steered: 1 });
      const refused = await say(run, "Late");
      assert.deepEqual(refused, { kind: "over", status: "completed", isStopping: false });
    });

    await t.step("text and end at once: one of them comes first", async () => {
      for (let round = 0; round < 40; round++) {
        const run = await beginRun(db);
        await write(db, run, [run.start]);
        const isEndFirst = round % 2 === 0;
        const ending = isEndFirst ? finish(run, 0) : null;
        const saying = say(run, "Hello", { clientId: "one" });
        const [said, ended] = await Promise.all([saying, ending ?? finish(run, 0)]);
        const status = (await readRun(db, run))?.status;
        if (said.kind === "said") {
          assert.deepEqual([ended, status], [undefined, "running"]);
        } else {
          assert.equal(said.kind, "over");
          assert.deepEqual([ended?.steered, status], [0, "completed"]);
          assert.deepEqual(await raw(run), []);
        }
      }
    });

    await t.step(
      "a run that is being stopped takes no text, and no run takes too many",
      async () => {
        const run = await beginRun(db);
        assert.equal((await say(run, "Before", { clientId: "one" })).kind, "said");
        await requestStop(db, run);
        const refused = await say(run, "After");
        assert.deepEqual(refused, { kind: "over", status: "running", isStopping: true });
        assert.equal((await say(run, "Before", { clientId: "one" })).kind, "known");
        const full = await beginRun(db);
        await db.control`update hub.runs set steer_count = ${MAX_STEERING}
        where run_id = ${toUuid(full.runId as Id)}`;
        assert.equal((await say(full, "More")).kind, "full");
        const large = await beginRun(db);
        const half = "é".repeat(MAX_STEERING_BYTES / 4);
        assert.equal((await say(large, half, { clientId: "one" })).kind, "said");
        assert.equal((await say(large, half.slice(1))).kind, "said");
        assert.equal((await say(large, "èè")).kind, "full");
        assert.equal((await say(large, half, { clientId: "one" })).kind, "known");
        assert.equal((await say(large, "è")).kind, "said");
        assert.equal((await say(large, "e")).kind, "full");
        assert.equal((await say({ runId: testIds.next("run") }, "x")).kind, "no-run");
        const other = { tenantId: crypto.randomUUID(), runId: run.runId };
        const foreign = { ...other, steeringId: testIds.next("steer"), clientId: null };
        const added = await addSteering(db, { ...foreign, kind: "steer", text: "x" });
        assert.equal(added.kind, "no-run");
        assert.deepEqual(await listSteering(db, other), []);
      },
    );

    await t.step("a lost run that cannot go on says what it left unread", async () => {
      const run = await beginRun(db);
      await write(db, run, [run.start]);
      await say(run, "Hello", { kind: "queue" });
      await say(run, "There");
      await db.control`update hub.runs set lease_until = now() - interval '1 second'
        where run_id = ${toUuid(run.runId as Id)}`;
      const claims = await claimAbandoned(db, { owner: "other", leaseMs: 15_000, limit: 100 });
      const claim = claims.find(({ runId }) => runId === run.runId);
      assert.ok(claim !== undefined);
      const why = { code: "interrupted", errorText: "Gone" };
      await endAbandoned(db, claim, { leaseMs: 15_000, log: SILENT_LOG, why });
      assert.deepEqual(await raw(run), ["undelivered", "undelivered"]);
      const log = await readEvents(db, { tenantId, runId: run.runId, afterSeq: 1, limit: 10 });
      const shown = log.map(({ event }) => event.type === "data" ? event.data : event.type);
      assert.deepEqual(shown, [
        { kind: "queue", text: "Hello", state: "undelivered" },
        { kind: "steer", text: "There", state: "undelivered" },
        "error",
        "finish",
      ]);
    });

    await t.step("what an older hub ended shows nothing as pending", async () => {
      const run = await beginRun(db);
      await write(db, run, [run.start]);
      await say(run, "Hello");
      const commit = commitOf(run, 2, [end], { finish: FINISH });
      assert.equal((await commitRuns(db, { commits: [commit], leaseMs: 15_000 })).size, 1);
      assert.deepEqual((await listSteering(db, run)).map(({ state }) => state), ["undelivered"]);
    });
  });
});
