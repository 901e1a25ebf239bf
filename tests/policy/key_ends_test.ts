import assert from "node:assert/strict";
import { KeyEnds, type KeyTerms } from "../../src/policy/key_ends.ts";
import { createFakeClock } from "../support/fake_clock.ts";

const HOUR_MS = 3_600_000;

function setup() {
  const clock = createFakeClock();
  const told: string[][] = [];
  const ends = new KeyEnds({ clock, onEnded: (keyIds) => told.push(keyIds) });
  const key = (keyId: string, terms: Partial<KeyTerms> = {}): KeyTerms => ({
    ...{ keyId, expiresAt: null, revokedAt: null },
    ...terms,
  });
  const heard: string[] = [];
  const hold = (keyId: string) => ends.hold(keyId, (end) => heard.push(`${keyId} ${end}`));
  return { clock, ends, told, key, heard, hold };
}

Deno.test("KeyEnds: what is held for a key ends when it is revoked or deleted, once", () => {
  const { ends, key, told, heard, hold } = setup();
  ends.update([key("a"), key("b"), key("c")]);
  hold("a");
  hold("a");
  hold("b");
  const release = hold("c");
  release();
  ends.update([key("a", { revokedAt: 1 })]);
  assert.deepEqual(told.map((one) => one.toSorted()), [["a", "b", "c"]]);
  assert.deepEqual(heard.toSorted(), ["a revoked", "a revoked", "b revoked"]);
  ends.update([key("a", { revokedAt: 1 })]);
  assert.equal(told.length, 1);
  assert.equal(ends.endOf("b"), "revoked");
});

Deno.test("KeyEnds: a key expires in its moment, without a new snapshot, however far that is", async () => {
  const { clock, ends, key, told, heard, hold } = setup();
  ends.update([
    key("soon", { expiresAt: clock.now() + 1000 }),
    key("late", { expiresAt: clock.now() + 1000 * HOUR_MS }),
  ]);
  ends.start();
  hold("soon");
  hold("late");
  await clock.advance(999);
  assert.deepEqual(heard, []);
  await clock.advance(1);
  assert.deepEqual(heard, ["soon expired"]);
  await clock.advance(1000 * HOUR_MS);
  assert.deepEqual(told, [["soon"], ["late"]]);
  assert.deepEqual(heard, ["soon expired", "late expired"]);
  ends.close();
  assert.equal(clock.pending(), 0);
});

Deno.test("KeyEnds: a key that has ended ends work at once; one that is extended holds again", async () => {
  const { clock, ends, key, heard, hold } = setup();
  ends.update([key("a", { expiresAt: clock.now() + 10 })]);
  await clock.advance(10);
  // Its timer was not started, and it has expired all the same.
  assert.equal(ends.endOf("a"), "expired");
  hold("a");
  assert.deepEqual(heard, ["a expired"]);
  ends.update([key("a", { expiresAt: clock.now() + HOUR_MS })]);
  assert.equal(ends.endOf("a"), null);
  hold("a");
  assert.deepEqual(heard, ["a expired"]);
});

Deno.test("KeyEnds: a look notices a key that expired while no timer could", async () => {
  const { clock, ends, key, told } = setup();
  ends.update([key("a", { expiresAt: clock.now() + 1000 })]);
  await clock.advance(1000);
  assert.deepEqual(told, []);
  ends.look();
  ends.look();
  assert.deepEqual(told, [["a"]]);
});

Deno.test("KeyEnds: a key that is not known has not ended", () => {
  const { ends, heard, hold } = setup();
  hold("command line");
  ends.update([]);
  assert.equal(ends.endOf("command line"), null);
  assert.deepEqual(heard, []);
});

Deno.test("KeyEnds: a key that was revoked before it came into a snapshot ends what is held for it", () => {
  const { ends, key, heard, hold } = setup();
  ends.update([]);
  hold("new");
  ends.update([key("new", { revokedAt: 1 })]);
  assert.deepEqual(heard, ["new revoked"]);
});
