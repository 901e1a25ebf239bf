import assert from "node:assert/strict";
import { RateShare } from "../../src/policy/rate_share.ts";

const used = (completionTokens: number) => ({ promptTokens: 0, completionTokens });

/** A share of 100 tokens, and what its minute holds of it. */
function shareOf(): { share: RateShare; counted(): number } {
  let counted = 100;
  const share = new RateShare(100, (by) => counted += by);
  return { share, counted: () => counted };
}

Deno.test("a call's tokens are those of all its tries", async (t) => {
  await t.step("one try: what it used", () => {
    const { share, counted } = shareOf();
    share.begin();
    share.end(used(30));
    assert.equal(counted(), 30);
  });

  await t.step("two tries at a time: each counts, and the reservation until both are over", () => {
    const { share, counted } = shareOf();
    share.begin();
    share.begin();
    share.end(used(20));
    assert.equal(counted(), 120);
    share.end({ promptTokens: 50, completionTokens: 20 });
    assert.equal(counted(), 90);
  });

  await t.step("a try that is cut and another one: both count", () => {
    const { share, counted } = shareOf();
    share.begin();
    share.end(used(20));
    assert.equal(counted(), 20);
    share.begin();
    assert.equal(counted(), 120);
    share.end(used(60));
    assert.equal(counted(), 80);
  });

  await t.step("the loser of two of which nothing is known leaves the winner's", () => {
    const { share, counted } = shareOf();
    share.begin();
    share.begin();
    share.end(used(40));
    share.end(null);
    assert.equal(counted(), 40);
  });

  await t.step("nothing known: what was reserved stays; a call that used none has none", () => {
    const unknown = shareOf();
    unknown.share.begin();
    unknown.share.end(null);
    assert.equal(unknown.counted(), 100);
    const none = shareOf();
    none.share.begin();
    none.share.end(used(0));
    assert.equal(none.counted(), 0);
  });
});
