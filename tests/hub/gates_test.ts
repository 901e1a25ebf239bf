import assert from "node:assert/strict";
import fc from "fast-check";
import type { ResolvedConfig } from "../../src/config/load.ts";
import { Deadlines } from "../../src/core/deadlines.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { createGates } from "../../src/hub/gates.ts";
import type { GateCount } from "../../src/telemetry/gate_count.ts";
import { loadText } from "../config/load_fixture.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";
import { property } from "../support/property.ts";
import { createFakeTarget } from "../support/fake_target.ts";

/** Places at providers, and at their model `m` where there is a number for it. */
type Limits = Record<string, { max: number; model?: number }>;

async function configOf(limits: Limits): Promise<ResolvedConfig> {
  const providers = Object.fromEntries(
    Object.entries(limits).map(([name, { max, model }]) => [name, {
      baseUrl: "http://127.0.0.1:1/v1",
      maxConcurrent: max,
      models: { m: model === undefined ? {} : { maxConcurrent: model }, other: {} },
    }]),
  );
  return (await loadText({ providers, defaultModel: `${Object.keys(limits)[0]}/m` })).config;
}

async function setup(limits: Limits) {
  const clock = createFakeClock();
  const counts = new Set<GateCount>();
  const gates = createGates(await configOf(limits), {
    clock,
    log: SILENT_LOG,
    metrics: {
      gate(count) {
        counts.add(count);
        return () => void counts.delete(count);
      },
    },
    deadlines: new Deadlines(clock),
    limitOfKey: () => undefined,
  });
  /** The gates that are shown, each with who is inside and who waits. */
  const shown = () =>
    Object.fromEntries(
      [...counts].filter(({ labels }) => labels.name !== "").map((
        { labels, inside, waiting },
      ) => [labels.name, [inside, waiting]]),
    );
  return { ...gates, shown, reload: async (limits: Limits) => gates.use(await configOf(limits)) };
}

const target = (provider: string, model = "m") =>
  createFakeTarget(`${provider}/${model}`, () => Promise.reject(new Error("nothing is sent")));
const signal = new AbortController().signal;

Deno.test("the gates of a provider that was removed are dropped, at once or with the last who is inside", async () => {
  const { targets, reload, shown } = await setup({ a: { max: 1, model: 1 }, b: { max: 2 } });
  assert.deepEqual(shown(), { a: [0, 0], "a/m": [0, 0], b: [0, 0] });
  await reload({ b: { max: 2 } });
  assert.deepEqual(shown(), { b: [0, 0] });
  assert.ok(targets.tryEnter(target("b")));
  assert.ok(targets.tryEnter(target("b")));
  let third = false;
  const waits = targets.enter(target("b", "other"), signal).then(() => third = true);
  await reload({ c: { max: 3 } });
  // Its limit holds as long as somebody of it is here.
  assert.deepEqual(shown(), { b: [2, 1], c: [0, 0] });
  targets.leave(target("b"));
  await waits;
  assert.ok(third);
  assert.deepEqual(shown(), { b: [2, 0], c: [0, 0] });
  targets.leave(target("b"));
  assert.deepEqual(shown(), { b: [1, 0], c: [0, 0] });
  targets.leave(target("b", "other"));
  assert.deepEqual(shown(), { c: [0, 0] });
});

Deno.test("a provider that comes back finds those inside who are left, with or without a gate", async () => {
  const { targets, reload, shown } = await setup({ a: { max: 2, model: 2 }, b: { max: 1 } });
  assert.ok(targets.tryEnter(target("a")));
  await reload({ b: { max: 1 } });
  assert.deepEqual(shown(), { a: [1, 0], b: [0, 0] });
  await reload({ a: { max: 2, model: 1 }, b: { max: 1 } });
  assert.deepEqual(shown(), { a: [1, 0], "a/m": [1, 0], b: [0, 0] });
  assert.ok(!targets.tryEnter(target("a")));
  targets.leave(target("a"));
  await reload({ b: { max: 1 } });
  // A request that had found its target before the reload.
  assert.ok(targets.tryEnter(target("a")));
  await reload({ a: { max: 1 }, b: { max: 1 } });
  assert.deepEqual(shown(), { b: [0, 0], a: [1, 0] });
  assert.ok(!targets.tryEnter(target("a", "other")));
  targets.leave(target("a"));
  assert.deepEqual(shown(), { b: [0, 0], a: [0, 0] });
});

Deno.test("a model that gets a limit while its requests wait at the provider counts them", async () => {
  const { targets, reload, shown } = await setup({ a: { max: 1 } });
  assert.ok(targets.tryEnter(target("a", "other")));
  const entered = targets.enter(target("a"), signal);
  await reload({ a: { max: 1, model: 1 } });
  assert.deepEqual(shown(), { a: [1, 1], "a/m": [1, 0] });
  targets.leave(target("a", "other"));
  await entered;
  targets.leave(target("a"));
  assert.deepEqual(shown(), { a: [0, 0], "a/m": [0, 0] });
});

property(
  "whatever comes, goes and is reloaded: gates count who is inside, and none is left of what is no more",
  fc.array(
    fc.oneof(
      fc.record({
        do: fc.constant("enter" as const),
        at: fc.constantFrom("a", "b", "c"),
        model: fc.constantFrom("m", "other"),
      }),
      fc.record({ do: fc.constant("leave" as const), nth: fc.nat(20) }),
      fc.record({ do: fc.constant("abort" as const), nth: fc.nat(20) }),
      fc.record({
        do: fc.constant("reload" as const),
        limits: fc.dictionary(
          fc.constantFrom("a", "b", "c"),
          fc.record(
            { max: fc.integer({ min: 1, max: 2 }), model: fc.integer({ min: 1, max: 2 }) },
            { requiredKeys: ["max"] },
          ),
          { minKeys: 1 },
        ),
      }),
    ),
    { maxLength: 40 },
  ),
  async (steps) => {
    const { targets, reload, shown } = await setup({ a: { max: 1, model: 1 }, b: { max: 2 } });
    interface Guest {
      at: ReturnType<typeof target>;
      abort: AbortController;
      state: "waits" | "inside" | "gone";
    }
    const guests: Guest[] = [];
    const nth = (state: Guest["state"], n: number) => {
      const all = guests.filter((guest) => guest.state === state);
      return all[n % all.length];
    };
    const leave = (guest: Guest | undefined) => {
      if (guest === undefined) return;
      guest.state = "gone";
      targets.leave(guest.at);
    };
    for (const step of steps) {
      if (step.do === "enter") {
        const guest: Guest = {
          at: target(step.at, step.model),
          abort: new AbortController(),
          state: "waits",
        };
        guests.push(guest);
        targets.enter(guest.at, guest.abort.signal).then(
          () => guest.state = "inside",
          () => guest.state = "gone",
        );
      } else if (step.do === "leave") leave(nth("inside", step.nth));
      else if (step.do === "abort") nth("waits", step.nth)?.abort.abort(new Error("left"));
      else await reload(step.limits as Limits);
      await settle();
      const inside = (at: string) =>
        guests.filter((guest) => guest.state === "inside" && guest.at.provider === at).length;
      for (const [name, [count]] of Object.entries(shown())) {
        if (!name.includes("/")) assert.equal(count, inside(name), name);
      }
    }
    await reload({ c: { max: 1 } });
    for (let guest = nth("inside", 0); guest !== undefined; guest = nth("inside", 0)) {
      leave(guest);
      await settle();
    }
    assert.deepEqual(guests.filter(({ state }) => state === "waits"), []);
    assert.deepEqual(shown(), { c: [0, 0] });
  },
);
