import assert from "node:assert/strict";
import { HubError } from "../../src/core/error.ts";
import type { HubEvent } from "../../src/core/event.ts";
import { addUsage, NO_USAGE } from "../../src/core/usage.ts";
import { CONCLUDE } from "../../src/inference/model_request.ts";
import { settle } from "../support/fake_clock.ts";
import {
  type Answer,
  answer,
  asks,
  call,
  end,
  finishOf,
  makeTool,
  runRig,
  says,
  START,
  startRig,
  text,
  textResult,
  USAGE,
} from "./loop_rig.ts";

const BEGIN: HubEvent = {
  type: "start",
  messageId: "msg_1",
  runId: "run_1",
  sessionId: "ses_1",
  model: "smart",
};
const METADATA = { model: "acme-1", provider: "acme" };
const stepStart = (step: number): HubEvent => ({ type: "step-start", step });
const stepFinish = (
  step: number,
  finishReason: Extract<HubEvent, { type: "step-finish" }>["finishReason"],
  usage = USAGE,
): HubEvent => ({ type: "step-finish", step, finishReason, usage: { ...usage } });
const finish = (
  steps: number,
  finishReason: Extract<HubEvent, { type: "finish" }>["finishReason"],
  costMicros: number | null = 7 * steps,
): HubEvent => {
  let usage = { ...NO_USAGE };
  for (let step = 0; step < steps; step++) usage = addUsage(usage, USAGE);
  return { type: "finish", finishReason, usage, costMicros, metadata: METADATA };
};
const words = (id: string, delta: string): HubEvent[] => [
  { type: "text-start", id },
  { type: "text-delta", id, delta },
  { type: "text-end", id },
];
const input = (toolCallId: string, toolName: string, inputTextDelta: string): HubEvent[] => [
  { type: "tool-input-start", toolCallId, toolName },
  { type: "tool-input-delta", toolCallId, inputTextDelta },
];
const available = (toolCallId: string, toolName: string, value: { [key: string]: number }) => ({
  type: "tool-input-available" as const,
  toolCallId,
  toolName,
  input: value,
});
const echo = makeTool("test.echo", (value) => textResult(JSON.stringify(value)));

Deno.test("a plain answer is one step, and its last read and its end are one batch", async () => {
  const rig = await runRig({ answers: [says("Hello")] });
  assert.deepEqual(rig.events, [
    BEGIN,
    stepStart(0),
    ...words("p0", "Hello"),
    stepFinish(0, "stop"),
    finish(1, "stop"),
  ]);
  assert.deepEqual(rig.batches.map((batch) => batch.events.map((event) => event.type)), [
    ["start", "step-start"],
    ["text-start", "text-delta"],
    ["text-end", "step-finish", "finish"],
  ]);
  assert.deepEqual(rig.steps.get(0), {
    step: 0,
    state: "done",
    attempt: 1,
    usage: USAGE,
    costMicros: 7,
    finishReason: "stop",
    provider: "acme",
    model: "acme-1",
  });
  assert.deepEqual(rig.contexts[0]?.stepAttempt, 0);
});

Deno.test("two tools run together, their results leave as they end and reach the model in call order", async () => {
  let finishFirst = () => {};
  const slow = makeTool("test.slow", async (_input, context) => {
    context.progress({ percent: 50 });
    await new Promise<void>((resolve) => finishFirst = resolve);
    return textResult("slow result");
  });
  const quick = makeTool("test.quick", () => textResult("quick result"));
  const rig = startRig({
    answers: [asks(["test_slow", { a: 1 }], ["test_quick", { b: 2 }]), says("Done")],
    tools: [slow, quick],
    onBatch(batch) {
      if (batch.events.some((event) => event.type === "tool-output-available")) finishFirst();
    },
  });
  await rig.done;
  assert.deepEqual(rig.events, [
    BEGIN,
    stepStart(0),
    ...input("call_1", "test.slow", '{"a":1}'),
    ...input("call_2", "test.quick", '{"b":2}'),
    available("call_1", "test.slow", { a: 1 }),
    available("call_2", "test.quick", { b: 2 }),
    stepFinish(0, "tool-calls"),
    { type: "tool-output-available", toolCallId: "call_2", output: "quick result" },
    { type: "tool-output-available", toolCallId: "call_1", output: "slow result" },
    stepStart(1),
    ...words("p0", "Done"),
    stepFinish(1, "stop"),
    finish(2, "stop"),
  ]);
  assert.deepEqual(rig.requests[1]?.messages.slice(2), [
    {
      role: "assistant",
      content: [
        { type: "tool-call", toolCallId: "call_1", toolName: "test_slow", inputText: '{"a":1}' },
        { type: "tool-call", toolCallId: "call_2", toolName: "test_quick", inputText: '{"b":2}' },
      ],
    },
    {
      role: "tool",
      results: [
        {
          toolCallId: "call_1",
          toolName: "test_slow",
          text: "slow result",
          images: [],
          isError: false,
        },
        {
          toolCallId: "call_2",
          toolName: "test_quick",
          text: "quick result",
          images: [],
          isError: false,
        },
      ],
    },
  ]);
  assert.deepEqual(rig.progress, [
    { type: "data", name: "progress", id: "call_1", data: { percent: 50 }, transient: true },
  ]);
  assert.deepEqual(rig.states.get("call_1"), ["started", "succeeded"]);
  const record = rig.journal.get("call_1");
  assert.equal(record?.providerCallId, "up_0");
  assert.equal(record?.idempotencyKey, "run_1:call_1");
  assert.equal(
    record?.argsHash,
    "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862",
  );
});

Deno.test("the prefix of every request is the same to the byte", async () => {
  const rig = await runRig({
    answers: [asks(["test_echo", { z: 1, a: { y: 2, b: 3 } }]), asks(["test_echo", {}]), says("x")],
    tools: [
      makeTool("b.tool", () => textResult("")),
      echo,
      makeTool("a.tool", () => textResult("")),
    ],
  });
  assert.equal(rig.requests.length, 3);
  const [first, second, third] = rig.requests.map((request) => JSON.stringify(request.messages));
  assert.ok(second?.startsWith(first?.slice(0, -1) ?? "?"));
  assert.ok(third?.startsWith(second?.slice(0, -1) ?? "?"));
  const tools = rig.requests.map((request) => JSON.stringify(request.tools));
  assert.deepEqual(new Set(tools).size, 1);
  assert.deepEqual(rig.requests[0]?.tools.map(({ name }) => name), [
    "a_tool",
    "b_tool",
    "test_echo",
  ]);
});

Deno.test("the last allowed step keeps the tools, forbids calls, asks to conclude, and drops a call", async () => {
  const rig = await runRig({
    answers: [
      asks(["test_echo", { n: 1 }]),
      answer(
        [text("So far: ")],
        [...call(0, "test_echo", { n: 2 }), text("nothing")],
        end("tool-calls"),
      ),
    ],
    tools: [echo],
    settings: { maxSteps: 2, toolChoice: "required" },
  });
  assert.deepEqual(rig.events.slice(-7), [
    stepStart(1),
    { type: "text-start", id: "p0" },
    { type: "text-delta", id: "p0", delta: "So far: " },
    { type: "text-delta", id: "p0", delta: "nothing" },
    { type: "text-end", id: "p0" },
    stepFinish(1, "stop"),
    finish(2, "max-steps"),
  ]);
  assert.deepEqual(rig.requests.map((request) => request.toolChoice), ["required", "none"]);
  assert.deepEqual(rig.requests[1]?.tools, rig.requests[0]?.tools);
  assert.deepEqual(rig.requests[1]?.messages.at(-1), {
    role: "user",
    content: [{ type: "text", text: CONCLUDE }],
  });
});

Deno.test("an agent without tools is not asked to conclude", async () => {
  const rig = await runRig({ answers: [says("Hi")], settings: { maxSteps: 1 } });
  assert.equal(rig.requests[0]?.messages.length, 2);
  assert.equal(rig.requests[0]?.toolChoice, undefined);
  assert.equal(finishOf(rig).finishReason, "stop");
});

Deno.test("a forced tool choice holds until the first call", async () => {
  const rig = await runRig({
    answers: [asks(["test_echo", {}]), says("x")],
    tools: [echo],
    settings: { toolChoice: { name: "test.echo" } },
  });
  assert.deepEqual(rig.requests.map((request) => request.toolChoice), [
    { name: "test_echo" },
    "auto",
  ]);
});

Deno.test("an unknown tool gets the nearest names, and the run goes on", async () => {
  const many = Array.from(
    { length: 30 },
    (_, n) => makeTool(`zoo.animal${n}`, () => textResult("")),
  );
  const rig = await runRig({
    answers: [asks(["test_ecko", { a: 1 }]), says("Sorry")],
    tools: [...many, echo],
  });
  const error = rig.events.find((event) => event.type === "tool-input-error");
  assert.ok(error?.type === "tool-input-error");
  assert.equal(error.toolName, "test_ecko");
  assert.equal(error.input, '{"a":1}');
  assert.match(error.errorText, /^No tool named test_ecko\. Available: test_echo, /);
  assert.equal(error.errorText.split(", ").length, 20);
  assert.deepEqual(rig.states.get("call_1"), ["failed"]);
  assert.equal(finishOf(rig).finishReason, "stop");
  const results = rig.requests[1]?.messages.at(-1);
  assert.ok(results?.role === "tool");
  assert.equal(results.results[0]?.text, error.errorText);
});

Deno.test("a tool name that no database takes is an unknown tool like any other", async () => {
  const name = `a\0b${"c".repeat(124)}😀\ud800`;
  const rig = await runRig({ answers: [asks([name, { a: 1 }]), says("Sorry")], tools: [echo] });
  const rows = JSON.stringify([rig.events, [...rig.journal.values()], rig.requests[1]?.messages]);
  assert.doesNotMatch(rows, /\\u(0000|d[89a-f])/);
  assert.equal(rig.journal.get("call_1")?.toolName, `a\ufffdb${"c".repeat(124)}😀\ufffd`);
  assert.equal(finishOf(rig).finishReason, "stop");
});

Deno.test("three steps in a row without a usable call lead to the last step", async () => {
  const rig = await runRig({
    answers: [
      asks(["test_echo", '{"a":']),
      asks(["test_echo", { bad: 1 }]),
      asks(["test_echo", "[1]"]),
      says("I give up"),
    ],
    tools: [echo],
  });
  const errors = rig.events.filter((event) => event.type === "tool-input-error")
    .map((event) => event.errorText);
  assert.match(errors[0] ?? "", /not valid JSON.*What came: \{"a":$/);
  assert.equal(
    errors[1],
    "The arguments of test_echo do not fit its schema:\n- /bad: wanted nothing, got something",
  );
  assert.match(errors[2] ?? "", /- the arguments: wanted object/);
  assert.deepEqual(rig.requests.map((request) => request.toolChoice), [
    undefined,
    undefined,
    undefined,
    "none",
  ]);
  assert.deepEqual(rig.events.slice(-2), [stepFinish(3, "stop"), finish(4, "max-steps")]);
});

Deno.test("a usable call in between starts the count of unusable ones anew", async () => {
  const bad = asks(["test_echo", { bad: 1 }]);
  const rig = await runRig({
    answers: [bad, bad, asks(["test_echo", {}]), bad, bad, says("ok")],
    tools: [echo],
  });
  assert.equal(finishOf(rig).finishReason, "stop");
});

Deno.test("a call that is made again and again is answered without running, then the run concludes", async () => {
  let runs = 0;
  const counted = makeTool("test.count", () => textResult(String(++runs)));
  const again = asks(["test_count", { b: 1, a: 2 }]);
  const reordered = asks(["test_count", { a: 2, b: 1 }]);
  const rig = await runRig({
    answers: [again, reordered, again, again, again, says("Enough")],
    tools: [counted],
  });
  assert.equal(runs, 2);
  const refused = {
    type: "tool-output-error",
    errorText:
      "You already made this call 3 times with the same arguments; change approach or answer",
  };
  const outputs = rig.events.filter((event) =>
    event.type === "tool-output-error" || event.type === "tool-output-available"
  );
  assert.deepEqual(outputs, [
    { type: "tool-output-available", toolCallId: "call_1", output: "1" },
    { type: "tool-output-available", toolCallId: "call_2", output: "2" },
    { ...refused, toolCallId: "call_3" },
    { ...refused, toolCallId: "call_4" },
    { ...refused, toolCallId: "call_5" },
  ]);
  assert.deepEqual(rig.states.get("call_3"), ["failed"]);
  assert.equal(rig.requests[5]?.toolChoice, "none");
  assert.equal(finishOf(rig).finishReason, "max-steps");
});

Deno.test("a polling tool may repeat itself", async () => {
  let runs = 0;
  const poll = makeTool("job.status", () => textResult(String(++runs)), { polling: true });
  const again = asks(["job_status", {}]);
  const rig = await runRig({
    answers: [again, again, again, again, again, again, says("Finished")],
    tools: [poll],
  });
  assert.equal(runs, 6);
  assert.equal(finishOf(rig).finishReason, "stop");
});

Deno.test("an answer that breaks off after text is made again, and what it said is void once the next one speaks", async () => {
  const rig = startRig({
    answers: [
      async function* () {
        yield [START];
        yield await Promise.resolve([text("Half a sen"), ...call(0, "test_echo", '{"a"')]);
        throw new HubError("upstream_cut", "The connection ended");
      },
      says("Whole"),
    ],
    tools: [echo],
  });
  await settle();
  assert.deepEqual(rig.events.slice(2), [
    { type: "text-start", id: "p0" },
    { type: "text-delta", id: "p0", delta: "Half a sen" },
    { type: "text-end", id: "p0" },
    ...input("call_1", "test.echo", '{"a"'),
  ]);
  await rig.clock.advance(250);
  await rig.done;
  assert.deepEqual(rig.events.slice(7), [
    { type: "step-reset", step: 0 },
    ...words("p1", "Whole"),
    stepFinish(0, "stop"),
    finish(1, "stop", null),
  ]);
  assert.deepEqual(rig.contexts.map((context) => context.stepAttempt), [0, 1]);
  assert.equal(rig.steps.get(0)?.attempt, 2);
});

Deno.test("an answer that ends without a finish reason is a failure; after three tries the text stays and the run fails", async () => {
  const broken = answer([text("Almost")]);
  const rig = startRig({ answers: [broken, broken, broken] });
  await rig.clock.advance(1000);
  await rig.clock.advance(1000);
  await rig.done;
  assert.deepEqual(rig.events.slice(2), [
    { type: "text-start", id: "p0" },
    { type: "text-delta", id: "p0", delta: "Almost" },
    { type: "step-reset", step: 0 },
    { type: "text-start", id: "p1" },
    { type: "text-delta", id: "p1", delta: "Almost" },
    { type: "step-reset", step: 0 },
    ...words("p2", "Almost"),
    stepFinish(0, "error", { ...NO_USAGE }),
    {
      type: "error",
      errorText: "The model's answer ended without a finish reason, so it may be incomplete",
      code: "upstream_cut",
      retryable: true,
    },
    finish(0, "error", null),
  ]);
});

Deno.test("text stays when the tries after it say nothing", async () => {
  const rig = startRig({
    answers: [answer([text("Almost")]), async function* () {
      await Promise.resolve();
      yield* [];
      throw new HubError("upstream_unreachable", "Nobody there");
    }],
  });
  await rig.clock.advance(1000);
  await rig.done;
  assert.deepEqual(rig.events.slice(2).map((event) => event.type), [
    "text-start",
    "text-delta",
    "text-end",
    "step-finish",
    "error",
    "finish",
  ]);
});

Deno.test("a call that fails before it says anything, or for good, is not made again", async () => {
  const dead = await runRig({
    answers: [async function* () {
      await Promise.resolve();
      yield* [];
      throw new HubError("upstream_rate_limited", "Too many requests");
    }],
  });
  assert.deepEqual(dead.events.slice(2).map((event) => event.type), [
    "step-finish",
    "error",
    "finish",
  ]);
  assert.deepEqual(finishOf(dead).metadata, { model: "smart", provider: "" });
  assert.equal(finishOf(dead).costMicros, 0);
  const refused = await runRig({
    answers: [async function* () {
      yield [START];
      await Promise.resolve();
      throw new HubError("upstream_rejected", "No", { clientCode: "content_policy" });
    }],
  });
  const error = refused.events.find((event) => event.type === "error");
  assert.ok(error?.type === "error");
  assert.equal(error.code, "content_policy");
  const patient = await runRig({
    answers: [async function* () {
      yield [START];
      await Promise.resolve();
      throw new HubError("upstream_error", "Busy", { retryAfterMs: 61_000 });
    }],
  });
  assert.equal(finishOf(patient).finishReason, "error");
});

Deno.test("a model that throws at once and an unknown error are error events without their text", async () => {
  const rig = await runRig({
    answers: [],
    run: {
      callModel() {
        throw new Error("secret detail");
      },
    },
  });
  const error = rig.events.find((event) => event.type === "error");
  assert.ok(error?.type === "error");
  assert.equal(error.code, "internal_error");
  assert.doesNotMatch(error.errorText, /secret/);
});

Deno.test("length never executes a call that may be cut, executes whole ones, and the model may try again", async () => {
  const ran: unknown[] = [];
  const spy = makeTool("test.spy", (value) => {
    ran.push(value);
    return textResult("ok");
  });
  const rig = await runRig({
    answers: [
      answer(
        [...call(0, "test_spy", { whole: 1 }), ...call(1, "test_spy", '{"cut": "hal')],
        end("length"),
      ),
      answer([...call(0, "test_spy", "")], end("length")),
      answer([...call(0, "test_spy", '{"a":1,}')], end("unknown")),
      says("Done"),
    ],
    tools: [spy],
  });
  assert.deepEqual(ran, [{ whole: 1 }]);
  const errors = rig.events.filter((event) => event.type === "tool-input-error")
    .map((event) => event.errorText.slice(0, 52));
  assert.deepEqual(errors, [
    "Not executed: the answer reached its length limit wi",
    "Not executed: the answer reached its length limit wi",
    "Not executed: the answer ended before these argument",
  ]);
  const reasons = rig.events.filter((event) => event.type === "step-finish")
    .map((event) => event.finishReason);
  assert.deepEqual(reasons, ["length", "length", "tool-calls", "stop"]);
});

Deno.test("a content filter ends the run and executes nothing", async () => {
  const rig = await runRig({
    answers: [answer([...call(0, "test_echo", {})], end("content-filter"))],
    tools: [makeTool("test.echo", () => assert.fail("must not run"))],
  });
  assert.deepEqual(rig.events.slice(3).map((event) => event.type), [
    "tool-input-delta",
    "tool-input-error",
    "step-finish",
    "finish",
  ]);
  assert.equal(finishOf(rig).finishReason, "content-filter");
});

Deno.test("provider ids that come again in a later step stay apart", async () => {
  const rig = await runRig({
    answers: [asks(["test_echo", { n: 1 }]), asks(["test_echo", { n: 2 }]), says("Done")],
    tools: [echo],
  });
  assert.deepEqual([...rig.journal.values()].map((row) => [row.toolCallId, row.providerCallId]), [
    ["call_1", "up_0"],
    ["call_2", "up_0"],
  ]);
  const last = rig.requests[2]?.messages ?? [];
  const texts = last.flatMap((message) =>
    message.role === "tool" ? message.results.map((result) => result.text) : []
  );
  assert.deepEqual(texts, ['{"n":1}', '{"n":2}']);
});

Deno.test("a refused call is denied, its sibling runs", async () => {
  const rig = await runRig({
    answers: [asks(["test_echo", { n: 1 }], ["test_echo", { n: 2 }]), says("Done")],
    tools: [echo],
    run: {
      permit: ({ input }) =>
        Promise.resolve(
          JSON.stringify(input) === '{"n":1}'
            ? { allowed: false, reason: "Not on Sundays" }
            : { allowed: true },
        ),
    },
  });
  assert.deepEqual(rig.states.get("call_1"), ["denied"]);
  assert.deepEqual(rig.states.get("call_2"), ["started", "succeeded"]);
  assert.ok(
    rig.events.some((event) =>
      event.type === "tool-output-denied" && event.errorText === "Not on Sundays"
    ),
  );
});

Deno.test("a failing tool is a result the model reads", async () => {
  const rig = await runRig({
    answers: [asks(["test_fail", {}]), says("Oh")],
    tools: [makeTool("test.fail", () => Promise.reject(new Error("Disk full")))],
  });
  const results = rig.requests[1]?.messages.at(-1);
  assert.ok(results?.role === "tool");
  assert.deepEqual(results.results[0]?.text, "Disk full");
  assert.equal(results.results[0]?.isError, true);
  assert.deepEqual(rig.states.get("call_1"), ["started", "failed"]);
});

Deno.test("an agent that may not call tools has its calls dropped from the first step on", async () => {
  const rig = await runRig({
    answers: [answer([text("No tools, then"), ...call(0, "test_echo", {})], end("tool-calls"))],
    tools: [echo],
    settings: { toolChoice: "none" },
  });
  assert.equal(rig.requests[0]?.toolChoice, "none");
  assert.deepEqual(rig.events.slice(2), [
    ...words("p0", "No tools, then"),
    stepFinish(0, "stop"),
    finish(1, "stop"),
  ]);
});

Deno.test("a whole answer is read to its end, and what fails behind it does no harm", async () => {
  const seen: string[] = [];
  const rig = await runRig({
    answers: [async function* () {
      try {
        yield [START, text("Whole"), ...end("stop")];
        seen.push("read on");
        for (let turn = 0; turn < 50; turn++) await Promise.resolve();
        throw new HubError("upstream_cut", "The connection was reset");
      } finally {
        seen.push("closed");
      }
    }],
    onBatch(batch) {
      if (batch.events.some((event) => event.type === "finish")) seen.push("finished");
    },
  });
  assert.deepEqual(seen, ["read on", "closed", "finished"]);
  assert.equal(finishOf(rig).finishReason, "stop");
});

Deno.test("a failure of the loop itself ends the run in order, as stopped when it was stopped", async () => {
  const broken = async (stop: boolean) => {
    const rig = startRig({
      answers: [asks(["test_echo", {}])],
      tools: [echo],
      run: {
        parseArguments() {
          if (stop) rig.abort.abort();
          throw new Error("a bug");
        },
      },
    });
    await rig.done;
    return rig;
  };
  const rig = await broken(false);
  assert.deepEqual(rig.events.slice(-4).map((event) => event.type), [
    "tool-input-error",
    "step-finish",
    "error",
    "finish",
  ]);
  assert.equal(finishOf(rig).usage.totalTokens, USAGE.totalTokens);
  assert.equal(finishOf(await broken(true)).finishReason, "aborted");
});

/** A call for which no target has a place. */
const full: Answer = async function* () {
  const refusal = new HubError("overloaded", "The provider is full", { retryAfterMs: 2000 });
  yield await Promise.reject(refusal);
};

Deno.test("a run that goes on waits for a place at its models, and that is no attempt", async () => {
  const answers = [asks(["test_echo", { a: 1 }]), full, full, says("Done")];
  const rig = startRig({ answers, tools: [echo] });
  await rig.clock.advance(3999);
  assert.equal(rig.requests.length, 3);
  await rig.clock.advance(1);
  await rig.done;
  assert.equal(finishOf(rig).finishReason, "stop");
  assert.deepEqual(rig.contexts.map(({ stepAttempt }) => stepAttempt), [0, 0, 0, 0]);
  assert.deepEqual([rig.steps.get(1)?.attempt, rig.steps.get(1)?.state], [1, "done"]);
  assert.equal(rig.clock.pending(), 0);
});

Deno.test("a run that goes on waits for a minute in all, and one that begins does not wait", async () => {
  const first = await runRig({ answers: [full] });
  assert.equal(finishOf(first).finishReason, "error");
  const answers = [asks(["test_echo", { a: 1 }]), ...Array.from({ length: 31 }, () => full)];
  const later = startRig({ answers, tools: [echo] });
  await later.clock.advance(59_999);
  assert.equal(later.events.at(-1)?.type, "step-start");
  await later.clock.advance(1);
  await later.done;
  assert.equal(finishOf(later).finishReason, "error");
  assert.equal(later.requests.length, 32);
});

Deno.test("a run that waits for a place is stopped at once", async () => {
  const rig = startRig({ answers: [asks(["test_echo", { a: 1 }]), full], tools: [echo] });
  await rig.clock.advance(1000);
  rig.abort.abort("enough");
  await rig.done;
  assert.equal(finishOf(rig).finishReason, "aborted");
  assert.equal(rig.clock.pending(), 0);
});
