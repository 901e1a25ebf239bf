import assert from "node:assert/strict";
import { withFiles } from "./rig.ts";

/** The longest time that nothing else had its turn while `work` ran. */
async function longestTurn(work: () => Promise<unknown>): Promise<number> {
  let longestMs = 0;
  let lastMs = performance.now();
  const look = () => {
    const nowMs = performance.now();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
  };
  const timer = setInterval(look, 1);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  return longestMs;
}

Deno.test("an expression that makes others stand still for years only takes its turns", () =>
  withFiles(async (rig) => {
    const line = `${"a".repeat(3000)}b`;
    await Deno.writeTextFile(`${rig.ws}/file`, Array(200).fill(line).join("\n"));
    await rig.ok("grep", { pattern: "warm" });
    const tookMs = await longestTurn(async () => {
      for (const pattern of ["(a+)+$", "(a|aa)+$", "(a|a)+$", "^(([a-z])+.)+[A-Z]([a-z])+$"]) {
        assert.match(await rig.ok("grep", { pattern }), /^\(0 lines found in 1 of 1 files/);
      }
    });
    assert.ok(tookMs < 1000, `${tookMs} ms`);
  }));
