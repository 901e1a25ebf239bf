import assert from "node:assert/strict";
import { describeReach, type ReachWishes } from "../../src/process/reach.ts";

const WORKS = { works: true } as const;
const MISSING = { works: false, reason: "bubblewrap (bwrap) is not installed" } as const;

function reach(
  wishes: Partial<ReachWishes>,
  bubblewrap: typeof WORKS | typeof MISSING,
  isChecked = true,
) {
  return describeReach({ securityMode: "limited-control", sandbox: "auto", ...wishes }, {
    bubblewrap,
    isChecked,
  });
}

Deno.test("what holds is said, and nothing is offered that would not hold", () => {
  assert.match(reach({}, WORKS).words, /inside of bubblewrap and checked besides/);
  assert.match(reach({}, MISSING).words, /bwrap\) is not installed\): .* by checks alone/);
  assert.match(reach({ sandbox: "off" }, WORKS).words, /sandbox is off: .* by checks alone/);
  const elsewhere = reach({}, MISSING, false);
  assert.deepEqual([elsewhere.hasFiles, elsewhere.isWeak], [false, true]);
  assert.match(elsewhere.words, /no operations on files are offered; sandbox off takes the risk/);
  const risky = reach({ sandbox: "off" }, MISSING, false);
  assert.deepEqual([risky.hasFiles, risky.isWeak], [true, true]);
  assert.match(risky.words, /a link that is put in a file's place .* is followed/);
  assert.match(reach({ securityMode: "full-control" }, MISSING, false).words, /all that the hub's/);
});
