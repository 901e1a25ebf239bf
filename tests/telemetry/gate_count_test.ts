import assert from "node:assert/strict";
import { type Log, SILENT_LOG } from "../../src/core/log.ts";
import { GateCount } from "../../src/telemetry/gate_count.ts";
import { LineBudget } from "../../src/telemetry/line_budget.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { createFakeClock } from "../support/fake_clock.ts";

Deno.test("a gate that refuses says so at once, and then every ten seconds how many there were", async () => {
  const clock = createFakeClock();
  const lines: unknown[] = [];
  const log: Log = { ...SILENT_LOG, warn: (_, fields) => void lines.push(fields) };
  const count = new GateCount({ gate: "provider", name: "p" }, { clock, log });
  count.inside = 4;
  count.waiting = 8;
  for (let second = 0; second < 25; second++) {
    count.refused("full", "The provider p");
    count.refused("late", "The provider p");
    await clock.advance(1000);
  }
  const facts = { gate: "provider", name: "p", last: "The provider p", why: "full" };
  const numbers = { inside: 4, waiting: 8 };
  assert.deepEqual(lines, [1, 20, 20].map((refused) => ({ ...facts, ...numbers, refused })));
});

Deno.test("what is counted at gates is shown at a scrape", async () => {
  const clock = createFakeClock();
  const metrics = createMetrics();
  const hub = new GateCount({ gate: "hub", name: "" }, { clock, log: SILENT_LOG });
  const model = new GateCount({ gate: "model", name: "p/m" }, { clock, log: SILENT_LOG });
  metrics.gate(hub);
  const hideModel = metrics.gate(model);
  hub.inside = 3;
  model.waiting = 2;
  model.left = 1;
  model.refused("full", "The model p/m");
  model.refused("late", "The model p/m");
  model.refused("late", "The model p/m");
  for (let scrape = 0; scrape < 2; scrape++) {
    const lines = (await metrics.render()).split("\n");
    for (
      const line of [
        'loophub_gate_inside{gate="hub",name=""} 3',
        'loophub_gate_waiting{gate="hub",name=""} 0',
        'loophub_gate_waiting{gate="model",name="p/m"} 2',
        'loophub_gate_turned_away_total{gate="model",name="p/m",reason="full"} 1',
        'loophub_gate_turned_away_total{gate="model",name="p/m",reason="late"} 2',
        'loophub_gate_turned_away_total{gate="model",name="p/m",reason="left"} 1',
      ]
    ) assert.ok(lines.includes(line), line);
  }
  hideModel();
  const left = await metrics.render();
  assert.ok(left.includes('loophub_gate_inside{gate="hub",name=""} 3') && !left.includes("p/m"));
});

Deno.test("a budget of lines is full again after its time", async () => {
  const clock = createFakeClock();
  const budget = new LineBudget(clock, { lines: 2, perMs: 1000 });
  const take = () => [1, 2, 3].map(() => budget.take());
  assert.deepEqual(take(), [true, true, false]);
  await clock.advance(999);
  assert.deepEqual(take(), [false, false, false]);
  await clock.advance(1);
  assert.deepEqual(take(), [true, true, false]);
});
