import assert from "node:assert/strict";
import { type Log, type LogFields, SILENT_LOG } from "../../src/core/log.ts";
import { readJournal } from "../../src/run/journal/journal_records.ts";
import { UsageJournal } from "../../src/run/journal/usage_journal.ts";
import { UsageSpool, type UsageSpoolOptions } from "../../src/run/usage_spool.ts";
import { toDatabaseError } from "../../src/store/database.ts";
import { type EncodedUsageRow, idsOfUsageRow } from "../../src/store/usage_rows.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";
import { createFakeDatabase } from "../support/fake_database.ts";
import { systemClock } from "../support/system_clock.ts";
import { usageRow } from "../support/usage_rows.ts";

const FLUSH_MS = 250;

/** An error as Postgres gives it, with its SQLSTATE. */
const postgresError = (code: string) => toDatabaseError(Object.assign(new Error("no"), { code }));

/** A spool over a Postgres that can go away, hang, and refuse rows. `written` holds numbers of rows, batch by batch. */
function setup(options: Partial<UsageSpoolOptions> = {}) {
  const clock = createFakeClock();
  const written: number[][] = [];
  const depths: number[] = [];
  const logged: { message: string; fields: LogFields | undefined }[] = [];
  const state = {
    away: false,
    /** Statements that Postgres answers before it goes away. */
    awayAfter: Infinity,
    started: 0,
    refused: new Set<number>(),
    code: "22P05",
    /** What the next statements wait for. */
    gate: Promise.resolve(),
  };
  const keep = (message: string, fields?: LogFields) => void logged.push({ message, fields });
  const log: Log = { ...SILENT_LOG, warn: keep, error: keep };
  const db = createFakeDatabase(async ({ text, values: [, input] }) => {
    if (!text.includes("insert into hub.usage")) return [];
    const rows = String(input).split("\x1e") as EncodedUsageRow[];
    const ids = rows.map((row) => Number(idsOfUsageRow(row).requestId.slice(1)));
    state.started++;
    await state.gate;
    if (state.awayAfter-- <= 0) state.away = true;
    if (state.away) throw postgresError("ECONNREFUSED");
    if (ids.some((id) => state.refused.has(id))) throw postgresError(state.code);
    written.push(ids);
    return [];
  });
  const spool = new UsageSpool({
    db,
    clock,
    log,
    flushMs: FLUSH_MS,
    onDepth: (rows) => depths.push(rows),
    ...options,
  });
  let next = 0;
  const add = (count: number) => {
    for (let index = 0; index < count; index++) spool.add(usageRow(next++));
  };
  return { clock, spool, state, written, depths, logged, add };
}

const upTo = (end: number, from = 0) =>
  Array.from({ length: end - from }, (_, index) => from + index);

Deno.test("rows leave together, a while after the first one came", async () => {
  const { clock, spool, written, depths, add } = setup();
  add(2);
  await clock.advance(FLUSH_MS - 1);
  add(1);
  assert.equal(spool.depth, 3);
  assert.deepEqual(written, []);
  await clock.advance(1);
  assert.deepEqual(written, [[0, 1, 2]]);
  assert.deepEqual(depths, [1, 2, 3, 0]);
  assert.equal(clock.pending(), 0);
});

Deno.test("a crowd of rows leaves in batches of a thousand, without waiting between", async () => {
  const { clock, written, add } = setup();
  add(2500);
  await clock.advance(FLUSH_MS);
  assert.deepEqual(written.map((ids) => ids.length), [1000, 1000]);
  await clock.advance(FLUSH_MS);
  assert.deepEqual(written.flat(), upTo(2500));
});

Deno.test("one statement is under way at a time", async () => {
  const { clock, state, written, add } = setup();
  const gate = Promise.withResolvers<void>();
  state.gate = gate.promise;
  add(1);
  await clock.advance(FLUSH_MS);
  add(1);
  await clock.advance(10 * FLUSH_MS);
  assert.deepEqual(written, []);
  gate.resolve();
  await clock.advance(FLUSH_MS);
  assert.deepEqual(written, [[0], [1]]);
});

Deno.test("rows stay while Postgres is away, and are written in order when it is back", async () => {
  const { clock, spool, state, written, logged, add } = setup();
  state.away = true;
  for (let turn = 0; turn < 4; turn++) {
    add(3);
    await clock.advance(FLUSH_MS);
  }
  assert.deepEqual(written, []);
  assert.equal(spool.depth, 12);
  assert.equal(spool.dropped, 0);
  assert.ok(logged.some(({ message }) => /wait for Postgres/.test(message)));
  state.away = false;
  await clock.advance(FLUSH_MS);
  assert.deepEqual(written, [upTo(12)]);
  assert.equal(spool.depth, 0);
  assert.equal(clock.pending(), 0);
});

Deno.test("rows that come while a failing statement is under way stay behind its rows", async () => {
  const { clock, state, written, add } = setup();
  const gate = Promise.withResolvers<void>();
  state.gate = gate.promise;
  state.away = true;
  add(2);
  await clock.advance(FLUSH_MS);
  add(2);
  gate.resolve();
  await settle();
  state.away = false;
  await clock.advance(FLUSH_MS);
  assert.deepEqual(written, [[0, 1, 2, 3]]);
});

Deno.test("past the bound the oldest rows go, are counted, and it is said", async () => {
  const { clock, spool, state, written, logged, add } = setup({ maxRows: 10 });
  state.away = true;
  add(25);
  assert.equal(spool.depth, 10);
  assert.equal(spool.dropped, 15);
  assert.ok(logged.some(({ message }) => /lost/.test(message)));
  state.away = false;
  await clock.advance(FLUSH_MS);
  assert.deepEqual(written, [upTo(25, 15)]);
});

Deno.test("the bound holds over any number of failures", async () => {
  const { clock, spool, state, add } = setup({ maxRows: 10 });
  for (let turn = 0; turn < 20; turn++) {
    const gate = Promise.withResolvers<void>();
    state.gate = gate.promise;
    state.away = true;
    add(10);
    await clock.advance(FLUSH_MS);
    add(10);
    gate.resolve();
    await settle();
    assert.ok(spool.depth <= 10, `${spool.depth} rows wait`);
  }
  assert.equal(spool.dropped, 390);
  state.away = false;
  await spool.close();
});

Deno.test("a row that Postgres refuses is dropped alone, and holds up no other", async () => {
  const { clock, spool, state, written, logged, add } = setup();
  state.refused = new Set([3, 700]);
  add(1000);
  await clock.advance(FLUSH_MS);
  assert.deepEqual(written.flat(), upTo(1000).filter((id) => id !== 3 && id !== 700));
  assert.equal(spool.depth, 0);
  assert.equal(spool.dropped, 2);
  const lost = logged.filter(({ message }) => /refuses/.test(message));
  assert.deepEqual(lost.map(({ fields }) => fields?.["requestId"]), ["r3", "r700"]);
});

Deno.test("Postgres may go away while a refused row is looked for", async () => {
  const { clock, spool, state, written, add } = setup();
  state.refused = new Set([3]);
  state.awayAfter = 3;
  add(8);
  await clock.advance(FLUSH_MS);
  assert.deepEqual(written, [[0, 1]]);
  assert.equal(spool.depth + spool.dropped, 6);
  await clock.advance(FLUSH_MS);
  state.awayAfter = Infinity;
  state.away = false;
  await clock.advance(FLUSH_MS);
  assert.deepEqual(written.flat(), [0, 1, 2, 4, 5, 6, 7]);
  assert.equal(spool.dropped, 1);
});

Deno.test("a mistake that is not in the rows drops none", async () => {
  const { clock, spool, state, written, add } = setup();
  state.refused = new Set([0]);
  state.code = "42P01";
  add(3);
  await clock.advance(4 * FLUSH_MS);
  assert.equal(spool.depth, 3);
  assert.equal(spool.dropped, 0);
  state.refused.clear();
  await clock.advance(FLUSH_MS);
  assert.deepEqual(written, [[0, 1, 2]]);
});

Deno.test("at the end all that waits is written at once, behind what is under way", async () => {
  const { clock, spool, state, written, add } = setup();
  const gate = Promise.withResolvers<void>();
  state.gate = gate.promise;
  add(2);
  await clock.advance(FLUSH_MS);
  add(1500);
  const closed = spool.close();
  await settle();
  assert.deepEqual(written, []);
  gate.resolve();
  await closed;
  assert.deepEqual(written.flat(), upTo(1502));
  assert.equal(clock.pending(), 0);
});

Deno.test("at the end no timer starts a statement that nobody waits for", async () => {
  const { clock, spool, state, written, add } = setup();
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  state.gate = gates[0]?.promise ?? state.gate;
  add(2500);
  await clock.advance(FLUSH_MS);
  const closed = spool.close();
  state.gate = gates[1]?.promise ?? state.gate;
  gates[0]?.resolve();
  await clock.advance(FLUSH_MS);
  assert.equal(state.started, 2);
  gates[1]?.resolve();
  await closed;
  assert.deepEqual(written.flat(), upTo(2500));
  assert.equal(clock.pending(), 0);
});

Deno.test("at the end a Postgres that is away keeps nobody waiting, and the loss is said", async () => {
  const { clock, spool, state, logged, add } = setup();
  state.away = true;
  add(7);
  await spool.close();
  assert.equal(clock.pending(), 0);
  const { message, fields } = logged.at(-1) ?? {};
  assert.match(message ?? "", /were lost/);
  assert.deepEqual(fields, { rows: 7 });
});

Deno.test("an empty spool ends at once", async () => {
  const { clock, spool, written } = setup();
  await spool.close();
  assert.deepEqual(written, []);
  assert.equal(clock.pending(), 0);
});

Deno.test("rows of a run are handed out once, for as long as they may not be written", async () => {
  const { clock, spool, state, written } = setup();
  const runId = `run_${"0".repeat(32)}`;
  const rows = [0, 1, 2, 3].map((index) => ({
    ...usageRow(index),
    ...index === 3 ? {} : { runId },
  }));
  const add = (from: number, to: number) => rows.slice(from, to).forEach((row) => spool.add(row));
  const taken = () => spool.takeOf(runId).map((row) => idsOfUsageRow(row).requestId);
  add(0, 2);
  assert.deepEqual([taken(), taken()], [["r0", "r1"], []]);
  state.away = true;
  add(2, 4);
  await clock.advance(FLUSH_MS);
  assert.deepEqual(taken(), ["r2"]);
  state.away = false;
  spool.add({ ...usageRow(4), runId });
  await clock.advance(FLUSH_MS);
  assert.deepEqual([written, taken()], [[[0, 1, 2, 3, 4]], []]);
});

Deno.test("rows of runs that end without them are not held once they are written, however many come meanwhile", async () => {
  const { clock, spool, state, written } = setup({ maxRows: 3 });
  const runId = (index: number) => `run_${index.toString(16).padStart(32, "0")}`;
  const add = (index: number) => spool.add({ ...usageRow(index), runId: runId(index) });
  const taken = (index: number) => spool.takeOf(runId(index)).length;
  add(0);
  const gate = Promise.withResolvers<void>();
  state.gate = gate.promise;
  await clock.advance(FLUSH_MS);
  add(1);
  gate.resolve();
  await settle();
  assert.deepEqual([written, spool.depth], [[[0]], 1]);
  assert.deepEqual([taken(0), taken(1)], [0, 1]);
  state.away = true;
  for (const index of [2, 3, 4]) add(index);
  assert.deepEqual([spool.dropped, taken(2), taken(4)], [1, 1, 1]);
  add(5);
  add(6);
  assert.equal(spool.dropped, 3);
  assert.deepEqual([taken(3), taken(5), taken(6)], [0, 1, 1]);
});

Deno.test("UsageSpool.settle: a row is written at once with what waits, and resolves with its statement", async () => {
  const { clock, spool, state, written, add } = setup();
  const gate = Promise.withResolvers<void>();
  state.gate = gate.promise;
  add(2);
  let isSettled = false;
  const settled = spool.settle(usageRow(7)).then(() => isSettled = true);
  // One that comes while the statement is under way is in the next one, without a wait.
  const next = spool.settle(usageRow(8));
  await settle();
  assert.deepEqual([state.started, isSettled], [1, false]);
  gate.resolve();
  await Promise.all([settled, next]);
  assert.deepEqual(written, [[0, 1, 7], [8]]);
  assert.equal(clock.pending(), 0);
});

Deno.test("UsageSpool.settle: no answer waits for a Postgres that is away, or for longer than a second", async () => {
  const { clock, spool, state, written } = setup();
  state.away = true;
  await spool.settle(usageRow(0));
  assert.equal(state.started, 1);
  await spool.settle(usageRow(1));
  assert.equal(state.started, 1, "the next one is left to the batches");
  state.away = false;
  await clock.advance(FLUSH_MS);
  assert.deepEqual(written, [[0, 1]]);
  const gate = Promise.withResolvers<void>();
  state.gate = gate.promise;
  let isSettled = false;
  void spool.settle(usageRow(2)).then(() => isSettled = true);
  await clock.advance(999);
  assert.equal(isSettled, false);
  await clock.advance(1);
  assert.equal(isSettled, true);
  gate.resolve();
  await settle();
  assert.deepEqual(written, [[0, 1], [2]]);
});

/** A spool with a journal in a folder of its own. */
async function withJournal(
  body: (rig: ReturnType<typeof setup> & { dir: string }) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-spool-" });
  const options = { dir, name: "one", clock: systemClock, log: SILENT_LOG };
  const journal = await UsageJournal.open(options);
  try {
    await body({ ...setup({ journal, maxRows: 10 }), dir });
  } finally {
    await journal?.close().catch(() => {});
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("UsageSpool: in a long outage rows past the bound stay in the journal, and are written from there", async () => {
  await withJournal(async ({ clock, spool, state, written, add, dir }) => {
    state.away = true;
    for (let turn = 0; turn < 40; turn++) {
      add(10);
      await clock.advance(FLUSH_MS);
      assert.ok(spool.depth <= 10);
    }
    assert.equal(spool.dropped, 0);
    state.away = false;
    await clock.advance(FLUSH_MS);
    // Files are read in real time.
    for (let turn = 0; turn < 5000 && new Set(written.flat()).size < 400; turn++) {
      await Deno.stat(dir);
      await clock.advance(FLUSH_MS);
    }
    assert.deepEqual([...new Set(written.flat())].sort((a, b) => a - b), upTo(400));
    assert.deepEqual(await spool.close(), { waiting: 0, lost: 0 });
  });
});

Deno.test("UsageSpool.close: the grace is used, and what Postgres does not take then is left in the journal", async () => {
  await withJournal(async ({ clock, spool, state, logged, add, dir }) => {
    state.away = true;
    add(3);
    const closed = spool.close(1000);
    await clock.advance(999);
    assert.ok(state.started >= 4, `${state.started} tries`);
    await clock.advance(1);
    assert.deepEqual(await closed, { waiting: 3, lost: 0 });
    assert.deepEqual(logged.filter(({ message }) => message.includes("lost")), []);
    const path = `${dir}/one-000000.journal`;
    assert.equal((await readJournal(path)).rows.length, 3);
  });
});

Deno.test("UsageSpool.close: a Postgres that comes back within the grace gets all", async () => {
  const { clock, spool, state, written, add } = setup();
  state.away = true;
  add(3);
  const closed = spool.close(1000);
  await clock.advance(500);
  state.away = false;
  await clock.advance(500);
  assert.deepEqual([await closed, written], [{ waiting: 0, lost: 0 }, [[0, 1, 2]]]);
});
