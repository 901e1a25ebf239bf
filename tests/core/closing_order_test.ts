import assert from "node:assert/strict";
import { doneWithin } from "../../src/core/clock.ts";
import { ClosingOrder } from "../../src/core/closing_order.ts";
import { createFakeClock } from "../support/fake_clock.ts";

Deno.test("parts end in the order that is written down, one after the other, once", async () => {
  const told: string[] = [];
  const closing = new ClosingOrder(["a", "b", "c", "d"], (name) => told.push(`${name} failed`));
  const gate = Promise.withResolvers<void>();
  closing.add("d", () => void told.push("d"));
  closing.add("b", async () => {
    await gate.promise;
    told.push("b");
    throw new Error("b");
  });
  closing.add("a", () => void told.push("a"));
  const closed = [closing.close(), closing.close()];
  assert.deepEqual(told, ["a"]);
  gate.resolve();
  await Promise.all(closed);
  assert.deepEqual(told, ["a", "b", "b failed", "d"]);
});

Deno.test("doneWithin waits for the work or the limit, and leaves no timer", async () => {
  const clock = createFakeClock();
  assert.equal(await doneWithin(clock, 10, Promise.resolve()), true);
  await assert.rejects(doneWithin(clock, 10, Promise.reject(new Error("x"))), /x/);
  assert.equal(clock.pending(), 0);
  const late = doneWithin(clock, 10, new Promise(() => {}));
  await clock.advance(10);
  assert.equal(await late, false);
});

Deno.test("ClosingOrder: parts that take too long hold up no part behind them, and all end in time", async () => {
  const clock = createFakeClock();
  const told: string[] = [];
  const left: number[] = [];
  const closing = new ClosingOrder(["a", "b", "c", "d"], (name) => told.push(name), {
    clock,
    withinMs: 100,
    leastMs: (name) => name === "c" ? 30 : 5,
  });
  const never = () => new Promise<void>(() => {});
  closing.add("a", never);
  closing.add("b", never);
  closing.add("c", never);
  closing.add("d", () => void left.push(closing.leftMs()));
  assert.equal(closing.leftMs(), 100);
  let isClosed = false;
  void closing.close().then(() => isClosed = true);
  await clock.advance(100);
  assert.deepEqual(told, ["a"]);
  await clock.advance(5);
  assert.deepEqual(told, ["a", "b"]);
  await clock.advance(30);
  assert.deepEqual([told, left, isClosed], [["a", "b", "c"], [0], true]);
});
