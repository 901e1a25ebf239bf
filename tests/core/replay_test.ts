import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent } from "../../src/core/event.ts";
import { createFold } from "../../src/core/fold.ts";
import { partsToEvents } from "../../src/core/replay.ts";
import { emptyFacts } from "../../src/core/run_facts.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import { validLog, validPrefix } from "../support/logs.ts";
import { property } from "../support/property.ts";

function foldOf(events: readonly HubEvent[]) {
  const fold = createFold();
  for (const event of events) fold.apply(event);
  return { message: fold.message(), facts: fold.facts(), open: fold.open() };
}

const numbered = (events: readonly HubEvent[]) =>
  events.map((event, at) => ({ seq: at + 1, event }));

property(
  "a finished run: folding the replay gives message and facts, and the replay is valid",
  validLog,
  (log) => {
    const before = foldOf(log.map(({ event }) => event));
    const replay = partsToEvents(before.message, before.facts);
    assert.deepEqual(checkLog(numbered(replay)), []);
    assert.deepEqual(foldOf(replay), before);
    assert.ok(replay.length <= log.length + before.message.parts.length);
  },
);

property("a run that goes on: open parts stay open", validPrefix, (log) => {
  const before = foldOf(log.map(({ event }) => event));
  const replay = partsToEvents(before.message, before.facts);
  assert.deepEqual(checkLog(numbered(replay), { complete: false }), []);
  assert.deepEqual(foldOf(replay), before);
});

property("a replay has one delta per part and no void attempt", validLog, (log) => {
  const { message, facts } = foldOf(log.map(({ event }) => event));
  const seen = new Set<string>();
  for (const event of partsToEvents(message, facts)) {
    assert.notEqual(event.type, "step-reset");
    if (event.type !== "text-delta" && event.type !== "reasoning-delta") continue;
    assert.ok(!seen.has(event.id));
    seen.add(event.id);
  }
});

Deno.test("without facts of the steps the last one carries the run's usage", () => {
  const usage = { ...NO_USAGE, promptTokens: 5, totalTokens: 5 };
  const replay = partsToEvents({
    id: "msg_1",
    role: "assistant",
    parts: [
      { type: "step-start", step: 0 },
      { type: "text", id: "t0", text: "a", state: "done" },
      { type: "step-start", step: 1 },
      { type: "text", id: "t1", text: "b", state: "done" },
    ],
  }, { ...emptyFacts(), usage, finishReason: "length" });
  assert.deepEqual(checkLog(numbered(replay)), []);
  const finishes = replay.filter((event) => event.type === "step-finish");
  assert.deepEqual(finishes.map((event) => [event.finishReason, event.usage]), [
    ["tool-calls", { ...NO_USAGE }],
    ["length", usage],
  ]);
});
