import assert from "node:assert/strict";
import { createFold } from "../../src/core/fold.ts";
import type { AgentRun } from "../../src/inference/agent_run.ts";
import type { Rig, RigOptions } from "./loop_rig.ts";

/** Drives a run until this many batches stand, and leaves it as a hub that is killed behind them does. */
export async function killedBehind(
  batches: number,
  start: (rest: Pick<RigOptions, "onBatch">) => Rig,
): Promise<Rig> {
  const cut = new Error("killed");
  const rig = start({
    onBatch: (_, { batches: written }) => {
      if (written.length === batches) throw cut;
    },
  });
  await rig.done.catch((error) => assert.equal(error, cut));
  return rig;
}

let minted = 0;

/** What another replica goes on with, and how many steps were done by then. */
export function leftOf(
  { events, journal }: Pick<Rig, "events" | "journal">,
): { steps: number; run: Pick<AgentRun, "resume" | "ids"> } {
  const fold = createFold();
  for (const event of events) fold.apply(event);
  const openCalls = [...journal.values()].filter(({ state }) =>
    state === "ready" || state === "started"
  );
  return {
    steps: fold.facts().steps.filter(({ state }) => state === "done").length,
    run: {
      resume: { events, openCalls, decisions: [], costMicros: null },
      ids: { next: (prefix) => `${prefix}_again${++minted}` },
    },
  };
}
