import assert from "node:assert/strict";
import fc from "fast-check";
import { checkLog } from "../../src/core/check_log.ts";
import { HubError } from "../../src/core/error.ts";
import type { HubEvent } from "../../src/core/event.ts";
import { createFold } from "../../src/core/fold.ts";
import { isJsonObject, type Json } from "../../src/core/json.ts";
import type { ModelEvent, ModelFinishReason } from "../../src/core/model.ts";
import type { UIMessage } from "../../src/core/ui_message.ts";
import { historyToModel } from "../../src/inference/history_to_model.ts";
import { CONCLUDE } from "../../src/inference/model_request.ts";
import { repairHistory } from "../../src/inference/repair_history.ts";
import { terminalEvents } from "../../src/inference/terminal.ts";
import { createWireNames } from "../../src/operations/wire_names.ts";
import { property } from "../support/property.ts";
import {
  type Answer,
  call,
  finishOf,
  makeTool,
  type Rig,
  says,
  START,
  startRig,
  textResult,
  USAGE,
} from "./loop_rig.ts";

const MAX_STEPS = 6;
/** More than all tries of all steps: a script never runs out. */
const MAX_CALLS = MAX_STEPS * 3;

const piece = fc.oneof(
  fc.constantFrom("a", "Hello ", "\ud83d", " ").map((delta): ModelEvent[] => [
    { type: "text-delta", delta },
  ]),
  fc.constantFrom("hm", "so").map((delta): ModelEvent[] => [
    { type: "reasoning-delta", delta, field: "reasoning" },
  ]),
  fc.constant<ModelEvent[]>([
    { type: "reasoning-payload", field: "reasoning_details", payload: [{ sig: 1 }] },
  ]),
  fc.constant<ModelEvent[]>([{ type: "source-url", url: "https://example.org/" }]),
);
const toolName = fc.constantFrom(
  "t_ok",
  "t_fail",
  "t_slow",
  "t_alone",
  "t_poll",
  "t_deaf",
  "t_json",
  "nowhere",
);
const argumentText = fc.constantFrom('{"a":1}', '{"b":2,"a":[1]}', '{"bad":1}', "", '{"a":', "3");
const reads = fc.array(
  fc.oneof(
    { weight: 2, arbitrary: piece },
    {
      weight: 1,
      arbitrary: fc.tuple(toolName, argumentText).map(([name, args]) => ({ name, args })),
    },
  ),
  { maxLength: 6 },
);
const finishReason = fc.constantFrom<ModelFinishReason>(
  "stop",
  "tool-calls",
  "length",
  "content-filter",
  "unknown",
);
const ending = fc.oneof(
  { weight: 6, arbitrary: finishReason.map((reason) => ({ kind: "finish" as const, reason })) },
  { weight: 1, arbitrary: fc.constant({ kind: "eof" as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: "cut" as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: "fatal" as const }) },
);
const script = fc.record({
  answers: fc.array(fc.record({ reads, ending, silent: fc.boolean() }), { maxLength: MAX_CALLS }),
  /** Number of batches after which the run is stopped; most runs are not. */
  abortAfter: fc.option(fc.nat(20), { nil: null, freq: 2 }),
  /** Milliseconds of clock after which the run is stopped. */
  abortAt: fc.option(fc.nat(4000), { nil: null, freq: 2 }),
});
type Script = typeof script extends fc.Arbitrary<infer T> ? T : never;

function toAnswer({ reads, ending, silent }: Script["answers"][number]): Answer {
  return async function* () {
    if (!silent || ending.kind === "finish") yield [START];
    let index = 0;
    for (const read of reads) {
      await turn();
      yield "name" in read ? call(index++, read.name, read.args) : read;
    }
    if (ending.kind === "cut") throw new HubError("upstream_cut", "Cut");
    if (ending.kind === "fatal") throw new HubError("upstream_rejected", "No");
    if (ending.kind === "eof") return;
    yield [
      { type: "usage", usage: USAGE, costMicros: 3 },
      { type: "finish", finishReason: ending.reason },
    ];
  };
}

const turn = () => Promise.resolve();

const tools = [
  makeTool("t.ok", () => textResult("fine")),
  makeTool("t.fail", () => Promise.reject(new Error("failed"))),
  makeTool("t.slow", async (_input, { clock, signal }) => {
    await new Promise((resolve, reject) => {
      clock.setTimer(() => resolve(null), 700);
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    return textResult("slow");
  }, { effect: "idempotent" }),
  makeTool("t.alone", () => textResult("alone"), { sequential: true }),
  makeTool("t.poll", () => textResult("not yet"), { polling: true }),
  makeTool("t.deaf", () => new Promise(() => {}), { timeoutMs: 900 }),
  makeTool("t.json", (input) => ({
    content: [{ type: "json", value: { z: 1, input, a: "\udc00" } }, {
      type: "image",
      mediaType: "image/png",
      data: "AAAA",
    }],
  }), { effect: "pure" }),
];

async function play({ answers, abortAfter, abortAt }: Script): Promise<Rig> {
  const rest = Array.from({ length: MAX_CALLS }, () => says("The end"));
  const rig = startRig({
    answers: [...answers.map(toAnswer), ...rest],
    tools,
    settings: { maxSteps: MAX_STEPS },
    onBatch(_batch, { batches, abort }) {
      if (batches.length === abortAfter) abort.abort("Stopped by the test");
    },
  });
  let over = false;
  const done = rig.done.finally(() => over = true);
  done.catch(() => {});
  for (let waitedMs = 0; !over && waitedMs < 120_000; waitedMs += 250) {
    if (abortAt !== null && waitedMs >= abortAt) rig.abort.abort("Stopped by the test");
    await rig.clock.advance(250);
  }
  assert.ok(over, "the run ends");
  await done;
  return rig;
}

/** The message as Postgres gives it back: keys in another order. */
function reordered(value: Json): Json {
  if (Array.isArray(value)) return value.map(reordered);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).reverse().map(([key, item]) => [key, reordered(item)]),
  );
}

property(
  "whatever model and tools do, the log is valid and every call is accounted for",
  script,
  async (given) => {
    const rig = await play(given);
    const types = rig.events.map((event) => event.type);
    const steps = types.filter((type) => type === "step-start").length;
    assert.ok(steps <= MAX_STEPS);
    assert.ok(rig.requests.length <= steps * 3);
    const { finishReason } = finishOf(rig);
    if (rig.abort.signal.aborted === false) assert.notEqual(finishReason, "aborted");
    for (const [id, states] of rig.states) {
      const last = states.at(-1) ?? "";
      if (states.includes("started")) continue;
      assert.ok(["failed", "denied", "cancelled"].includes(last), `${id}: ${states}`);
    }
    const stepRows = [...rig.steps.values()];
    assert.equal(stepRows.length, steps);
    // What the next run sends begins with what this one sent last.
    if (finishReason === "aborted" || finishReason === "error") return;
    const fold = createFold();
    for (const event of rig.events) fold.apply(event);
    const stored = reordered(JSON.parse(JSON.stringify(fold.message()))) as unknown as UIMessage;
    const { toWire } = createWireNames(tools.map((tool) => tool.name));
    const again = repairHistory(historyToModel([stored], toWire));
    const sent = (rig.requests.at(-1)?.messages ?? []).slice(2).filter((message) =>
      JSON.stringify(message).includes(CONCLUDE) === false
    );
    assert.equal(JSON.stringify(again.slice(0, sent.length)), JSON.stringify(sent));
  },
  { runs: 300 },
);

property(
  "a run that was left at any event can be ended by its log alone",
  script,
  async (given) => {
    const { events } = await play(given);
    const endings = [
      { kind: "error", errorText: "Lost", code: "internal_error", retryable: true },
      { kind: "abort", reason: "Stopped" },
    ] as const;
    const fold = createFold();
    const seen: HubEvent[] = [];
    for (const event of events) {
      if (event.type === "error" || event.type === "abort" || event.type === "finish") return;
      fold.apply(event);
      seen.push(event);
      for (const ending of endings) {
        const rest = terminalEvents(fold, ending, {
          costMicros: null,
          metadata: { model: "m", provider: "p" },
        });
        const log = [...seen, ...rest].map((event, index) => ({ seq: index + 1, event }));
        assert.deepEqual(checkLog(log), []);
      }
    }
  },
  { runs: 60 },
);
