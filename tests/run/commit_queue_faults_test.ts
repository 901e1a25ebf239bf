import assert from "node:assert/strict";
import fc from "fast-check";
import { HubError } from "../../src/core/error.ts";
import type { SequencedEvent } from "../../src/core/event.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { CommitQueue, type CommitVerdict, joinCommits } from "../../src/run/commit_queue.ts";
import type { RunCommit } from "../../src/store/run_commit.ts";
import type { EncodedUsageRow } from "../../src/store/usage_rows.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";
import { property } from "../support/property.ts";

const FLUSH_MS = 20;
const PATIENCE_MS = 10_000;

const eventOf = (seq: number): SequencedEvent => ({
  seq,
  event: { type: "text-delta", id: "p0", delta: `${seq}` },
});

/** A commit of a run with the events of these numbers. */
function commitOf(runId: string, seqs: readonly number[], more: Partial<RunCommit> = {}) {
  const commit: RunCommit = {
    tenantId: "t",
    sessionId: "s",
    runId,
    messageId: "m",
    epoch: 1,
    follows: (seqs[0] ?? 1) - 1,
    events: seqs.map(eventOf),
    reserveTo: (seqs.at(-1) ?? 0) + 100,
    parts: [],
    steps: [],
    toolCalls: [],
    ...more,
  };
  return commit;
}

/** What the next statement does: writes, is not there, writes and loses the answer, or breaks at one commit (`run:first number`). */
type Mood = "fine" | "away" | "answer lost" | { breaksAt: string };

/** A queue over a log that takes each number of a run once and in order, as the statement in Postgres does. */
function setup() {
  const clock = createFakeClock();
  const logs = new Map<string, number[]>();
  const fenced = new Set<string>();
  const told: string[] = [];
  const state = {
    mood: "fine" as Mood,
    checks: "fine" as "fine" | "away",
    stop: false,
    /** What the next statements wait for. */
    gate: Promise.resolve(),
    /** Runs of each statement. */
    statements: [] as string[][],
    underWay: 0,
  };
  const away = () => new HubError("database_unavailable", "Postgres is not reachable");
  const queue = new CommitQueue({
    async write(commits) {
      state.statements.push(commits.map((commit) => commit.runId));
      assert.equal(++state.underWay, 1, "two statements at a time");
      const { mood } = state;
      await state.gate;
      state.underWay--;
      if (mood === "away") throw away();
      if (commits.some(({ usage }) => usage !== undefined)) {
        throw new HubError("internal_error", "A usage row is refused");
      }
      if (
        typeof mood === "object" &&
        commits.some((commit) => `${commit.runId}:${commit.events[0]?.seq}` === mood.breaksAt)
      ) {
        throw new HubError("internal_error", "A database statement failed");
      }
      const owned = new Map<string, CommitVerdict>();
      for (const { runId, events } of commits) {
        const log = logs.get(runId) ?? [];
        const [first] = events;
        if (fenced.has(runId) || (first !== undefined && first.seq <= (log.at(-1) ?? 0))) continue;
        logs.set(runId, [...log, ...events.map((event) => event.seq)]);
        owned.set(runId, { stopRequested: state.stop, steered: 0 });
      }
      if (mood === "answer lost") throw away();
      return owned;
    },
    settle({ runId, events }) {
      if (state.checks === "away") return Promise.reject(away());
      const last = events.at(-1)?.seq;
      const isWritten = !fenced.has(runId) && last !== undefined &&
        logs.get(runId)?.at(-1) === last;
      return Promise.resolve(isWritten ? { stopRequested: false, steered: 0 } : null);
    },
    onCommitted: ({ runId, lastSeq, verdict }) =>
      told.push(`${runId}:${lastSeq}${verdict.stopRequested ? " stop" : ""}`),
    onLost: (runId, error) => told.push(`${runId} ${error.code}`),
    clock,
    log: SILENT_LOG,
    flushMs: FLUSH_MS,
    patienceMs: PATIENCE_MS,
  });
  return { clock, queue, logs, fenced, told, state };
}

/** The code that a promise rejects with, or "ok". */
const codeOf = (promise: Promise<unknown>) =>
  promise.then(() => "ok", (error) => error instanceof HubError ? error.code : String(error));

/** A gate that a test opens. */
function gated(state: { gate: Promise<void> }) {
  const gate = Promise.withResolvers<void>();
  state.gate = gate.promise;
  return () => {
    state.gate = Promise.resolve();
    gate.resolve();
  };
}

Deno.test("deltas of all runs leave together, within the time given", async () => {
  const { clock, queue, logs, told, state } = setup();
  queue.add(commitOf("a", [1]));
  await clock.advance(FLUSH_MS - 1);
  queue.add(commitOf("a", [2]));
  queue.add(commitOf("b", [1]));
  assert.deepEqual(state.statements, []);
  await clock.advance(1);
  assert.deepEqual(state.statements, [["a", "b"]]);
  assert.deepEqual(logs.get("a"), [1, 2]);
  assert.deepEqual(told, ["a:2", "b:1"]);
  assert.equal(clock.pending(), 0);
});

Deno.test("a transition leaves at once, with all that waits, and is told when it is durable", async () => {
  const { queue, logs, told, state } = setup();
  const open = gated(state);
  queue.add(commitOf("a", [1]));
  queue.add(commitOf("b", [1]));
  let durable = false;
  const committed = queue.commit(commitOf("a", [2])).then(() => durable = true);
  await settle();
  assert.deepEqual(state.statements, [["a", "b"]]);
  assert.equal(durable, false);
  open();
  await committed;
  assert.deepEqual(logs.get("a"), [1, 2]);
  assert.deepEqual(told, ["a:2", "b:1"]);
  await queue.drain();
});

Deno.test("a delta whose time comes while a statement is under way leaves right behind it", async () => {
  const { clock, queue, logs, state } = setup();
  const open = gated(state);
  const first = queue.commit(commitOf("a", [1]));
  queue.add(commitOf("a", [2]));
  await clock.advance(FLUSH_MS);
  assert.equal(state.statements.length, 1);
  open();
  await first;
  await settle();
  assert.deepEqual(logs.get("a"), [1, 2]);
  assert.equal(clock.pending(), 0);
});

Deno.test("a wish to stop is passed on, also when nothing but rows was written", async () => {
  const { queue, told, state } = setup();
  state.stop = true;
  await queue.commit(commitOf("a", [1]));
  await queue.commit(commitOf("a", [], { steps: [{ step: 0, state: "started", attempt: 1 }] }));
  assert.deepEqual(told, ["a:1 stop", "a:0 stop"]);
});

Deno.test("a run that is fenced is lost, and the others of the statement are not", async () => {
  const { queue, fenced, logs, told } = setup();
  fenced.add("b");
  const codes = ["a", "b", "c"].map((runId) => codeOf(queue.commit(commitOf(runId, [1]))));
  assert.deepEqual(await Promise.all(codes), ["ok", "lease_lost", "ok"]);
  assert.deepEqual(told.toSorted(), ["a:1", "b lease_lost", "c:1"]);
  assert.equal(logs.has("b"), false);
});

Deno.test("while Postgres is away all waits, and is then written in order and once", async () => {
  const { clock, queue, logs, told, state } = setup();
  state.mood = "away";
  const first = codeOf(queue.commit(commitOf("a", [1])));
  await clock.advance(1000);
  queue.add(commitOf("a", [2]));
  const second = codeOf(queue.commit(commitOf("a", [3])));
  const other = codeOf(queue.commit(commitOf("b", [1])));
  await clock.advance(5000);
  assert.deepEqual(told, []);
  state.mood = "fine";
  await clock.advance(1000);
  assert.deepEqual(await Promise.all([first, second, other]), ["ok", "ok", "ok"]);
  assert.deepEqual(logs.get("a"), [1, 2, 3]);
  assert.deepEqual(logs.get("b"), [1]);
  assert.equal(clock.pending(), 0);
});

Deno.test("a Postgres that is away is not asked more than once in 50 ms, nor less than once a second", async () => {
  const { clock, queue, state } = setup();
  state.mood = "away";
  const code = codeOf(queue.commit(commitOf("a", [1])));
  await clock.advance(49);
  assert.equal(state.statements.length, 1);
  await clock.advance(1);
  assert.equal(state.statements.length, 2);
  await clock.advance(3950);
  const before = state.statements.length;
  assert.ok(before < 40, `${before} tries in four seconds`);
  await clock.advance(2000);
  assert.ok(state.statements.length - before >= 1);
  state.mood = "fine";
  await clock.advance(1000);
  assert.equal(await code, "ok");
});

Deno.test("when patience ends the run is lost, with all of it that waits: its log would have a hole", async () => {
  const { clock, queue, logs, told, state } = setup();
  state.mood = "away";
  const first = codeOf(queue.commit(commitOf("a", [1])));
  await clock.advance(PATIENCE_MS - 500);
  const second = codeOf(queue.commit(commitOf("a", [2])));
  const other = codeOf(queue.commit(commitOf("b", [1])));
  await clock.advance(2000);
  assert.equal(await first, "database_unavailable");
  assert.equal(await second, "database_unavailable");
  assert.deepEqual(told, ["a database_unavailable"]);
  state.mood = "fine";
  await clock.advance(2000);
  assert.equal(await other, "ok");
  assert.equal(logs.has("a"), false);
  assert.deepEqual(told, ["a database_unavailable", "b:1"]);
  assert.equal(clock.pending(), 0);
});

Deno.test("patience begins with each run's own first failure, not with that of others", async () => {
  const { clock, queue, told, state } = setup();
  state.mood = "away";
  const first = codeOf(queue.commit(commitOf("a", [1])));
  await clock.advance(5000);
  const second = codeOf(queue.commit(commitOf("b", [1])));
  await clock.advance(PATIENCE_MS - 2500);
  assert.deepEqual(told, ["a database_unavailable"]);
  await clock.advance(5000);
  assert.deepEqual(told, ["a database_unavailable", "b database_unavailable"]);
  assert.deepEqual(await Promise.all([first, second]), [
    "database_unavailable",
    "database_unavailable",
  ]);
  assert.equal(clock.pending(), 0);
});

Deno.test("a write whose answer was lost is found to be there", async () => {
  const { clock, queue, logs, told, state } = setup();
  state.mood = "answer lost";
  const code = codeOf(queue.commit(commitOf("a", [1, 2])));
  await settle();
  state.mood = "fine";
  await clock.advance(1000);
  assert.equal(await code, "ok");
  assert.deepEqual(logs.get("a"), [1, 2]);
  assert.deepEqual(told, ["a:2"]);
});

Deno.test("a write whose answer was lost loses no run that went on meanwhile", async () => {
  const { clock, queue, logs, told, state } = setup();
  state.mood = "answer lost";
  const first = codeOf(queue.commit(commitOf("a", [1, 2])));
  await settle();
  state.mood = "fine";
  queue.add(commitOf("a", [3]));
  const second = codeOf(queue.commit(commitOf("a", [4])));
  await clock.advance(1000);
  assert.deepEqual(await Promise.all([first, second]), ["ok", "ok"]);
  assert.deepEqual(logs.get("a"), [1, 2, 3, 4]);
  assert.deepEqual(told, ["a:2", "a:4"]);
});

Deno.test("a failure to ask after a fenced run harms none that was written with it", async () => {
  const { clock, queue, fenced, logs, told, state } = setup();
  fenced.add("b");
  state.checks = "away";
  const a = codeOf(queue.commit(commitOf("c", [1])));
  const codes = ["a", "b"].map((runId) => codeOf(queue.commit(commitOf(runId, [1]))));
  await settle();
  queue.add(commitOf("a", [2]));
  await clock.advance(100);
  state.checks = "fine";
  await clock.advance(1000);
  assert.deepEqual(await Promise.all([a, ...codes]), ["ok", "ok", "lease_lost"]);
  assert.deepEqual(logs.get("a"), [1, 2]);
  assert.deepEqual(told.toSorted(), ["a:1", "a:2", "b lease_lost", "c:1"]);
});

Deno.test("a commit that breaks the statement is lost alone, with what waits behind it", async () => {
  const { queue, logs, told, state } = setup();
  state.mood = { breaksAt: "b:1" };
  const open = gated(state);
  const first = queue.commit(commitOf("x", [1]));
  const codes = ["a", "b", "c"].map((runId) => codeOf(queue.commit(commitOf(runId, [1]))));
  open();
  const openSecond = gated(state);
  await first;
  await settle();
  const late = codeOf(queue.commit(commitOf("b", [2])));
  openSecond();
  assert.deepEqual(await Promise.all(codes), ["ok", "internal_error", "ok"]);
  assert.equal(await late, "internal_error");
  await queue.drain();
  assert.deepEqual(logs.get("a"), [1]);
  assert.deepEqual(logs.get("c"), [1]);
  assert.equal(logs.has("b"), false);
  assert.deepEqual(told.toSorted(), ["a:1", "b internal_error", "c:1", "x:1"]);
});

Deno.test("a usage row that Postgres refuses costs its run nothing, nor any other", async () => {
  const { queue, logs, told } = setup();
  const usage = ["row" as EncodedUsageRow];
  const commits = [commitOf("a", [1]), { ...commitOf("b", [1]), usage }];
  const codes = commits.map((commit) => codeOf(queue.commit(commit)));
  assert.deepEqual(await Promise.all(codes), ["ok", "ok"]);
  await queue.drain();
  assert.deepEqual([logs.get("a"), logs.get("b")], [[1], [1]]);
  assert.deepEqual(told.toSorted(), ["a:1", "b:1"]);
});

Deno.test("a run that is dropped writes no more, and who waits for it is told", async () => {
  const { clock, queue, logs, state } = setup();
  const open = gated(state);
  const first = queue.commit(commitOf("a", [1]));
  const second = codeOf(queue.commit(commitOf("a", [2])));
  queue.drop("a");
  queue.drop("unknown");
  assert.equal(await second, "lease_lost");
  open();
  await first;
  await clock.advance(1000);
  assert.deepEqual(logs.get("a"), [1]);
});

Deno.test("draining writes what waits, also what comes meanwhile, and leaves no timer", async () => {
  const { clock, queue, logs, state } = setup();
  await queue.drain();
  const open = gated(state);
  queue.add(commitOf("a", [1]));
  const drained = queue.drain();
  await settle();
  queue.add(commitOf("a", [2]));
  queue.add(commitOf("b", [1]));
  open();
  await drained;
  assert.deepEqual(logs.get("a"), [1, 2]);
  assert.deepEqual(logs.get("b"), [1]);
  assert.equal(clock.pending(), 0);
});

Deno.test("joined commits hold all events, and of each row the newest", () => {
  const usage = {
    promptTokens: 1,
    completionTokens: 1,
    totalTokens: 2,
    cachedTokens: 0,
    reasoningTokens: 0,
  };
  const textPart = (text: string) => ({ type: "text", id: "t", text, state: "done" }) as const;
  const call = {
    step: 0,
    index: 0,
    toolName: "f",
    input: {},
    inputText: "{}",
    argsHash: "h",
    effect: "pure" as const,
    idempotencyKey: "k",
  };
  const joined = joinCommits(
    commitOf("a", [1, 2], {
      reserveTo: 500,
      parts: [{ index: 0, part: textPart("old") }, { index: 1, part: textPart("kept") }],
      steps: [{ step: 0, state: "started", attempt: 1 }],
      toolCalls: [{ ...call, toolCallId: "c1", state: "started" }],
    }),
    commitOf("a", [3], {
      reserveTo: 400,
      parts: [{ index: 0, part: null }, { index: 2, part: textPart("new") }],
      steps: [{ step: 0, state: "done", attempt: 1, usage }, {
        step: 1,
        state: "started",
        attempt: 1,
      }],
      toolCalls: [
        { ...call, toolCallId: "c1", state: "done" },
        { ...call, toolCallId: "c2", state: "started" },
      ],
      finish: {
        status: "completed",
        finishReason: "stop",
        usage,
        costMicros: null,
        provider: "p",
        model: "m",
      },
    }),
  );
  assert.deepEqual(joined.events.map((event) => event.seq), [1, 2, 3]);
  assert.equal(joined.reserveTo, 500);
  assert.deepEqual(joined.parts, [
    { index: 0, part: null },
    { index: 1, part: textPart("kept") },
    { index: 2, part: textPart("new") },
  ]);
  assert.deepEqual(joined.steps.map((row) => `${row.step} ${row.state}`), ["0 done", "1 started"]);
  assert.deepEqual(joined.toolCalls.map((row) => `${row.toolCallId} ${row.state}`), [
    "c1 done",
    "c2 started",
  ]);
  assert.equal(joined.finish?.status, "completed");
});

const act = fc.oneof(
  fc.record({
    kind: fc.constantFrom("add" as const, "commit" as const),
    run: fc.constantFrom("a", "b", "c"),
  }),
  fc.record({ kind: fc.constant("wait" as const), ms: fc.nat(600) }),
  fc.record({
    kind: fc.constant("mood" as const),
    mood: fc.constantFrom("fine" as const, "away" as const, "answer lost" as const),
  }),
);

property(
  "through any faults each run's log is whole and in order, and what was told durable is there",
  fc.array(act, { maxLength: 40 }),
  async (acts) => {
    const { clock, queue, logs, told, state } = setup();
    const sent = new Map<string, number>();
    const codes: Promise<string>[] = [];
    for (const one of acts) {
      if (one.kind === "wait") await clock.advance(one.ms);
      else if (one.kind === "mood") state.mood = one.mood;
      else {
        const seq = (sent.get(one.run) ?? 0) + 1;
        sent.set(one.run, seq);
        const commit = commitOf(one.run, [seq]);
        if (one.kind === "add") queue.add(commit);
        else {
          codes.push(codeOf(
            queue.commit(commit).then(() => {
              assert.ok((logs.get(one.run)?.at(-1) ?? 0) >= seq);
            }),
          ));
        }
      }
    }
    state.mood = "fine";
    await clock.advance(3000);
    const losses = told.filter((line) => line.includes(" "));
    assert.deepEqual(losses.filter((line) => !line.endsWith("database_unavailable")), []);
    const lost = new Set(losses.map((line) => line.slice(0, 1)));
    for (const [run, last] of sent) {
      const log = logs.get(run) ?? [];
      assert.deepEqual(log, Array.from({ length: log.length }, (_, index) => index + 1));
      if (!lost.has(run)) assert.equal(log.length, last);
    }
    if (lost.size === 0) assert.ok((await Promise.all(codes)).every((code) => code === "ok"));
    await queue.drain();
    assert.equal(clock.pending(), 0);
  },
  { runs: 60 },
);
