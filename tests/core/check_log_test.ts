import assert from "node:assert/strict";
import fc from "fast-check";
import { checkLog } from "../../src/core/check_log.ts";
import type { FinishReason, HubEvent, SequencedEvent } from "../../src/core/event.ts";
import { questionEvent, type RunQuestion } from "../../src/core/run_question.ts";
import { steeringEvent } from "../../src/core/steering.ts";
import { NO_USAGE, type Usage } from "../../src/core/usage.ts";
import { validLog, validPrefix } from "../support/logs.ts";
import { property } from "../support/property.ts";

property("every valid log passes", validLog, (log) => assert.deepEqual(checkLog(log), []));

property("every beginning of one passes as incomplete", validPrefix, (log) => {
  assert.deepEqual(checkLog(log, { complete: false }), []);
});

const usage: Usage = { ...NO_USAGE, promptTokens: 7, completionTokens: 3, totalTokens: 10 };
const twice: Usage = { ...NO_USAGE, promptTokens: 14, completionTokens: 6, totalTokens: 20 };

const ASKED: RunQuestion = {
  questionId: "qst_1",
  toolCallId: "call_b",
  source: "peer",
  kind: "form",
  message: "Which colour?",
  asked: { schema: { type: "object" } },
  expiresAt: "2027-01-15T08:00:00Z",
};
const OPEN_QUESTION = questionEvent(ASKED, "pending");
const CLOSED_QUESTION = questionEvent(ASKED, "answered");

/** A run that has everything a directed mutant wants to break. */
const GOLDEN: HubEvent[] = [
  { type: "start", messageId: "msg_1", runId: "run_1", sessionId: "ses_1", model: "demo/tools" },
  { type: "step-start", step: 0 },
  { type: "text-start", id: "void" },
  { type: "text-delta", id: "void", delta: "x" },
  { type: "tool-input-start", toolCallId: "call_void", toolName: "a" },
  { type: "step-reset", step: 0 },
  { type: "reasoning-start", id: "r0" },
  { type: "reasoning-delta", id: "r0", delta: "think" },
  { type: "reasoning-end", id: "r0" },
  { type: "text-start", id: "t0" },
  { type: "text-delta", id: "t0", delta: "a" },
  { type: "text-end", id: "t0" },
  { type: "tool-input-start", toolCallId: "call_a", toolName: "a" },
  { type: "tool-input-delta", toolCallId: "call_a", inputTextDelta: "{}" },
  { type: "tool-input-available", toolCallId: "call_a", toolName: "a", input: {} },
  { type: "tool-input-available", toolCallId: "call_b", toolName: "b", input: {} },
  { type: "tool-input-start", toolCallId: "call_c", toolName: "c" },
  { type: "tool-input-error", toolCallId: "call_c", toolName: "c", input: "{", errorText: "cut" },
  { type: "step-finish", step: 0, finishReason: "tool-calls", usage },
  {
    type: "tool-approval-request",
    approvalId: "apr_1",
    toolCallId: "call_a",
    toolName: "a",
    input: {},
    risk: "low",
    expiresAt: "2027-01-15T08:00:00Z",
  },
  { type: "tool-approval-response", approvalId: "apr_1", approved: true },
  { type: "tool-output-available", toolCallId: "call_a", output: 1, preliminary: true },
  { type: "tool-output-available", toolCallId: "call_a", output: 2 },
  OPEN_QUESTION,
  CLOSED_QUESTION,
  { type: "tool-output-error", toolCallId: "call_b", errorText: "no" },
  steeringEvent({ steeringId: "steer_1", kind: "steer", text: "wait" }, "applied"),
  { type: "step-start", step: 1 },
  { type: "text-start", id: "t1" },
  { type: "text-delta", id: "t1", delta: "b" },
  { type: "text-end", id: "t1" },
  { type: "step-finish", step: 1, finishReason: "error", usage },
  steeringEvent({ steeringId: "steer_2", kind: "queue", text: "more" }, "undelivered"),
  { type: "error", errorText: "Gone", code: "upstream_cut", retryable: true },
  {
    type: "finish",
    finishReason: "error",
    usage: twice,
    costMicros: null,
    metadata: { model: "a", provider: "b" },
  },
];

const number = (events: readonly HubEvent[]): SequencedEvent[] =>
  events.map((event, at) => ({ seq: at + 1, event }));

type Find = Partial<Record<"type" | "id" | "toolCallId", string>> & { step?: number };

/** Place of the first event with these fields. */
function at(find: Find): number {
  const index = GOLDEN.findIndex((event) =>
    Object.entries(find).every(([key, value]) => Reflect.get(event, key) === value)
  );
  assert.ok(index >= 0, JSON.stringify(find));
  return index;
}

const insert = (place: number, ...events: HubEvent[]) => GOLDEN.toSpliced(place, 0, ...events);
const drop = (...finds: Find[]) => {
  const places = new Set(finds.map(at));
  return GOLDEN.filter((_, index) => !places.has(index));
};
const alter = (find: Find, fields: object) =>
  GOLDEN.with(at(find), { ...GOLDEN[at(find)], ...fields } as HubEvent);
const swap = (a: Find, b: Find) => {
  const [first, second] = [GOLDEN[at(a)], GOLDEN[at(b)]];
  assert.ok(first !== undefined && second !== undefined);
  return GOLDEN.with(at(a), second).with(at(b), first);
};
const renumber = (place: number, by: number) =>
  number(GOLDEN).map(({ seq, event }, index) => ({ seq: index >= place ? seq + by : seq, event }));

const beforeFinish = GOLDEN.length - 1;
const stepEnd = at({ type: "step-finish", step: 0 });
const questionAt = at({ id: "qst_1" });
const ELSEWHERE = { ...ASKED, questionId: "qst_2", toolCallId: "call_x" };
const text0 = at({ type: "text-start", id: "t0" });
const OUTPUT_A: HubEvent = { type: "tool-output-available", toolCallId: "call_a", output: 3 };
const ABORT: HubEvent = { type: "abort", reason: "user" };
const SAID = steeringEvent({ steeringId: "steer_3", kind: "steer", text: "so" }, "applied");
const REASON = "because" as FinishReason;
const sources = (type: "source-url" | "file" | "data"): HubEvent =>
  type === "source-url"
    ? { type, sourceId: "s", url: "https://example.org" }
    : type === "file"
    ? { type, mediaType: "image/png", url: "data:," }
    : { type, name: "todo", data: 1 };

const MUTANTS: Record<string, [name: string, log: HubEvent[] | SequencedEvent[]][]> = {
  I1: [
    ["a number left out", renumber(9, 1)],
    ["a number used twice", renumber(9, -1)],
    ["a log that begins at 2", renumber(0, 1)],
    ["a reset that goes back", renumber(at({ type: "step-reset" }), -2)],
    ["a fraction", renumber(9, 0.5)],
    ["a reset with a fraction", renumber(at({ type: "step-reset" }), 0.5)],
    ["a transient event", insert(9, { type: "data", name: "progress", data: 1, transient: true })],
    ["swapped numbers", number(GOLDEN).with(3, number(GOLDEN)[4] ?? { seq: 0, event: ABORT })],
  ],
  I2: [
    ["no start", GOLDEN.slice(1)],
    ["a second start", insert(5, ...GOLDEN.slice(0, 1))],
    ["start not first", swap({ type: "start" }, { type: "step-start", step: 0 })],
    ["no finish", GOLDEN.slice(0, -1)],
    ["a second finish", insert(GOLDEN.length, ...GOLDEN.slice(-1))],
    ["an event after finish", insert(GOLDEN.length, sources("data"))],
    ["nothing at all", []],
  ],
  I3: [
    ["text after error", insert(beforeFinish, { type: "text-start", id: "late" })],
    ["a source after error", insert(beforeFinish, sources("source-url"))],
    ["a file after error", insert(beforeFinish, sources("file"))],
    ["abort after error", insert(beforeFinish, ABORT)],
    ["error twice", insert(beforeFinish, ...GOLDEN.slice(-2, -1))],
    ["a failure that ends as stop", alter({ type: "finish" }, { finishReason: "stop" })],
    ["an error that no event tells", drop({ type: "error" })],
    ["an abort that ends as error", GOLDEN.with(at({ type: "error" }), ABORT)],
  ],
  I4: [
    ["text before the step", swap({ type: "step-start", step: 0 }, { type: "text-start" })],
    ["text between steps", insert(stepEnd + 1, { type: "text-start", id: "late" })],
    ["reasoning between steps", insert(stepEnd + 1, { type: "reasoning-start", id: "late" })],
    [
      "tool input between steps",
      insert(stepEnd + 1, { type: "tool-input-start", toolCallId: "late", toolName: "a" }),
    ],
    ["no step-start", drop({ type: "step-start", step: 1 })],
    ["a step in a step", insert(text0, { type: "step-start", step: 1 })],
    ["a step left out", alter({ type: "step-start", step: 1 }, { step: 2 })],
    ["the end of another step", alter({ type: "step-finish", step: 0 }, { step: 1 })],
    ["an end twice", insert(stepEnd, ...GOLDEN.slice(stepEnd, stepEnd + 1))],
    ["a reset of another step", alter({ type: "step-reset" }, { step: 1 })],
    ["a reset between steps", insert(stepEnd + 1, { type: "step-reset", step: 0 })],
  ],
  I5: [
    [
      "a delta before its start",
      swap({ type: "text-start", id: "t0" }, {
        type: "text-delta",
        id: "t0",
      }),
    ],
    [
      "a delta after its end",
      swap({ type: "text-delta", id: "t0" }, { type: "text-end", id: "t0" }),
    ],
    [
      "a delta of another kind",
      alter({ type: "text-delta", id: "t0" }, { type: "reasoning-delta" }),
    ],
    ["an end of another kind", alter({ type: "reasoning-end", id: "r0" }, { type: "text-end" })],
    ["a delta for nobody", alter({ type: "text-delta", id: "t0" }, { id: "t9" })],
    ["no end", drop({ type: "text-end", id: "t0" })],
    ["two ends", insert(text0 + 3, { type: "text-end", id: "t0" })],
    ["open twice", insert(text0 + 1, { type: "text-start", id: "t0" })],
    [
      "an id used again",
      insert(stepEnd, { type: "text-start", id: "t0" }, {
        type: "text-end",
        id: "t0",
      }),
    ],
    [
      "a void id used again",
      insert(stepEnd, { type: "text-start", id: "void" }, {
        type: "text-end",
        id: "void",
      }),
    ],
    ["a void part that goes on", insert(text0, { type: "text-delta", id: "void", delta: "y" })],
  ],
  I6: [
    ["empty text", alter({ type: "text-delta", id: "t0" }, { delta: "" })],
    ["empty reasoning", alter({ type: "reasoning-delta" }, { delta: "" })],
    ["empty tool input", alter({ type: "tool-input-delta" }, { inputTextDelta: "" })],
  ],
  I7: [
    ["an open step", drop({ type: "step-finish", step: 1 })],
    [
      "an open text",
      drop({ type: "step-finish", step: 1 }, { type: "text-end", id: "t1" }),
    ],
    [
      "an open input",
      drop({ type: "step-finish", step: 1 }).toSpliced(-2, 0, {
        type: "tool-input-start",
        toolCallId: "call_d",
        toolName: "d",
      }),
    ],
  ],
  I8: [["an input still streaming", drop({ type: "tool-input-error" })]],
  I9: [
    ["input twice", insert(stepEnd, ...GOLDEN.slice(stepEnd - 4, stepEnd - 3))],
    [
      "an id used again",
      insert(stepEnd, { type: "tool-input-start", toolCallId: "call_b", toolName: "b" }),
    ],
    [
      "a void id used again",
      insert(stepEnd, {
        type: "tool-input-available",
        toolCallId: "call_void",
        toolName: "a",
        input: {},
      }),
    ],
    [
      "a delta after the input",
      swap({ type: "tool-input-delta" }, {
        type: "tool-input-available",
        toolCallId: "call_a",
      }),
    ],
    ["a delta for nobody", drop({ type: "tool-input-start", toolCallId: "call_a" })],
    [
      "an error for a finished input",
      insert(stepEnd, {
        type: "tool-input-error",
        toolCallId: "call_b",
        toolName: "b",
        input: "",
        errorText: "x",
      }),
    ],
    [
      "another tool",
      alter({ type: "tool-input-available", toolCallId: "call_a" }, { toolName: "z" }),
    ],
  ],
  I10: [
    ["two final outputs", insert(beforeFinish - 1, OUTPUT_A)],
    [
      "a preliminary output after the final",
      swap({ type: "tool-output-available" }, {
        type: "tool-output-error",
      }).toSpliced(-2, 0, { ...OUTPUT_A, preliminary: true }),
    ],
    ["an output for nobody", alter({ type: "tool-output-error" }, { toolCallId: "call_x" })],
    ["an output before the input", insert(text0, OUTPUT_A)],
    ["an output after an input error", insert(stepEnd + 1, { ...OUTPUT_A, toolCallId: "call_c" })],
    ["an output for a void call", insert(stepEnd + 1, { ...OUTPUT_A, toolCallId: "call_void" })],
    [
      "a denial after the output",
      insert(beforeFinish - 1, {
        type: "tool-output-denied",
        toolCallId: "call_a",
        errorText: "no",
      }),
    ],
  ],
  I11: [
    ["a request for nobody", alter({ type: "tool-approval-request" }, { toolCallId: "call_x" })],
    [
      "a request for a failed input",
      alter({ type: "tool-approval-request" }, {
        toolCallId: "call_c",
      }),
    ],
    ["a request twice", insert(stepEnd + 1, ...GOLDEN.slice(stepEnd + 1, stepEnd + 2))],
    ["an answer without request", drop({ type: "tool-approval-request" })],
    ["an answer twice", insert(stepEnd + 3, ...GOLDEN.slice(stepEnd + 2, stepEnd + 3))],
    [
      "the answer first",
      swap({ type: "tool-approval-request" }, {
        type: "tool-approval-response",
      }),
    ],
    [
      "a request after the output",
      swap({ type: "tool-approval-request" }, { type: "tool-output-error" }).map((event) =>
        event.type === "tool-approval-request" ? { ...event, toolCallId: "call_b" } : event
      ),
    ],
  ],
  I12: [
    [
      "an unknown reason of a step",
      alter({ type: "step-finish", step: 0 }, { finishReason: REASON }),
    ],
    ["an unknown reason of the run", alter({ type: "finish" }, { finishReason: REASON })],
  ],
  I13: [
    ["a call without output", drop({ type: "tool-output-error" })],
    [
      "a call with a preliminary output only",
      GOLDEN.filter((event) =>
        !(event.type === "tool-output-available" && event.preliminary !== true)
      ),
    ],
  ],
  I14: [
    ...Object.keys(NO_USAGE).map((field): [string, HubEvent[]] => [
      `the run's ${field}`,
      alter({ type: "finish" }, { usage: { ...twice, [field]: 99 } }),
    ]),
    ["a step's usage", alter({ type: "step-finish", step: 1 }, { usage: NO_USAGE })],
    [
      "a step that is not counted",
      drop({ type: "step-start", step: 1 }, {
        type: "step-finish",
        step: 1,
      }),
    ],
  ],
  I15: [
    ["a text in a step", insert(at({ type: "step-finish", step: 1 }), SAID)],
    ["a text before an output", insert(at({ type: "tool-output-error" }), SAID)],
    [
      "a text twice",
      insert(
        at({ id: "steer_1" }),
        ...GOLDEN.slice(at({ id: "steer_1" }), at({ id: "steer_1" }) + 1),
      ),
    ],
    ["a text without a fate", alter({ id: "steer_1" }, { data: { kind: "steer", text: "wait" } })],
    ["a text without an id", alter({ id: "steer_1" }, { id: undefined })],
    ["a text of no kind", alter({ id: "steer_1" }, { data: { text: "wait", state: "applied" } })],
    ["no text", alter({ id: "steer_1" }, { data: { kind: "steer", state: "applied" } })],
    [
      "a step after an undelivered text",
      alter({ id: "steer_1" }, { data: { kind: "steer", text: "wait", state: "undelivered" } }),
    ],
    [
      "an end that nobody has answered",
      drop({ type: "error" }).with(
        -1,
        { ...GOLDEN[beforeFinish], finishReason: "stop" } as HubEvent,
      ),
    ],
  ],
  I16: [
    ["a question behind its call", GOLDEN.toSpliced(questionAt + 1, 1)],
    ["a question twice", insert(questionAt + 1, OPEN_QUESTION)],
    ["an answer twice", insert(questionAt + 2, CLOSED_QUESTION)],
    ["a question before its call", insert(text0, OPEN_QUESTION)],
    ["a question of no call", insert(questionAt, questionEvent(ELSEWHERE, "pending"))],
    ["no question", GOLDEN.with(questionAt, { ...OPEN_QUESTION, data: { state: "pending" } })],
  ],
};

const isNumbered = (log: HubEvent[] | SequencedEvent[]): log is SequencedEvent[] =>
  log.some((one) => "seq" in one);

Deno.test("the golden log passes, also with a jump at the reset", () => {
  assert.deepEqual(checkLog(number(GOLDEN)), []);
  assert.deepEqual(checkLog(renumber(at({ type: "step-reset" }), 4096)), []);
});

Deno.test("a waiting run may leave calls unanswered", () => {
  const said = [{ id: "steer_1" }, { id: "steer_2" }];
  const waiting = drop({ type: "tool-output-error" }, { type: "error" }, ...said);
  const last = waiting.length - 1;
  assert.deepEqual(
    checkLog(number(waiting.with(last, {
      type: "finish",
      finishReason: "waiting",
      usage: twice,
      costMicros: null,
      metadata: { model: "a", provider: "b" },
    }))),
    [],
  );
});

for (const [invariant, mutants] of Object.entries(MUTANTS)) {
  Deno.test(`${invariant} kills its mutants`, () => {
    for (const [name, mutant] of mutants) {
      const log = isNumbered(mutant) ? mutant : number(mutant);
      const breaches = checkLog(log);
      assert.ok(
        breaches.some((breach) => breach.startsWith(`${invariant} `)),
        `${name}: ${JSON.stringify(breaches)}`,
      );
    }
  });
}

Deno.test("an incomplete log may end anywhere, but not begin anywhere", () => {
  for (let length = 1; length <= GOLDEN.length; length++) {
    assert.deepEqual(checkLog(number(GOLDEN.slice(0, length)), { complete: false }), []);
  }
  assert.notDeepEqual(checkLog(number(GOLDEN.slice(3)), { complete: false }), []);
});

/** Events that a log may lack, hold twice or hold elsewhere without breaking a rule. */
const LOOSE = new Set<HubEvent["type"]>([
  "text-delta",
  "reasoning-delta",
  "tool-input-delta",
  "tool-approval-response",
  "source-url",
  "file",
  "data",
]);
const isLoose = (event: HubEvent) =>
  LOOSE.has(event.type) || (event.type === "tool-output-available" && event.preliminary === true);
const renumbered = (log: readonly SequencedEvent[]) => number(log.map(({ event }) => event));

const mutation = fc.tuple(validLog, fc.nat(10_000));

property("a dropped number is caught, whatever the event", mutation, ([log, pick]) => {
  const place = pick % log.length;
  const mutant = log.toSpliced(place, 1);
  const next = mutant[place]?.event;
  // A reset may leave numbers out, so what a takeover lost right before it is not seen as a gap.
  if (next?.type === "step-reset") return;
  assert.notDeepEqual(checkLog(mutant), []);
}, { runs: 500 });

property("an event dropped with its number is caught", mutation, ([log, pick]) => {
  const place = pick % log.length;
  const dropped = log[place]?.event;
  if (dropped === undefined || isLoose(dropped) || isVoid(log, place)) return;
  const last = log.at(-1)?.event;
  // A waiting run may lack what answers its calls, and then the calls as well.
  if (
    dropped.type.startsWith("tool-") && last?.type === "finish" && last.finishReason === "waiting"
  ) return;
  // These may be missing as a whole: an input that is not streamed, a failed one, a question nobody answered.
  if (/^tool-(input-start|input-error|approval-request)$/.test(dropped.type)) return;
  // What a broken attempt left behind may be whole by chance.
  if (dropped.type === "step-reset") return;
  assert.notDeepEqual(checkLog(renumbered(log.toSpliced(place, 1))), []);
}, { runs: 500 });

property("a doubled event is caught", mutation, ([log, pick]) => {
  const place = pick % log.length;
  const doubled = log[place];
  if (doubled === undefined) return;
  assert.notDeepEqual(checkLog(log.toSpliced(place, 0, doubled)), []);
  if (isLoose(doubled.event) && doubled.event.type !== "tool-approval-response") return;
  if (doubled.event.type === "step-reset") return;
  assert.notDeepEqual(checkLog(renumbered(log.toSpliced(place, 0, doubled))), []);
}, { runs: 500 });

property("two events with swapped places are caught", mutation, ([log, pick]) => {
  const place = pick % (log.length - 1);
  const [first, second] = [log[place], log[place + 1]];
  if (first === undefined || second === undefined) return;
  assert.notDeepEqual(checkLog(log.with(place, second).with(place + 1, first)), []);
}, { runs: 500 });

/** True for an event of an attempt that a later reset made void. */
function isVoid(log: readonly SequencedEvent[], place: number): boolean {
  for (const { event } of log.slice(place + 1)) {
    if (event.type === "step-finish" || event.type === "step-start") return false;
    if (event.type === "step-reset") return true;
  }
  return false;
}
