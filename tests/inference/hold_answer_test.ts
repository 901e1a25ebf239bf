import assert from "node:assert/strict";
import { readAnswer, readProblem } from "../../src/core/answer_format.ts";
import { createStructuredAnswer } from "../../src/operations/structured_answer.ts";
import { killedBehind, leftOf } from "./killed_rig.ts";
import {
  answer,
  asks,
  end,
  finishOf,
  makeTool,
  type Rig,
  type RigOptions,
  says,
  startRig,
  text,
  textResult,
} from "./loop_rig.ts";

const ANSWER = createStructuredAnswer({
  type: "object",
  properties: { people: { type: "integer" } },
  required: ["people"],
  additionalProperties: false,
});
const GOOD = says('{"people":5}');
const BAD = says('{"people":"many"}');
const TOOLS = [makeTool("a.one", () => textResult("one done"))];

function start(answers: RigOptions["answers"], rest: Partial<RigOptions> = {}): Rig {
  return startRig({ tools: TOOLS, ...rest, answers, run: { answer: ANSWER, ...rest.run } });
}

async function run(answers: RigOptions["answers"], rest: Partial<RigOptions> = {}): Promise<Rig> {
  const rig = start(answers, rest);
  await rig.done;
  return rig;
}

const valuesOf = ({ events }: Rig) => events.map(readAnswer).filter((value) => value !== undefined);
const problemsOf = ({ events }: Rig) => events.map(readProblem).filter((one) => one !== null);
const codeOf = ({ events }: Rig) =>
  events.flatMap((event) => event.type === "error" ? [event.code] : []);

Deno.test("an answer that fits is in the log as what it is; the request asks for it in both ways", async () => {
  const rig = await run([asks(["a_one", {}]), GOOD]);
  assert.deepEqual(valuesOf(rig), [{ people: 5 }]);
  assert.equal(finishOf(rig).finishReason, "stop");
  for (const request of rig.requests) {
    assert.deepEqual(request.responseFormat, ANSWER.responseFormat);
    const [system] = request.messages;
    assert.ok(system?.role === "system" && system.text.includes(ANSWER.instruction));
  }
});

Deno.test("one that does not fit is made again, the model being told why, with no more tools", async () => {
  const rig = await run([BAD, asks(["a_one", {}]), GOOD]);
  const [, second] = rig.requests;
  assert.equal(second?.toolChoice, "none");
  assert.match(JSON.stringify(second?.messages.at(-1)), /cannot be used.*people/);
  assert.deepEqual(valuesOf(rig), [{ people: 5 }]);
  assert.equal(problemsOf(rig).length, 2, "calls are not heard, and no answer");
  assert.ok(![...rig.journal.keys()].length);
});

Deno.test("after two repairs it is an error with a code of its own, and never a finish", async () => {
  const rig = await run([BAD, BAD, BAD]);
  assert.deepEqual(codeOf(rig), ["answer_invalid"]);
  assert.equal(finishOf(rig).finishReason, "error");
  assert.deepEqual(valuesOf(rig), []);
});

Deno.test("an answer that is cut or refused is an error of its own, at once", async () => {
  const cut = await run([answer([text('{"people":')], end("length"))]);
  assert.deepEqual(codeOf(cut), ["answer_cut"]);
  const refused = await run([answer([text("No")], end("content-filter"))]);
  assert.deepEqual(codeOf(refused), ["answer_refused"]);
  const whole = await run([answer([text('{"people":5}')], end("length"))]);
  assert.deepEqual(valuesOf(whole), [{ people: 5 }]);
});

Deno.test("a model that refuses with words of its own is not asked again", async () => {
  const refuses = answer(
    [{ type: "text-delta", delta: "I cannot ", refusal: true }],
    [{ type: "text-delta", delta: "do that.", refusal: true }],
    end("stop"),
  );
  const refused = await run([refuses]);
  assert.deepEqual(codeOf(refused), ["answer_refused"]);
  assert.deepEqual(problemsOf(refused), []);
  assert.equal(refused.requests.length, 1);
  const later = await run([asks(["a_one", {}]), BAD, refuses]);
  assert.deepEqual(codeOf(later), ["answer_refused"]);
  // Without a format, it is what the model has to say.
  const free = startRig({ answers: [refuses] });
  await free.done;
  assert.equal(finishOf(free).finishReason, "stop");
});

Deno.test("the last allowed step is held to it too, and repaired behind it", async () => {
  const settings = { maxSteps: 1 };
  const rig = await run([BAD, GOOD], { settings });
  assert.deepEqual(valuesOf(rig), [{ people: 5 }]);
  const never = await run([BAD, BAD, BAD], { settings });
  assert.deepEqual(codeOf(never), ["answer_invalid"]);
});

Deno.test("a budget that is used up leaves no wrong answer", async () => {
  const rig = await run([BAD], { run: { answer: ANSWER, budget: { steps: 1 } } });
  assert.deepEqual(codeOf(rig), ["answer_invalid"]);
});

Deno.test("whoever takes the run over repairs as often as is left, and never twice the same", async () => {
  const answers = [BAD, BAD, GOOD];
  const whole = await run(answers);
  for (let batches = 1; batches < whole.batches.length; batches++) {
    const first = await killedBehind(batches, (rest) => start(answers, rest));
    const left = leftOf(first);
    const second = await run(answers.slice(left.steps), { isResumed: true, run: left.run });
    assert.deepEqual(second.requests, whole.requests.slice(left.steps), `after ${batches} batches`);
    assert.equal(finishOf(second).finishReason, "stop");
    assert.equal(problemsOf(first).length + problemsOf(second).length, 2);
  }
});

Deno.test("a run that is left behind a problem goes on with its repair", async () => {
  let steps = 0;
  const first = await run([BAD], {
    isResumed: true,
    run: { answer: ANSWER, mustLeave: () => steps++ > 0 },
  });
  assert.equal(problemsOf(first).length, 1);
  assert.ok(!first.events.some(({ type }) => type === "finish"));
  const second = await run([GOOD], {
    isResumed: true,
    run: {
      answer: ANSWER,
      resume: { events: first.events, openCalls: [], decisions: [], costMicros: 0 },
    },
  });
  assert.match(JSON.stringify(second.requests[0]?.messages.at(-1)), /cannot be used/);
  assert.deepEqual(valuesOf(second), [{ people: 5 }]);
});
