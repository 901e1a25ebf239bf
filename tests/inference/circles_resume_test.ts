import assert from "node:assert/strict";
import fc from "fast-check";
import type { ToolCallRecord } from "../../src/inference/loop_batch.ts";
import { property } from "../support/property.ts";
import { endlessly } from "./context_rig.ts";
import {
  type Answer,
  asks,
  finishOf,
  makeTool,
  type Rig,
  startRig,
  textResult,
} from "./loop_rig.ts";

/** Models that go in circles, whatever they are told. */
const CIRCLES: Record<string, (step: number) => Parameters<typeof asks>> = {
  "the same call": () => [["a_go", { n: 1 }]],
  "two calls in turn": (step) => [["a_go", { n: step % 2 }]],
  "three calls in turn, among others": (step) => [["a_go", { n: 1 }], ["a_go", { n: step % 3 }]],
  "tools that are not there": (step) => [["a_gone", { n: step }]],
  "arguments that do not fit": (step) => [["a_go", `{"n": "${step}`]],
  "the same wrong arguments of a tool that may be polled": (step) => [
    ["a_poll", "nonsense"],
    ["a_go", { n: step % 2 }],
  ],
};

const settings = { maxSteps: 60 };
let minted = 0;

function start(circle: keyof typeof CIRCLES, ran: string[], more: {
  before?: Rig;
  batches?: number;
} = {}): Rig {
  const { before, batches = Infinity } = more;
  const model: Answer = (request, context) => {
    const asked = CIRCLES[circle]?.(context.step ?? 0) ?? assert.fail(circle);
    return asks(...asked)(request, context);
  };
  const isOpen = ({ state }: ToolCallRecord) => state === "ready" || state === "started";
  const rig = startRig({
    answers: endlessly(model),
    tools: [
      makeTool("a.go", (_, { toolCallId }) => {
        ran.push(toolCallId);
        return textResult("went");
      }),
      makeTool("a.poll", () => textResult("not yet"), { polling: true }),
    ],
    settings,
    isResumed: true,
    run: {
      ids: { next: (prefix) => `${prefix}_${++minted}` },
      ...before === undefined ? {} : {
        resume: {
          events: before.events,
          openCalls: [...before.journal.values()].filter(isOpen),
          decisions: [],
          costMicros: null,
        },
      },
    },
    onBatch(_, rig) {
      if (rig.batches.length === batches && rig.events.at(-1)?.type !== "finish") throw CUT;
    },
  });
  for (const [id, record] of before?.journal ?? []) rig.journal.set(id, record);
  rig.events.unshift(...before?.events ?? []);
  return rig;
}

const CUT = new Error("killed");
const stepsOf = (rig: Rig) => rig.events.filter(({ type }) => type === "step-finish").length;

property(
  "a model that goes in circles is stopped at the same step, however often its run is taken over",
  fc.record({
    circle: fc.constantFrom(...Object.keys(CIRCLES)),
    lives: fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 40 }),
  }),
  async ({ circle, lives }) => {
    const free: string[] = [];
    const whole = start(circle, free);
    await whole.done;
    assert.equal(finishOf(whole).finishReason, "max-steps");
    assert.ok(stepsOf(whole) < 20, `${stepsOf(whole)} steps`);
    const ran: string[] = [];
    let rig: Rig | undefined;
    for (const batches of [...lives, Infinity]) {
      rig = start(circle, ran, { batches, ...rig === undefined ? {} : { before: rig } });
      const isCut = await rig.done.then(() => false, (error) => {
        assert.equal(error, CUT);
        return true;
      });
      if (!isCut) break;
    }
    assert.ok(rig !== undefined);
    assert.equal(finishOf(rig).finishReason, "max-steps");
    assert.equal(stepsOf(rig), stepsOf(whole), "it takes no step more");
    assert.ok(ran.length <= free.length, "nothing runs more often");
  },
  { runs: 100 },
);
