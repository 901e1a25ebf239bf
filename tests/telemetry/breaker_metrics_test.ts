import assert from "node:assert/strict";
import { TargetHealth } from "../../src/router/target_health.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { createFakeClock } from "../support/fake_clock.ts";

const linesOf = (text: string, name: string) =>
  text.split("\n").filter((line) => line.startsWith(`${name}{`)).sort();

Deno.test("breakers are shown as they stand: closed, open, and half open until the probe has spoken", async () => {
  const clock = createFakeClock();
  const metrics = createMetrics({ models: ["up/m", "up/x/y"] });
  const health = new TargetHealth(clock, metrics.breakerOpened);
  metrics.breakers(health);
  const state = async (name: string, model: string) => {
    const line = linesOf(await metrics.render(), name).find((line) =>
      line.startsWith(`${name}{provider="up",model="${model}",of="target"}`)
    );
    return line === undefined ? null : Number(line.split(" ").at(-1));
  };
  assert.equal(await state("loophub_breaker_state", "m"), 0);
  for (let failure = 0; failure < 5; failure++) health.failed("up/m");
  assert.equal(await state("loophub_breaker_state", "m"), 2);
  assert.equal(await state("loophub_breaker_state", "x/y"), 0);
  assert.equal(await state("loophub_breaker_opened_total", "m"), 1);
  health.rest("up/m", 1000);
  assert.equal(await state("loophub_breaker_opened_total", "m"), 1, "it rests already");
  await clock.advance(5000);
  assert.equal(await state("loophub_breaker_state", "m"), 1);
  assert.equal(health.ask("up/m"), "probe");
  assert.equal(await state("loophub_breaker_state", "m"), 1);
  health.failed("up/m");
  assert.equal(await state("loophub_breaker_state", "m"), 2);
  assert.equal(await state("loophub_breaker_opened_total", "m"), 2);
  await clock.advance(5000);
  health.ask("up/m");
  health.succeeded("up/m");
  assert.equal(await state("loophub_breaker_state", "m"), 0);
});

Deno.test("names of clients and keys of pools make no series of their own", async () => {
  const clock = createFakeClock();
  const metrics = createMetrics({ models: ["up/m"] });
  const health = new TargetHealth(clock, metrics.breakerOpened);
  metrics.breakers(health);
  for (let name = 0; name < 100; name++) health.rest(`up/of-a-client-${name}`, 1000);
  for (let key = 1; key <= 50; key++) {
    health.rest(`up#${key}`, 1000);
    health.rest(`up/m up#${key}`, 1000);
    health.rest(`up/of-a-client-${key} up#${key}`, 1000);
  }
  const text = await metrics.render();
  assert.deepEqual(linesOf(text, "loophub_breaker_state"), [
    'loophub_breaker_state{provider="up",model="",of="key"} 2',
    'loophub_breaker_state{provider="up",model="m",of="key"} 2',
    'loophub_breaker_state{provider="up",model="m",of="target"} 0',
    'loophub_breaker_state{provider="up",model="other",of="key"} 2',
    'loophub_breaker_state{provider="up",model="other",of="target"} 2',
  ]);
  assert.equal(linesOf(text, "loophub_breaker_opened_total").length, 4);
});
