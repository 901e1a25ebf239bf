import assert from "node:assert/strict";
import { Refresher } from "../../src/core/refresher.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";

Deno.test("Refresher: a look that fails is told, unless it was closed meanwhile", async () => {
  const clock = createFakeClock();
  const errors: string[] = [];
  let look = () => Promise.reject(new Error("away"));
  const refresher = new Refresher({
    clock,
    everyMs: 1000,
    refresh: () => look(),
    onError: (error) => errors.push((error as Error).message),
  });
  refresher.start();
  await clock.advance(1000);
  assert.deepEqual(errors, ["away"]);
  const gate = Promise.withResolvers<never>();
  look = () => gate.promise;
  const checked = refresher.check();
  await settle();
  refresher.close();
  gate.reject(new Error("the pool is closed"));
  await checked;
  await clock.advance(10_000);
  assert.deepEqual(errors, ["away"]);
  assert.equal(clock.pending(), 0);
});
