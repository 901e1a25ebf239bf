import assert from "node:assert/strict";
import { Aborter } from "../../src/core/abort.ts";
import { HubError } from "../../src/core/error.ts";
import { GroupCommit } from "../../src/core/group_commit.ts";
import { settle } from "../support/fake_clock.ts";

/** A group whose writes wait until they are told to end; a verdict is the item and its place in the batch. */
function createRig(options: { maxBatch?: number; maxWaiting?: number } = {}) {
  const batches: string[][] = [];
  const ends: PromiseWithResolvers<void>[] = [];
  const group = new GroupCommit<string, string>({
    maxBatch: 100,
    maxWaiting: 100,
    isRefusal: (error) => error instanceof HubError && error.code === "invalid_request",
    ...options,
    async write(items) {
      batches.push([...items]);
      const end = Promise.withResolvers<void>();
      ends.push(end);
      await end.promise;
      return items.map((item, index) => `${item}${index}`);
    },
  });
  return {
    group,
    batches,
    /** Ends the write that is under way, and lets the next one begin. */
    async end(error?: Error) {
      const last = ends.at(-1);
      if (error === undefined) last?.resolve();
      else last?.reject(error);
      await settle();
    },
  };
}

const refused = new HubError("invalid_request", "One of them is wrong");
const away = new HubError("database_unavailable", "Nobody knows");
/** What a promise has come to. */
const outcome = (promise: Promise<string>) => promise.catch((error: unknown) => error);

Deno.test("who is alone is written at once; what comes meanwhile goes together, in order", async () => {
  const { group, batches, end } = createRig();
  const all = ["a", "b", "c", "d"].map((item) => group.add(item));
  assert.deepEqual(batches, [["a"]]);
  await end();
  assert.deepEqual(batches, [["a"], ["b", "c", "d"]]);
  const late = group.add("e");
  await end();
  await end();
  assert.deepEqual(await Promise.all([...all, late]), ["a0", "b0", "c1", "d2", "e0"]);
  assert.deepEqual(batches, [["a"], ["b", "c", "d"], ["e"]]);
  void group.add("f");
  assert.deepEqual(batches.at(-1), ["f"]);
  await end();
});

Deno.test("a batch has so many at most, and so many may wait", async () => {
  const { group, batches, end } = createRig({ maxBatch: 2, maxWaiting: 3 });
  const all = ["a", "b", "c", "d"].map((item) => group.add(item));
  await assert.rejects(group.add("e"), { code: "overloaded" });
  for (let write = 0; write < 3; write++) await end();
  assert.deepEqual(await Promise.all(all), ["a0", "b0", "c1", "d0"]);
  assert.deepEqual(batches, [["a"], ["b", "c"], ["d"]]);
});

Deno.test("who leaves before it was sent is not written, and hears so at once; who leaves later has its verdict", async () => {
  const { group, batches, end } = createRig();
  const signals = ["a", "b", "c"].map(() => new Aborter());
  const [a, b, c] = signals;
  const all = ["a", "b", "c"].map((item, index) => outcome(group.add(item, signals[index])));
  const reason = new Error("left");
  b?.abort(reason);
  assert.equal(await all[1], reason);
  a?.abort(reason);
  assert.equal(await outcome(group.add("x", a)), reason);
  await end();
  c?.abort(reason);
  await end();
  assert.deepEqual(await Promise.all(all), ["a0", reason, "c0"]);
  assert.deepEqual(batches, [["a"], ["c"]]);
});

Deno.test("one that is wrong fails alone, and each of the others is written once", async () => {
  const written: string[] = [];
  let writes = 0;
  const group = new GroupCommit<string, string>({
    maxBatch: 100,
    maxWaiting: 100,
    isRefusal: (error) => error === refused,
    async write(items) {
      writes++;
      await settle();
      if (items.includes("bad")) throw refused;
      written.push(...items);
      return items;
    },
  });
  const items = ["first", ...Array.from({ length: 15 }, (_, index) => `${index}`)];
  items.splice(6, 0, "bad");
  const all = await Promise.all(items.map((item) => outcome(group.add(item))));
  assert.deepEqual(all, items.map((item) => item === "bad" ? refused : item));
  assert.deepEqual(written, items.filter((item) => item !== "bad"));
  assert.ok(writes <= 10, `${writes} writes`);
});

Deno.test("who leaves while a refused batch is halved is not written again", async () => {
  const { group, batches, end } = createRig();
  const signal = new Aborter();
  const first = group.add("first");
  const all = ["a", "b", "c"].map((item) =>
    outcome(group.add(item, item === "c" ? signal : undefined))
  );
  await end();
  signal.abort(away);
  await end(refused);
  await end();
  await end();
  assert.deepEqual(await Promise.all([first, ...all]), ["first0", "a0", "b0", away]);
  assert.deepEqual(batches, [["first"], ["a", "b", "c"], ["a"], ["b"]]);
});

Deno.test("where nobody knows what was written, nothing is written again, and what waits goes on", async () => {
  const { group, batches, end } = createRig({ maxBatch: 2 });
  const all = ["a", "b", "c", "d"].map((item) => outcome(group.add(item)));
  await end();
  await end(away);
  await end();
  assert.deepEqual(await Promise.all(all), ["a0", away, away, "d0"]);
  assert.deepEqual(batches, [["a"], ["b", "c"], ["d"]]);
});
