import assert from "node:assert/strict";
import fc from "fast-check";
import { checkLog } from "../../src/core/check_log.ts";
import { createFold } from "../../src/core/fold.ts";
import { partsToEvents } from "../../src/core/replay.ts";
import type { ModelRequest } from "../../src/core/model.ts";
import { compactionsOf } from "../../src/inference/conversation.ts";
import type { ToolCallRecord } from "../../src/inference/loop_batch.ts";
import { property } from "../support/property.ts";
import { endlessly, filler, GO, isSummary, messageOf, watched, windowFor } from "./context_rig.ts";
import { type Answer, asks, type Rig, type RigOptions, says, startRig } from "./loop_rig.ts";

const STEPS = 24;
const RESERVED = 4096;

/** Calls whose arguments are long, so that pointers do not suffice. */
const answer: Answer = (request, context) => {
  if (isSummary(request)) return says(`SUMMARY of ${context.step}`)(request, context);
  const step = context.step ?? 0;
  const words = "x".repeat(300);
  return (step < STEPS ? asks(["a_fill", { n: step, words }]) : says("Done"))(request, context);
};

function start(more: Partial<RigOptions> = {}, firstCall = 0): Rig {
  let calls = firstCall;
  return startRig({
    answers: endlessly(answer),
    tools: [filler(700)],
    settings: { maxSteps: 100 },
    history: [GO],
    ...more,
    run: {
      ...watched(windowFor(3000)),
      ids: { next: (prefix) => `${prefix}_${++calls}` },
      ...more.run,
    },
  });
}

/** The last request of each step, and the last one for a summary in it. */
function byStep(rig: Rig): Map<string, ModelRequest> {
  return new Map(rig.requests.map((request, index) => [
    `${isSummary(request) ? "summary" : "step"} ${rig.contexts[index]?.step}`,
    request,
  ]));
}

const whole = start();

property(
  "killed anywhere, before or behind a summary's commit, the next owner makes the same requests",
  fc.record({ batches: fc.integer({ min: 1, max: 110 }), loses: fc.boolean() }),
  async ({ batches, loses }) => {
    await whole.done;
    const cut = new Error("killed");
    let lost = 0;
    const first = start({
      onBatch({ events }, rig) {
        const isCompaction = events.some((one) => one.type === "data" && one.name === "compaction");
        if (rig.batches.length < batches || (loses && !isCompaction)) return;
        lost = loses ? events.length : 0;
        throw cut;
      },
    });
    const killed = await first.done.then(() => false, (error) => {
      assert.equal(error, cut);
      return true;
    });
    const events = first.events.slice(0, first.events.length - lost);
    if (!killed || events.at(-1)?.type === "finish") return;
    const fold = createFold();
    for (const event of events) fold.apply(event);
    const done = fold.facts().steps.filter(({ state }) => state === "done").length;
    const isOpen = ({ state }: ToolCallRecord) => state === "ready" || state === "started";
    const openCalls = [...first.journal.values()].filter(isOpen);
    const resume = { events, openCalls, decisions: [], costMicros: null };
    const rig = start({ run: { resume }, isResumed: true }, done);
    for (const [id, record] of first.journal) rig.journal.set(id, record);
    await rig.done;
    const wanted = byStep(whole);
    for (const [key, request] of byStep(rig)) assert.deepEqual(request, wanted.get(key), key);
    assert.equal(rig.requests.filter((one) => !isSummary(one)).length, STEPS + 1 - done);
    let seq = 0;
    const log = events.map((event) => ({ seq: ++seq, event }));
    if (fold.open().step !== null) seq += RESERVED;
    for (const event of rig.events) log.push({ seq: ++seq, event });
    // Ids of void calls come again here, so that requests can be compared.
    assert.deepEqual(checkLog(log).filter((line) => !line.startsWith("I9")), []);
    const made = messageOf(log.map(({ event }) => event));
    assert.deepEqual(compactionsOf(made), compactionsOf(messageOf(whole.events)));
  },
  { runs: 60 },
);

Deno.test("a log made again from stored parts shapes the conversation alike", async () => {
  await whole.done;
  const fold = createFold();
  for (const event of whole.events) fold.apply(event);
  const again = messageOf(partsToEvents(fold.message(), fold.facts()));
  assert.deepEqual(again, fold.message());
  assert.ok(compactionsOf(again).filter(({ summary }) => summary !== undefined).length >= 2);
});

Deno.test("an answer that breaks off behind a compaction is made again with it", async () => {
  await whole.done;
  let cuts = 0;
  const rig = start({
    answers: endlessly(async function* (request, context) {
      const isCut = !isSummary(request) && JSON.stringify(request).includes("SUMMARY") &&
        context.stepAttempt === 0;
      if (!isCut) return yield* answer(request, context);
      cuts++;
      yield [{ type: "response-start", provider: "acme", model: "acme-1", attempt: 1 }];
      yield [{ type: "text-delta", delta: "I would" }];
    }),
    // The backoff between tries.
    run: { random: () => 0 },
  });
  let isDone = false;
  rig.done.finally(() => isDone = true);
  while (!isDone) await rig.clock.advance(1000);
  await rig.done;
  assert.ok(cuts > 3 && rig.events.some(({ type }) => type === "step-reset"));
  const wanted = byStep(whole);
  for (const [key, request] of byStep(rig)) assert.deepEqual(request, wanted.get(key), key);
  assert.deepEqual(compactionsOf(messageOf(rig.events)), compactionsOf(messageOf(whole.events)));
});
