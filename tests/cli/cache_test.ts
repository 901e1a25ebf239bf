import assert from "node:assert/strict";
import { formatOverview } from "../../src/cli/cache.ts";
import { keyChange } from "../../src/cli/key_options.ts";

Deno.test("what the cache holds, in two lines", () => {
  const overview = {
    entries: 12,
    bytes: 5000,
    oldestMs: 3_660_000,
    hits: 30,
    calls: 70,
  };
  assert.equal(
    formatOverview(overview),
    "12 answers, 5 KiB, the oldest 1h 1m old\nlast 24 h: 30 requests answered from it, 70 proxied calls to providers",
  );
  const empty = { entries: 0, bytes: 0, oldestMs: null, hits: 0, calls: 0 };
  assert.match(formatOverview(empty), /^0 answers, 0 KiB\n/);
});

Deno.test("keys take --cache, with 0s for never", () => {
  assert.deepEqual(keyChange({ cache: "1h" }, {}, 0).policy, { cacheSeconds: 3600 });
  assert.deepEqual(keyChange({ cache: "0s" }, { maxConcurrent: 1 }, 0).policy, {
    maxConcurrent: 1,
    cacheSeconds: 0,
  });
  assert.throws(() => keyChange({ cache: "always" }, {}, 0), /a time such as/);
});
