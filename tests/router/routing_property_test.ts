import assert from "node:assert/strict";
import fc from "fast-check";
import type { Target } from "../../src/providers/target.ts";
import { createFakeAnswer, createFakeTarget } from "../support/fake_target.ts";
import { property } from "../support/property.ts";
import { createRoutingRig, finish, routeOf, seeded, withKeys } from "./routing_rig.ts";

const NAMES = ["a", "b", "c", "d", "e", "f"];

/** The targets asked by many requests, each with its own affinity or none. */
async function firstChoices(
  route: ReturnType<typeof routeOf>,
  affinities: readonly (string | null)[],
  seed: number,
): Promise<string[]> {
  const rig = createRoutingRig({ seed });
  const chosen: string[] = [];
  for (const affinity of affinities) {
    const answer = await rig.open(route, { affinity });
    chosen.push(answer.attempt.target.id);
    await finish(answer);
  }
  return chosen;
}

const good = (model: string): Target =>
  createFakeTarget(`p/${model}`, () => createFakeAnswer({ pieces: ["{}"] }).response);

const weights = fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 2, maxLength: 6 })
  .filter((all) => all.some((weight) => weight > 0));

for (const byAffinity of [false, true]) {
  property(
    `shares come to the weights, ${byAffinity ? "over sessions" : "over requests"}`,
    fc.tuple(weights, fc.integer({ min: 1, max: 1e9 })),
    async ([shares, seed]) => {
      const targets = shares.map((_, at) => good(NAMES[at] ?? ""));
      const route = routeOf(targets, {
        strategy: "weights",
        weights: Object.fromEntries(shares.map((weight, at) => [`p/${NAMES[at]}`, weight])),
      });
      const count = 1500;
      const affinities = Array.from(
        { length: count },
        (_, at) => byAffinity ? `session ${seed} ${at}` : null,
      );
      const chosen = await firstChoices(route, affinities, seed);
      const total = shares.reduce((sum, weight) => sum + weight, 0);
      for (const [at, weight] of shares.entries()) {
        const share = weight / total;
        const had = chosen.filter((id) => id === `p/${NAMES[at]}`).length / count;
        // Five standard deviations: one in a million.
        const far = 5 * Math.sqrt(share * (1 - share) / count);
        assert.ok(Math.abs(had - share) <= far, `${had} for ${share}`);
      }
    },
    { runs: 20 },
  );
}

property(
  "a session stays: at every replica, and when a target goes only its own sessions move",
  fc.record({
    sessions: fc.uniqueArray(fc.string({ minLength: 1, maxLength: 40 }), {
      minLength: 1,
      maxLength: 40,
    }),
    gone: fc.constantFrom(...NAMES),
    strategy: fc.constantFrom("weights" as const, "latency" as const, "busy" as const),
    seeds: fc.tuple(fc.integer(), fc.integer()),
  }),
  async ({ sessions, gone, strategy, seeds: [one, two] }) => {
    const all = routeOf(NAMES.map(good), { strategy });
    const fewer = routeOf(NAMES.filter((name) => name !== gone).map(good), { strategy });
    const before = await firstChoices(all, sessions, one);
    assert.deepEqual(await firstChoices(all, sessions, two), before);
    // Not by the order of the configuration either.
    const turned = routeOf(NAMES.toReversed().map(good), { strategy });
    assert.deepEqual(await firstChoices(turned, sessions, two), before);
    const after = await firstChoices(fewer, sessions, one);
    for (const [at, id] of before.entries()) {
      if (id === `p/${gone}`) assert.notEqual(after[at], id);
      else assert.equal(after[at], id);
    }
  },
  { runs: 60 },
);

property(
  "a session moves to one other target while its own rests, and comes back",
  fc.string({ minLength: 1 }),
  async (affinity) => {
    const rig = createRoutingRig();
    const route = routeOf(NAMES.map(good), { strategy: "latency" });
    const ask = async () => {
      const answer = await rig.open(route, { affinity });
      await finish(answer);
      return answer.attempt.target.id;
    };
    const home = await ask();
    rig.health.rest(home, 10_000);
    const refuge = await ask();
    assert.notEqual(refuge, home);
    for (let turn = 0; turn < 5; turn++) assert.equal(await ask(), refuge);
    await rig.clock.advance(10_000);
    assert.equal(await ask(), home);
  },
  { runs: 40 },
);

property(
  "sessions keep their key too, and a pool's keys share them",
  fc.integer(),
  async (seed) => {
    const rig = createRoutingRig({ seed });
    const pool = withKeys(good("m"), 4);
    const counts = new Map<number, number>();
    for (let at = 0; at < 200; at++) {
      const affinity = `${seed} ${at}`;
      const keys = new Set<number>();
      for (let turn = 0; turn < 2; turn++) {
        const answer = await rig.open([pool], { affinity });
        keys.add(answer.attempt.target.key?.number ?? 0);
        await finish(answer);
      }
      assert.equal(keys.size, 1);
      for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    assert.equal(counts.size, 4);
    for (const count of counts.values()) assert.ok(count > 20, `${count} of 200`);
  },
  { runs: 10 },
);

/** What happens next: an answer of this status at all targets named, time, or requests that begin together. */
const happening = fc.oneof(
  fc.record({ kind: fc.constant("ask" as const), count: fc.integer({ min: 1, max: 4 }) }),
  fc.record({ kind: fc.constant("wait" as const), ms: fc.constantFrom(100, 1000, 5000, 20_000) }),
  fc.record({
    kind: fc.constant("turn" as const),
    at: fc.integer({ min: 0, max: 3 }),
    status: fc.constantFrom(200, 200, 500, 429, 401),
  }),
);

property(
  "whatever fails, each request asks somebody, and a resting target gets one probe at a time",
  fc.record({
    count: fc.integer({ min: 1, max: 4 }),
    keys: fc.integer({ min: 1, max: 3 }),
    strategy: fc.constantFrom(
      "order" as const,
      "weights" as const,
      "latency" as const,
      "busy" as const,
    ),
    happenings: fc.array(happening, { maxLength: 40 }),
    seed: fc.integer(),
  }),
  async ({ count, keys, strategy, happenings, seed }) => {
    const rig = createRoutingRig({ seed });
    const status = [200, 200, 200, 200];
    const random = seeded(seed);
    /** Tries of a target under way that began while it was not open to all. */
    const probing = new Map<string, number>();
    let asked = 0;
    let lastResort = false;
    const targets = Array.from({ length: count }, (_, at) => {
      const target = createFakeTarget(`p/${NAMES[at]}`, async () => {
        asked++;
        const id = `p/${NAMES[at]}`;
        const isProbe = rig.health.restsUntil(id) > 0;
        if (isProbe) {
          probing.set(id, (probing.get(id) ?? 0) + 1);
          if (!lastResort) assert.ok((probing.get(id) ?? 0) <= 1, "two probes at a time");
        }
        await new Promise<void>((resolve) => rig.clock.setTimer(resolve, 1 + random() * 200));
        if (isProbe) probing.set(id, (probing.get(id) ?? 0) - 1);
        const headers = status[at] === 429 ? { "retry-after": "3" } : {};
        return createFakeAnswer({ status: status[at] ?? 200, headers, pieces: ["{}"] }).response;
      });
      return keys > 1 ? withKeys(target, keys) : target;
    });
    const route = routeOf(targets, { strategy });
    for (const one of happenings) {
      if (one.kind === "turn") status[one.at] = one.status;
      else if (one.kind === "wait") await rig.clock.advance(one.ms);
      else {
        // When all rest, the last candidate is no probe.
        lastResort ||= count === 1 ||
          targets.every(({ id }) => rig.health.restsUntil(id) > 0) || keys > 1;
        const before = asked;
        const opened = Array.from(
          { length: one.count },
          () => rig.open(route).then(finish).catch(() => {}),
        );
        await rig.clock.advance(30);
        assert.ok(asked >= before + one.count, "a request that nobody was asked for");
        if (one.count % 2 === 0) {
          await rig.clock.advance(2000);
          await Promise.all(opened);
        }
      }
    }
    await rig.clock.advance(60_000);
    assert.ok(rig.isQuiet());
    // Nothing is shut out for ever.
    status.fill(200);
    await rig.clock.advance(60_000);
    for (let turn = 0; turn < 8; turn++) {
      const opened = rig.open(route).then(finish);
      await rig.clock.advance(300);
      await opened;
    }
    for (const { id } of targets) assert.equal(rig.health.rests(id), false);
  },
  { runs: 60 },
);
