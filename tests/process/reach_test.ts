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
  assert.match(reach({ sandbox: "off" }, WORKS).words, /sandbox is off\): .* by checks alone/);
  const elsewhere = reach({}, MISSING, false);
  assert.deepEqual([elsewhere.hasFiles, elsewhere.isWeak], [false, true]);
  assert.match(elsewhere.words, /no operations on files are offered, sandbox off takes the risk/);
  const risky = reach({ sandbox: "off" }, MISSING, false);
  assert.deepEqual([risky.hasFiles, risky.isWeak], [true, true]);
  assert.match(risky.words, /a link that is put in a file's place .* is followed/);
  assert.match(reach({ securityMode: "full-control" }, MISSING, false).words, /all that the hub's/);
});

Deno.test("commands are offered where they are held, or where the operator takes the risk", () => {
  const shell = { script: true };
  const offered = (...args: Parameters<typeof reach>) => {
    const { hasCommands, hasScripts, isWeak } = reach(...args);
    return [hasCommands, hasScripts, isWeak];
  };
  assert.deepEqual(offered({}, WORKS), [false, false, false]);
  assert.deepEqual(offered({ shell }, WORKS), [true, true, false]);
  assert.deepEqual(offered({ shell: { script: false } }, WORKS), [true, false, false]);
  assert.deepEqual(offered({ shell }, MISSING), [false, false, true]);
  assert.match(reach({ shell }, MISSING).words, /no commands are offered$/);
  assert.deepEqual(offered({ shell, sandbox: "off" }, WORKS), [true, false, true]);
  assert.match(reach({ shell, sandbox: "off" }, WORKS).words, /the hub's environment included/);
  const free = { shell, securityMode: "full-control" } as const;
  assert.deepEqual(offered(free, WORKS), [true, true, false]);
  assert.deepEqual(offered(free, MISSING), [true, true, true]);
  assert.match(reach(free, MISSING).words, /the hub's environment included/);
});
