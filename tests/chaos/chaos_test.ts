import assert from "node:assert/strict";
import { createRandom } from "../support/random.ts";
import { runChaos } from "./chaos.ts";

Deno.test("25 kills, pauses and restarts of Postgres lose no event and repeat no effect", async () => {
  const seed = Number(Deno.env.get("FC_SEED") ?? Math.floor(Math.random() * 2 ** 31));
  const random = createRandom(seed);
  try {
    const report = await runChaos({ kills: 25, replicas: 3, runs: 6, steps: 30, random });
    assert.ok(
      report.runs >= 6 && report.owners > report.runs && report.pgRestarts === 3 &&
        report.kills > report.pauses,
      JSON.stringify(report),
    );
  } catch (error) {
    throw new Error(`Chaos fails with FC_SEED=${seed}`, { cause: error });
  }
});
