import assert from "node:assert/strict";
import { HubError } from "../../src/core/error.ts";
import type { SequencedEvent } from "../../src/core/event.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import { CommitQueue } from "../../src/run/commit_queue.ts";
import type { OwnedRun, RunCommit } from "../../src/store/run_commit.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";

const delta = (seq: number): SequencedEvent => ({
  seq,
  event: { type: "text-delta", id: "p0", delta: `d${seq}` },
});

function commitOf(runId: string, seqs: number[], more: Partial<RunCommit> = {}): RunCommit {
  return {
    tenantId: "t",
    sessionId: "ses",
    runId,
    messageId: "msg",
    epoch: 1,
    follows: (seqs[0] ?? 1) - 1,
    events: seqs.map(delta),
    reserveTo: 0,
    parts: [],
    steps: [],
    toolCalls: [],
    ...more,
  };
}

const call = (state: string) => ({
  toolCallId: "call_1",
  step: 0,
  index: 0,
  toolName: "x",
  input: null,
  inputText: "",
  argsHash: "",
  effect: "pure" as const,
  idempotencyKey: "",
  state,
});

const unavailable = () => new HubError("database_unavailable", "No answer");

/** A store with the fence of `commitRuns`; `faults` says what becomes of each write in turn. */
function startQueue(
  faults: ("lost answer" | "not written" | "ok")[] = [],
  /** How many texts were said to each run. */
  said = new Map<string, number>(),
) {
  const clock = createFakeClock();
  const log = new Map<string, number[]>();
  const owners = new Map<string, number>();
  const journal: string[] = [];
  const writes: string[][] = [];
  const lost: string[] = [];
  const committed = new Map<string, number>();
  const last = (runId: string) => log.get(runId)?.at(-1) ?? 0;
  const queue = new CommitQueue({
    async write(commits) {
      writes.push(commits.map(({ runId, events }) => `${runId}:${events.map((e) => e.seq)}`));
      await Promise.resolve();
      const fault = faults.shift() ?? "ok";
      if (fault === "not written") throw unavailable();
      const owned = new Map<string, OwnedRun>();
      for (const { runId, epoch, events, toolCalls, finish, steered } of commits) {
        const first = events[0]?.seq;
        const fenced = first !== undefined && last(runId) >= first;
        if (epoch !== (owners.get(runId) ?? 1) || fenced) continue;
        const isTold = (said.get(runId) ?? 0) > (steered ?? Infinity);
        if (finish !== undefined && isTold) continue;
        log.set(runId, [...log.get(runId) ?? [], ...events.map((event) => event.seq)]);
        journal.push(...toolCalls.map((row) => `${runId} ${row.state}`));
        owned.set(runId, { stopRequested: false, steered: said.get(runId) ?? 0 });
      }
      if (fault === "lost answer") throw unavailable();
      return owned;
    },
    settle({ runId, epoch, events, finish, steered }) {
      if (epoch !== (owners.get(runId) ?? 1)) return Promise.resolve(null);
      const verdict = { stopRequested: false, steered: said.get(runId) ?? 0 };
      if (events.at(-1)?.seq === last(runId)) return Promise.resolve(verdict);
      const isTold = finish !== undefined && verdict.steered > (steered ?? Infinity);
      return Promise.resolve(isTold ? { ...verdict, isHeld: true } : null);
    },
    onCommitted: ({ runId, lastSeq }) => committed.set(runId, lastSeq),
    onLost: (runId, error) => lost.push(`${runId} ${error.code}`),
    clock,
    log: SILENT_LOG,
    flushMs: 200,
    patienceMs: 10_000,
  });
  return { queue, clock, log, owners, journal, writes, lost, committed };
}

Deno.test("a lost answer costs nothing, though newer deltas and rows came meanwhile", async () => {
  const rig = startQueue(["lost answer"]);
  const first = rig.queue.commit(commitOf("run_a", [1, 2]));
  rig.queue.add(commitOf("run_a", [3]));
  await settle();
  rig.queue.add(commitOf("run_a", [4]));
  const second = rig.queue.commit(commitOf("run_a", [], { toolCalls: [call("started")] }));
  await rig.clock.advance(1000);
  await Promise.all([first, second]);
  assert.deepEqual(rig.log.get("run_a"), [1, 2, 3, 4]);
  assert.deepEqual(rig.journal, ["run_a started"]);
  assert.deepEqual(rig.lost, []);
  assert.equal(rig.committed.get("run_a"), 4);
  assert.equal(rig.clock.pending(), 0);
});

Deno.test("rows without events that came behind a lost answer are written all the same", async () => {
  const rig = startQueue(["lost answer"]);
  rig.queue.add(commitOf("run_a", [1]));
  await rig.clock.advance(200);
  const started = rig.queue.commit(commitOf("run_a", [], { toolCalls: [call("started")] }));
  await rig.clock.advance(1000);
  await started;
  assert.deepEqual(rig.journal, ["run_a started"]);
});

Deno.test("a write that failed is made again in order; other runs do not wait for its outcome", async () => {
  const rig = startQueue(["not written", "lost answer", "not written"]);
  rig.queue.add(commitOf("run_a", [1]));
  await rig.clock.advance(200);
  const all = [
    rig.queue.commit(commitOf("run_a", [2])),
    rig.queue.commit(commitOf("run_b", [1])),
  ];
  await rig.clock.advance(5000);
  await Promise.all(all);
  assert.deepEqual(rig.writes[1], ["run_a:1", "run_b:1"]);
  assert.deepEqual([...rig.log], [["run_a", [1, 2]], ["run_b", [1]]]);
  assert.deepEqual(rig.lost, []);
});

Deno.test("a run that somebody else has taken is lost, with all that waits for it", async () => {
  const rig = startQueue(["lost answer"]);
  const first = rig.queue.commit(commitOf("run_a", [1]));
  await settle();
  rig.owners.set("run_a", 2);
  const second = rig.queue.commit(commitOf("run_a", [2]));
  const outcomes = Promise.allSettled([first, second]);
  await rig.clock.advance(1000);
  const codes = (await outcomes).map((one) => one.status === "rejected" && one.reason.code);
  assert.deepEqual(codes, ["lease_lost", "lease_lost"]);
  assert.deepEqual(rig.log.get("run_a"), [1]);
  assert.deepEqual(rig.lost, ["run_a lease_lost"]);
});

Deno.test("past its patience a run is given up, and nothing leaves a hole in its log", async () => {
  const rig = startQueue(Array.from({ length: 40 }, () => "not written"));
  const first = rig.queue.commit(commitOf("run_a", [1]));
  await rig.clock.advance(300);
  const second = rig.queue.commit(commitOf("run_a", [2]));
  const outcomes = Promise.allSettled([first, second]);
  await rig.clock.advance(60_000);
  const codes = (await outcomes).map((one) => one.status === "rejected" && one.reason.code);
  assert.deepEqual(codes, ["database_unavailable", "database_unavailable"]);
  assert.deepEqual(rig.lost, ["run_a database_unavailable"]);
  assert.equal(rig.log.get("run_a"), undefined);
});

Deno.test("deltas that came during a slow write leave without another one behind them", async () => {
  const rig = startQueue(["not written"]);
  rig.queue.add(commitOf("run_a", [1]));
  await rig.clock.advance(200);
  rig.queue.add(commitOf("run_b", [1]));
  await rig.clock.advance(5000);
  assert.deepEqual(rig.log.get("run_b"), [1]);
  await rig.queue.drain();
});

const FINISH = {
  status: "completed",
  finishReason: "stop",
  usage: NO_USAGE,
  costMicros: null,
  provider: "",
  model: "m",
} as const;
const end = (seq: number): SequencedEvent => ({
  seq,
  event: {
    type: "finish",
    finishReason: "stop",
    usage: NO_USAGE,
    costMicros: null,
    metadata: { model: "m", provider: "" },
  },
});

Deno.test("the end of a run that was told something is held: deltas that waited are written, and the next end too", async () => {
  for (const faults of [[], ["ok", "lost answer"], ["lost answer"]] as const) {
    const said = new Map([["run_a", 1]]);
    const rig = startQueue([...faults], said);
    rig.queue.add(commitOf("run_a", [1, 2]));
    const finish = (seqs: number[], last: number, steered: number) => {
      const commit = commitOf("run_a", seqs, { finish: FINISH, steered });
      commit.events.push(end(last));
      return rig.queue.commit(commit);
    };
    const held = finish([3], 4, 0);
    await rig.clock.advance(1000);
    const { isHeld, steered } = await held;
    assert.deepEqual({ isHeld, steered }, { isHeld: true, steered: 1 });
    assert.deepEqual(rig.log.get("run_a"), [1, 2, 3]);
    const written = await finish([], 4, 1);
    assert.equal(written.isHeld, false);
    assert.deepEqual(rig.log.get("run_a"), [1, 2, 3, 4]);
    assert.deepEqual(rig.lost, []);
    assert.equal(rig.clock.pending(), 0);
  }
});

Deno.test("what a lost run still says does not join what it said before", async () => {
  const rig = startQueue();
  rig.queue.add(commitOf("run_a", [1]));
  const late = rig.queue.commit(commitOf("run_a", [2], { epoch: -1 }));
  await assert.rejects(late, { code: "lease_lost" });
  await rig.clock.advance(200);
  assert.deepEqual(rig.log.get("run_a"), [1]);
  assert.deepEqual(rig.lost, []);
});

Deno.test("a late answer about a former epoch leaves the run to its new one", async () => {
  const answers: PromiseWithResolvers<Map<string, OwnedRun>>[] = [];
  const lost: number[] = [];
  const clock = createFakeClock();
  const queue = new CommitQueue({
    write() {
      const answer = Promise.withResolvers<Map<string, OwnedRun>>();
      answers.push(answer);
      return answer.promise;
    },
    settle: () => Promise.resolve(null),
    onCommitted() {},
    onLost: (_runId, _error, epoch) => lost.push(epoch),
    clock,
    log: SILENT_LOG,
    flushMs: 200,
    patienceMs: 10_000,
  });
  queue.add(commitOf("run_a", [1]));
  await clock.advance(200);
  queue.drop("run_a");
  const renewed = queue.commit(commitOf("run_a", [2], { epoch: 3 }));
  answers[0]?.resolve(new Map());
  await settle();
  answers[1]?.resolve(new Map([["run_a", { stopRequested: false, steered: 0 }]]));
  await renewed;
  assert.deepEqual(lost, [1]);
});

Deno.test("a lease counts from when its renewal was sent, and not from a write that was there already", async () => {
  const verdict = { stopRequested: false, steered: 0 };
  const answers = [
    Promise.withResolvers<Map<string, OwnedRun>>(),
    Promise.withResolvers<Map<string, OwnedRun>>(),
  ];
  const [late, lost] = answers;
  const from: (number | null)[] = [];
  const clock = createFakeClock();
  const queue = new CommitQueue({
    write: () => answers.shift()?.promise ?? assert.fail("a third write"),
    settle: () => Promise.resolve(verdict),
    onCommitted: ({ leaseFromMs }) => from.push(leaseFromMs),
    onLost: (runId) => assert.fail(runId),
    clock,
    log: SILENT_LOG,
    flushMs: 200,
    patienceMs: 10_000,
  });
  const askedMs = clock.monotonic();
  const first = queue.commit(commitOf("run_a", [1]));
  await clock.advance(700);
  late?.resolve(new Map([["run_a", verdict]]));
  await first;
  lost?.resolve(new Map());
  await queue.commit(commitOf("run_a", [2]));
  assert.deepEqual(from, [askedMs, null]);
});
