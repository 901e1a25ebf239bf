import assert from "node:assert/strict";
import { type Log, SILENT_LOG } from "../../../src/core/log.ts";
import { eachLeftJournal } from "../../../src/run/journal/journal_lock.ts";
import { readJournal } from "../../../src/run/journal/journal_records.ts";
import { type JournalOptions, UsageJournal } from "../../../src/run/journal/usage_journal.ts";
import { systemClock } from "../../support/system_clock.ts";
import { eventually } from "../../support/test_hub.ts";
import { begunOf, rowOf, usageRow } from "../../support/usage_rows.ts";

const ids = (...indexes: number[]) => indexes.map((index) => usageRow(index).usageId);

async function withFolder(
  body: (
    folder: { dir: string; open(more?: Partial<JournalOptions>): Promise<UsageJournal> },
  ) => Promise<void>,
): Promise<void> {
  const dir = `${await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-journal-" })}/usage`;
  let count = 0;
  try {
    await body({
      dir,
      async open(more = {}) {
        const options = { dir, name: `one-${count++}`, clock: systemClock, log: SILENT_LOG };
        return await UsageJournal.open({ ...options, ...more }) ?? assert.fail("no journal");
      },
    });
  } finally {
    await Deno.remove(`${dir}/..`, { recursive: true });
  }
}

const filesOf = async (dir: string) =>
  (await Array.fromAsync(Deno.readDir(dir), ({ name }) => name)).filter((name) =>
    name.endsWith(".journal")
  ).sort();

/** What all files of the folder hold. */
async function heldIn(dir: string) {
  const files = await Promise.all(
    (await filesOf(dir)).map((name) => readJournal(`${dir}/${name}`)),
  );
  return {
    rows: files.flatMap(({ rows }) => rows),
    begun: files.flatMap(({ begun }) => begun),
  };
}

Deno.test("UsageJournal: what is not booked is in a file of its owner alone, and what is booked goes", async () => {
  await withFolder(async ({ dir, open }) => {
    const journal = await open();
    journal.appendBegun(begunOf(9));
    assert.deepEqual((await heldIn(dir)).begun, [begunOf(9)], "before it returns");
    for (const index of [1, 2, 3]) journal.append(rowOf(index));
    await eventually(async () => (await heldIn(dir)).rows.length === 3 || null);
    const [name = ""] = await filesOf(dir);
    assert.equal(((await Deno.stat(`${dir}/${name}`)).mode ?? 0) & 0o777, 0o600);
    assert.equal(((await Deno.stat(dir)).mode ?? 0) & 0o777, 0o700);
    journal.booked(ids(1, 2));
    assert.deepEqual([journal.holds(usageRow(1).usageId), journal.holds(usageRow(3).usageId)], [
      false,
      true,
    ]);
    journal.booked(ids(3));
    assert.equal((await Deno.stat(`${dir}/${name}`)).size > 0, true, "a begun call is left");
    journal.noted([begunOf(9)]);
    assert.equal((await Deno.stat(`${dir}/${name}`)).size, 0);
    await journal.close();
    assert.deepEqual(await Array.fromAsync(Deno.readDir(dir)), []);
  });
});

Deno.test("UsageJournal: files of a living process are no one else's, those of a gone one are one process's", async () => {
  await withFolder(async ({ dir, open }) => {
    const journal = await open();
    journal.append(rowOf(1));
    await journal.sync();
    const look = async () => {
      const found: string[][] = [];
      await eachLeftJournal(dir, async (paths, lock) => {
        found.push([...paths]);
        // Another process looks meanwhile.
        await eachLeftJournal(dir, () => assert.fail("booked by two"));
        lock.leave();
      });
      return found.map((paths) => paths.length);
    };
    assert.deepEqual(await look(), []);
    await journal.close();
    assert.deepEqual(await look(), [1]);
    assert.deepEqual((await heldIn(dir)).rows, [rowOf(1)]);
  });
});

Deno.test("UsageJournal: a full file is followed by the next, and spilled ones wait to be read again", async () => {
  await withFolder(async ({ dir, open }) => {
    const journal = await open();
    const wide = (index: number) => rowOf(index, { publicModel: "x".repeat(100_000) });
    for (let index = 0; index < 60; index++) {
      journal.append(wide(index));
      await journal.sync();
    }
    assert.equal((await filesOf(dir)).length, 2);
    journal.spill(ids(0, 59));
    assert.equal((await filesOf(dir)).length, 3);
    journal.booked(ids(...Array.from({ length: 60 }, (_, index) => index)));
    const spilled: number[] = [];
    for (let file = journal.spilled; file !== null; file = journal.spilled) {
      spilled.push((await readJournal(file.path)).rows.length);
      journal.reread(file.path);
    }
    assert.equal(spilled.length, 2);
    assert.equal(spilled.reduce((sum, count) => sum + count), 60);
    await journal.close();
    await eventually(async () => (await filesOf(dir)).length === 0 || null);
  });
});

Deno.test("UsageJournal: past its bound nothing is appended, and a folder that cannot be written is told once", async () => {
  await withFolder(async ({ dir, open }) => {
    const journal = await open({ maxBytes: 2000 });
    for (let index = 0; index < 10; index++) journal.append(rowOf(index));
    await journal.sync();
    assert.ok(journal.holds(usageRow(0).usageId) && !journal.holds(usageRow(9).usageId));
    assert.ok((await Deno.stat(`${dir}/${(await filesOf(dir))[0]}`)).size <= 2000);
    await journal.close();

    const told: string[] = [];
    const log: Log = { ...SILENT_LOG, warn: (message) => void told.push(message) };
    await Deno.writeTextFile(`${dir}/file`, "");
    const options = { dir: `${dir}/file`, name: "x", clock: systemClock, log };
    assert.equal(await UsageJournal.open(options), null);
    assert.equal(told.length, 1);
    assert.match(told[0] ?? "", /no journal of usage rows/);
  });
});
