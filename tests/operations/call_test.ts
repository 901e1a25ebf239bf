import assert from "node:assert/strict";
import type { ToolResult } from "../../src/core/tool.ts";
import { sleep } from "../../src/core/clock.ts";
import { HubError } from "../../src/core/error.ts";
import { callTool } from "../../src/operations/call.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { createTool, createToolContext } from "./tool_context.ts";

const text = (value: string): ToolResult => ({ content: [{ type: "text", text: value }] });

Deno.test("a success carries output, duration and the characters a model reads", async () => {
  const clock = createFakeClock();
  const { context } = createToolContext(clock);
  const tool = createTool(async () => {
    await sleep(clock, 250);
    return text("hello");
  });
  const called = callTool(tool, {}, { context });
  await clock.advance(250);
  assert.deepEqual(await called, {
    ok: true,
    status: "succeeded",
    output: "hello",
    ref: null,
    durationMs: 250,
    chars: 5,
  });
  assert.equal(clock.pending(), 0, "no timer is left");
});

Deno.test("a thrown error, thrown at once or later, is a failure the model reads", async () => {
  const clock = createFakeClock();
  const { context } = createToolContext(clock);
  const thrown: [() => Promise<ToolResult>, RegExp][] = [
    [() => {
      throw new Error("disk is full");
    }, /^disk is full$/],
    [() => Promise.reject(new HubError("not_found", "No such file")), /^No such file$/],
    [() => Promise.reject("plain words"), /^plain words$/],
    [() => Promise.reject(undefined), /test\.tool failed without a reason/],
  ];
  for (const [execute, wanted] of thrown) {
    const outcome = await callTool(createTool(execute), {}, { context });
    assert.ok(!outcome.ok && outcome.status === "failed");
    assert.match(outcome.errorText, wanted);
    assert.equal(clock.pending(), 0);
  }
});

Deno.test("isError is a failure that keeps its output", async () => {
  const { context } = createToolContext(createFakeClock());
  const failing = createTool(() => Promise.resolve({ ...text("no rows"), isError: true }));
  const outcome = await callTool(failing, {}, { context });
  assert.deepEqual(outcome, {
    ok: false,
    status: "failed",
    errorText: "no rows",
    output: "no rows",
    durationMs: 0,
    chars: 7,
  });
});

Deno.test("the deadline aborts the tool, whose obedient end is a timeout", async () => {
  const clock = createFakeClock();
  const { context } = createToolContext(clock);
  let reason: unknown;
  const tool = createTool(async (_input, { signal }) => {
    signal.addEventListener("abort", () => reason = signal.reason);
    await sleep(clock, 60_000, signal);
    return text("late");
  });
  const called = callTool(tool, {}, { context });
  await clock.advance(1000);
  const outcome = await called;
  assert.ok(!outcome.ok);
  assert.equal(outcome.status, "timed-out");
  assert.equal(outcome.inDoubt, true);
  assert.match(outcome.errorText, /did not end within 1000 ms; do not assume/);
  assert.equal(outcome.durationMs, 1000);
  assert.ok(reason instanceof HubError);
  assert.equal(clock.pending(), 0);
});

Deno.test("a tool that ignores its signal is abandoned after the grace; its late end and progress are dropped", async () => {
  for (const late of ["result", "error"]) {
    const clock = createFakeClock();
    const { context, progressed, logged } = createToolContext(clock);
    const tool = createTool(async (_input, { progress }) => {
      progress("early");
      await sleep(clock, 10_000);
      progress("late");
      if (late === "error") throw new Error("nobody listens");
      return text("late");
    });
    const called = callTool(tool, {}, { context });
    await clock.advance(2999);
    await clock.advance(1);
    const outcome = await called;
    assert.equal(outcome.status, "timed-out");
    assert.equal(outcome.durationMs, 3000);
    await clock.advance(20_000);
    assert.deepEqual(progressed, ["early"]);
    assert.deepEqual(logged, ["warn Tool ignored its signal and was abandoned"]);
  }
});

Deno.test("a stop ends an obedient tool at once and a stubborn one after the grace", async () => {
  for (const obedient of [true, false]) {
    const clock = createFakeClock();
    const controller = new AbortController();
    const { context } = createToolContext(clock, controller.signal);
    const tool = createTool(async (_input, { signal }) => {
      await sleep(clock, 60_000, obedient ? signal : undefined);
      return text("done");
    }, { timeoutMs: 100_000 });
    const called = callTool(tool, {}, { context });
    await clock.advance(100);
    controller.abort("stopped");
    await clock.advance(obedient ? 0 : 2000);
    const outcome = await called;
    assert.equal(outcome.status, "aborted");
    assert.equal(outcome.durationMs, obedient ? 100 : 2100);
    await clock.advance(60_000);
  }
});

Deno.test("abort wins over a tool's error, and a success within the grace is kept", async () => {
  for (const fails of [true, false]) {
    const clock = createFakeClock();
    const controller = new AbortController();
    const { context } = createToolContext(clock, controller.signal);
    const tool = createTool(async () => {
      await sleep(clock, 500);
      if (fails) throw new Error("connection lost");
      return text("written");
    });
    const called = callTool(tool, {}, { context });
    controller.abort();
    await clock.advance(500);
    const outcome = await called;
    assert.equal(outcome.status, fails ? "aborted" : "succeeded");
  }
});

Deno.test("a run that is stopped already starts nothing", async () => {
  const { context } = createToolContext(createFakeClock(), AbortSignal.abort());
  let ran = false;
  const tool = createTool(() => {
    ran = true;
    return Promise.resolve(text(""));
  });
  const outcome = await callTool(tool, {}, { context });
  assert.equal(outcome.status, "aborted");
  assert.equal(ran, false);
});

Deno.test("a long result is cut and its whole text kept; when keeping fails the head and tail still come", async () => {
  const long = Array.from({ length: 9000 }, (_, n) => `line ${n + 1}`).join("\n");
  const tool = createTool(() => Promise.resolve(text(long)));
  const { context, logged } = createToolContext(createFakeClock());
  const kept: string[] = [];
  const outcome = await callTool(tool, {}, {
    context,
    saveResult: (whole, { toolCallId }) => {
      kept.push(whole);
      return Promise.resolve(`blob_of_${toolCallId}`);
    },
  });
  assert.ok(outcome.ok);
  assert.equal(outcome.ref, "blob_of_call_1");
  assert.deepEqual(kept, [long]);
  assert.match(String(outcome.output), /blob_of_call_1.*hub\.read_result/);
  const unkept = await callTool(tool, {}, {
    context,
    saveResult: () => Promise.reject(new Error("database is away")),
  });
  assert.ok(unkept.ok && unkept.ref === null);
  assert.match(String(unkept.output), /was not kept/);
  assert.deepEqual(logged, ["error A long tool result could not be kept"]);
});

Deno.test("a tool of a wrong shape is a failure", async () => {
  const { context } = createToolContext(createFakeClock());
  const shapeless = createTool(() => Promise.resolve(JSON.parse("null")));
  const outcome = await callTool(shapeless, {}, { context });
  assert.ok(!outcome.ok);
  assert.match(outcome.errorText, /gave back no result/);
});
