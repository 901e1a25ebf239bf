import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent, SequencedEvent } from "../../src/core/event.ts";
import { createFold } from "../../src/core/fold.ts";
import type { ModelEvent } from "../../src/core/model.ts";
import { historyToModel } from "../../src/inference/history_to_model.ts";
import { killedBehind, leftOf } from "./killed_rig.ts";
import { answer, call, end, makeTool, startRig, text, textResult } from "./loop_rig.ts";

/** Numbers that a former owner may have shown without committing them. */
const RESERVED = 4096;

const source = (url: string): ModelEvent => ({ type: "source-url", url, title: url });
const image = (url: string): ModelEvent => ({ type: "file", mediaType: "image/png", url });
const ANSWERS = [
  answer([
    text("Looking"),
    source("https://a.example/"),
    image("/v1/sessions/ses_1/files/a"),
    ...call(0, "a_one", {}),
  ], end("tool-calls")),
  answer([
    text("Seen"),
    source("https://a.example/"),
    source("https://b.example/"),
    image("/v1/sessions/ses_1/files/b"),
  ], end("stop")),
];

/** What the log comes to: the message without ids, and what the model reads of it. */
function sumOf(events: readonly HubEvent[]) {
  const fold = createFold();
  for (const event of events) fold.apply(event);
  const message = fold.message();
  const shown = message.parts.flatMap((part) =>
    part.type === "source-url" ? [part.url] : part.type === "file" ? [part.url] : []
  );
  const sourceIds = message.parts.flatMap((part) =>
    part.type === "source-url" ? [part.sourceId] : []
  );
  assert.equal(new Set(sourceIds).size, sourceIds.length, "an id of a source came twice");
  const read = historyToModel([message], (name) => name).filter(({ role }) => role === "user");
  return { shown, read };
}

Deno.test("runs with sources and files: killed behind any batch, a takeover comes to the same message", async () => {
  const tools = [makeTool("a.one", () => textResult("done"), { effect: "pure" })];
  const whole = startRig({ answers: ANSWERS, tools });
  await whole.done;
  const wanted = sumOf(whole.events);
  assert.deepEqual(wanted.shown, [
    "https://a.example/",
    "/v1/sessions/ses_1/files/a",
    "https://a.example/",
    "https://b.example/",
    "/v1/sessions/ses_1/files/b",
  ]);
  assert.equal(wanted.read.length, 2);
  for (let batches = 1; batches < whole.batches.length; batches++) {
    const first = await killedBehind(
      batches,
      (rest) => startRig({ answers: ANSWERS, tools, ...rest }),
    );
    if (first.events.at(-1)?.type === "finish") continue;
    const { steps, run } = leftOf(first);
    const fold = createFold();
    for (const event of first.events) fold.apply(event);
    const second = startRig({ answers: ANSWERS.slice(steps), tools, run, isResumed: true });
    for (const [id, record] of first.journal) second.journal.set(id, record);
    await second.done;
    let seq = 0;
    const log: SequencedEvent[] = first.events.map((event) => ({ seq: ++seq, event }));
    if (fold.open().step !== null) seq += RESERVED;
    for (const event of second.events) log.push({ seq: ++seq, event });
    assert.deepEqual(checkLog(log), [], `killed behind batch ${batches}`);
    assert.deepEqual(
      sumOf(log.map(({ event }) => event)),
      wanted,
      `killed behind batch ${batches}`,
    );
  }
});
