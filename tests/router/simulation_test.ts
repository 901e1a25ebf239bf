import assert from "node:assert/strict";
import {
  type Chooser,
  type Figures,
  type Scenario,
  simulate,
  type SimulatedServer,
} from "./simulation.ts";

const steady = (ms: number) => () => ms;
const between = (atMs: number, fromMs: number, toMs: number) => atMs >= fromMs && atMs < toMs;

/** A server that refuses everything for a while, and says when that is over. */
const limited = (fromMs: number, toMs: number): SimulatedServer => ({
  slots: 12,
  serviceMs: steady(120),
  refuses: (atMs) =>
    between(atMs, fromMs, toMs)
      ? { status: 429, retryAfterSeconds: Math.ceil((toMs - atMs) / 1000) }
      : null,
});

const SCENARIOS: readonly Scenario[] = [
  {
    name: "spike",
    lengthMs: 15_000,
    // Three times the load for five seconds; one server is half as fast as the others and has half the room.
    rate: (atMs) => between(atMs, 6000, 11_000) ? 90 : 30,
    servers: [
      { slots: 10, serviceMs: steady(150) },
      { slots: 10, serviceMs: steady(150) },
      { slots: 5, serviceMs: steady(300) },
    ],
  },
  {
    name: "ramp",
    lengthMs: 15_000,
    rate: steady(40),
    // One server becomes slower and slower.
    servers: [
      { slots: 10, serviceMs: (atMs) => 100 + Math.max(0, atMs - 4000) / 5 },
      { slots: 10, serviceMs: steady(120) },
      { slots: 10, serviceMs: steady(140) },
    ],
  },
  {
    name: "step",
    lengthMs: 15_000,
    rate: steady(40),
    // One server is twenty times as slow from one moment to the next, and recovers.
    servers: [
      { slots: 10, serviceMs: (atMs) => between(atMs, 5000, 14_000) ? 2000 : 100 },
      { slots: 10, serviceMs: steady(120) },
      { slots: 10, serviceMs: steady(140) },
    ],
  },
  {
    name: "429 window",
    lengthMs: 15_000,
    rate: steady(40),
    // Two of three servers are limited for half of the time.
    servers: [limited(5000, 11_000), limited(4000, 12_000), { slots: 12, serviceMs: steady(120) }],
  },
  {
    name: "dead key",
    lengthMs: 15_000,
    rate: steady(40),
    // Two of the four keys of a pool are refused from some moment on.
    servers: [{
      slots: 20,
      serviceMs: steady(100),
      keys: 4,
      refuses: (atMs, key) => (key === 2 || key === 3) && atMs >= 3000 ? { status: 401 } : null,
    }],
  },
];

const ROUND_ROBIN: Chooser = { name: "round robin", strategy: "round robin" };
const CHOOSERS: readonly Chooser[] = [
  { name: "weights", strategy: "weights" },
  { name: "busy", strategy: "busy" },
  { name: "latency", strategy: "latency" },
  { name: "latency, hedged", strategy: "latency", hedge: { maxPercent: 5 } },
];
const SEEDS = [1, 2];

/** The mean of some seeds. */
async function play(scenario: Scenario, chooser: Chooser): Promise<Figures> {
  const all: Figures[] = [];
  for (const seed of SEEDS) all.push(await simulate(scenario, chooser, seed));
  const mean = (of: (figures: Figures) => number) =>
    all.reduce((sum, figures) => sum + of(figures), 0) / all.length;
  return {
    requests: mean(({ requests }) => requests),
    goodput: mean(({ goodput }) => goodput),
    p50: mean(({ p50 }) => p50),
    p99: mean(({ p99 }) => p99),
    hedged: mean(({ hedged }) => hedged),
  };
}

for (const scenario of SCENARIOS) {
  Deno.test(`${scenario.name}: the hub's choice beats taking turns`, async () => {
    const turns = await play(scenario, ROUND_ROBIN);
    const lines = [line(ROUND_ROBIN.name, turns)];
    const played = new Map<string, Figures>();
    for (const chooser of CHOOSERS) {
      const figures = await play(scenario, chooser);
      played.set(chooser.name, figures);
      lines.push(line(chooser.name, figures));
      assert.ok(figures.hedged <= figures.requests * 0.05);
    }
    // Whoever looks at what happens serves more in time than whoever takes turns, and its slowest are faster.
    for (const name of ["busy", "latency", "latency, hedged"]) {
      const { goodput = 0, p99 = Infinity } = played.get(name) ?? {};
      assert.ok(goodput > turns.goodput, `goodput of ${name}`);
      assert.ok(p99 < turns.p99, `p99 of ${name}`);
    }
    Deno.stdout.writeSync(new TextEncoder().encode(`${lines.join("\n")}\n`));
  });
}

function line(name: string, { goodput, p50, p99, hedged }: Figures): string {
  const share = `${(goodput * 100).toFixed(1)} %`;
  return `| ${name.padEnd(15)} | ${share.padStart(7)} | ${p50.toFixed(0).padStart(5)} | ${
    p99.toFixed(0).padStart(6)
  } | ${hedged.toFixed(0).padStart(4)} |`;
}
