import assert from "node:assert/strict";
import fc from "fast-check";
import type { KeyPolicy } from "../../src/policy/key_policy.ts";
import { readWindows, reserve, reserveAll } from "../../src/store/budgets.ts";
import {
  fitRates,
  type RateVerdict,
  type RateWish,
  sliceOf,
  takeRate,
  takeRates,
} from "../../src/store/rates.ts";
import { DEFAULT_TENANT_ID as tenantId } from "../../src/store/tenant.ts";
import {
  AGENT,
  liveOf,
  newKey,
  reservedOf,
  WINDOW_IDS,
  WINDOWS,
  wishOf,
} from "../support/budget_wishes.ts";
import { testIds, withDatabase } from "../support/postgres.ts";

const SLICE = sliceOf(Date.UTC(2026, 10, 21, 10, 7, 3));

const cap = fc.option(fc.nat(300), { nil: undefined });
const budget = (hardMicros: number | undefined) => hardMicros === undefined ? {} : { hardMicros };
const policies = fc.record({ daily: cap, monthly: cap, total: cap, agent: cap }).map((caps) => ({
  budgets: {
    daily: budget(caps.daily),
    monthly: budget(caps.monthly),
    total: { ...budget(caps.total), softMicros: 5 },
  },
  agentBudgets: { clerk: { total: budget(caps.agent) } },
}));

Deno.test("reservations of one statement get what they get one after the other", async () => {
  await withDatabase(async (db) => {
    const calls = fc.array(
      fc.record({ key: fc.nat(2), amount: fc.nat(60), agent: fc.boolean() }),
      { maxLength: 40, size: "max" },
    );
    const check = async (
      policy: KeyPolicy[],
      asked: { key: number; amount: number; agent: boolean }[],
      first: number,
    ) => {
      const make = () => Promise.all(policy.map((policy) => newKey(db, policy)));
      const [together, apart] = await Promise.all([make(), make()]);
      for (const keyId of [...together, ...apart]) {
        await reserve(db, wishOf(keyId, 0, [...WINDOWS, AGENT]));
        await reserve(db, wishOf(keyId, first));
      }
      const wishesOf = (keys: string[]) =>
        asked.map(({ key, amount, agent }) =>
          wishOf(keys[key] ?? "", amount, agent ? [...WINDOWS, AGENT] : WINDOWS)
        );
      const verdicts = await reserveAll(db, tenantId, wishesOf(together));
      const expected = [];
      for (const wish of wishesOf(apart)) expected.push(await reserve(db, wish));
      assert.deepEqual(verdicts, expected);
      for (const [index, keyId] of together.entries()) {
        const [one, other] = await Promise.all(
          [keyId, apart[index] ?? ""].map((keyId) =>
            readWindows(db, { tenantId, keyId, ids: WINDOW_IDS })
          ),
        );
        const byId = (a: { id: string }, b: { id: string }) => a.id < b.id ? -1 : 1;
        assert.deepEqual(one?.toSorted(byId), other?.toSorted(byId));
        assert.equal((await liveOf(db, keyId))[0], await reservedOf(db, keyId));
      }
    };
    const three = fc.array(policies, { minLength: 3, maxLength: 3 });
    await fc.assert(fc.asyncProperty(three, calls, fc.nat(40), check), {
      numRuns: 15,
      endOnFailure: true,
    });

    const [open, closed] = await Promise.all([newKey(db, {}), newKey(db, {})]);
    await reserve(db, wishOf(open, 1));
    const both = await reserveAll(db, tenantId, [wishOf(closed, 1), wishOf(open, 1)]);
    assert.deepEqual(both.map((verdict) => verdict?.fits), [undefined, true]);
    assert.deepEqual(await liveOf(db, closed), [0, 0]);
  });
});

/** A verdict but for what it found: calls of one statement find the same. */
const withoutSlices = (verdict: RateVerdict | null) => ({ ...verdict, slices: null });

Deno.test("places in minutes that are taken in one statement are those taken one after the other", async () => {
  await withDatabase(async (db) => {
    const limit = (max: number) => fc.option(fc.nat(max), { nil: null });
    const calls = fc.array(fc.record({ key: fc.nat(2), tokens: fc.nat(30) }), {
      maxLength: 40,
      size: "max",
    });
    const limits = fc.array(fc.record({ maxRequests: limit(12), maxTokens: limit(250) }), {
      minLength: 3,
      maxLength: 3,
    });
    const together = async (wishes: RateWish[]): Promise<(RateVerdict | null)[]> => {
      const taken = await takeRates(db, tenantId, wishes);
      const left = wishes.filter((_, index) => taken[index] === null);
      const fitted = left.length === 0 ? [] : await fitRates(db, tenantId, left);
      return taken.map((verdict) => verdict ?? fitted.shift() ?? null);
    };
    const check = async (
      limits: { maxRequests: number | null; maxTokens: number | null }[],
      asked: { key: number; tokens: number }[],
      first: boolean,
    ) => {
      const make = () => limits.map(() => testIds.next("key"));
      const keys = { together: make(), apart: make() };
      const wishesOf = (keys: string[]) =>
        asked.map(({ key, tokens }): RateWish => ({
          tenantId,
          keyId: keys[key] ?? "",
          slice: SLICE,
          tokens,
          maxRequests: limits[key]?.maxRequests ?? null,
          maxTokens: limits[key]?.maxTokens ?? null,
        }));
      const before = first ? [keys.together[0], keys.apart[0]] : [];
      for (const keyId of before) {
        const free = { tokens: 7, maxRequests: null, maxTokens: null };
        await takeRate(db, { tenantId, keyId: keyId ?? "", slice: SLICE, ...free });
      }
      const wishes = wishesOf(keys.together);
      const half = wishes.length >> 1;
      const verdicts = await together(wishes.slice(0, half));
      verdicts.push(...await together(wishes.slice(half)));
      const expected = [];
      for (const wish of wishesOf(keys.apart)) expected.push(await takeRate(db, wish));
      assert.deepEqual(verdicts.map(withoutSlices), expected.map(withoutSlices));
    };
    const free = { maxRequests: null, maxTokens: null };
    const over = Array(6).fill({ key: 0, tokens: 1 });
    await fc.assert(fc.asyncProperty(limits, calls, fc.boolean(), check), {
      // The second half of the calls finds room for some of them.
      examples: [
        [[{ maxRequests: 4, maxTokens: null }, free, free], over, false],
        [[{ maxRequests: null, maxTokens: 4 }, free, free], over, false],
      ],
      numRuns: 25,
      endOnFailure: true,
    });
  });
});
