import assert from "node:assert/strict";
import { rateRefusal } from "../../src/policy/rate_words.ts";

const SLICE = 600_000_000;
const NOW_MS = SLICE * 3000 + 1000;

Deno.test("a refused call comes again when so many slices are over that it has room", () => {
  const facts = {
    maxRequests: null,
    maxTokens: 100,
    requests: 3,
    tokens: 90,
    slice: SLICE,
    nowMs: NOW_MS,
    // The first one is not in the minute any more.
    slices: {
      [SLICE]: [1, 20],
      [SLICE - 9]: [1, 30],
      [SLICE - 20]: [1, 40],
      [SLICE - 21]: [9, 99],
    },
  } as const;
  const after = (more: Partial<Parameters<typeof rateRefusal>[1]> & { wanted: number }) =>
    rateRefusal("key_1", { ...facts, ...more }).retryAfterMs;
  assert.equal(after({ wanted: 50 }), 2000);
  assert.equal(after({ wanted: 51 }), 2000 + 11 * 3000);
  assert.equal(after({ wanted: 81 }), 2000 + 20 * 3000);
  assert.equal(after({ wanted: 101 }), 2000 + 20 * 3000);
  assert.equal(after({ wanted: 1, maxRequests: 3 }), 2000);
  assert.equal(after({ wanted: 71, maxRequests: 3 }), 2000 + 11 * 3000);
  assert.equal(after({ wanted: 1, maxRequests: 2 }), 2000 + 11 * 3000);
});
