import assert from "node:assert/strict";
import { HubError } from "../../src/core/error.ts";
import type { HubEvent } from "../../src/core/event.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
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

const METADATA = { model: "acme-1", provider: "acme" };

/** Says something, then waits for ever; `stopped` hears of the abort. */
function stalls(reads: Parameters<typeof answer>, stopped: (reason: unknown) => void): Answer {
  return async function* (request, context) {
    yield* answer(...reads)(request, context);
    await new Promise((_resolve, reject) => {
      context.signal.addEventListener("abort", () => {
        stopped(context.signal.reason);
        reject(context.signal.reason);
      });
    });
  };
}

Deno.test("a stop while the model speaks keeps what it said, closes it and ends the run", async () => {
  const reasons: unknown[] = [];
  const rig = startRig({
    answers: [
      stalls(
        [
          [{ type: "reasoning-delta", delta: "Hm", field: "reasoning" }],
          [...call(0, "test_echo", '{"a"')],
        ],
        (reason) => reasons.push(reason),
      ),
    ],
    tools: [makeTool("test.echo", () => textResult(""))],
  });
  await settle();
  rig.abort.abort("Stopped by the user");
  await rig.done;
  assert.deepEqual(rig.events.slice(2), [
    { type: "reasoning-start", id: "p0" },
    { type: "reasoning-delta", id: "p0", delta: "Hm" },
    {
      type: "reasoning-end",
      id: "p0",
      origin: { provider: "acme", model: "acme-1", field: "reasoning" },
    },
    { type: "tool-input-start", toolCallId: "call_1", toolName: "test.echo" },
    { type: "tool-input-delta", toolCallId: "call_1", inputTextDelta: '{"a"' },
    {
      type: "tool-input-error",
      toolCallId: "call_1",
      toolName: "test.echo",
      input: '{"a"',
      errorText: "aborted",
    },
    { type: "step-finish", step: 0, finishReason: "aborted", usage: { ...NO_USAGE } },
    { type: "abort", reason: "Stopped by the user" },
    {
      type: "finish",
      finishReason: "aborted",
      usage: { ...NO_USAGE },
      costMicros: null,
      metadata: METADATA,
    },
  ]);
  await settle();
  assert.deepEqual(reasons, ["Stopped by the user"]);
});

Deno.test("a model that ignores the stop does not hold the run", async () => {
  let release = () => {};
  const rig = startRig({
    answers: [async function* () {
      yield [START, text("On and on")];
      await new Promise<void>((resolve) => release = resolve);
    }],
  });
  await settle();
  rig.abort.abort(new HubError("aborted", "Stopped on request"));
  await rig.done;
  assert.deepEqual(rig.events.slice(-3).map((event) => event.type), [
    "step-finish",
    "abort",
    "finish",
  ]);
  release();
  await settle();
});

Deno.test("a stop while tools run: a success still counts, failures and waiting calls are aborted, in 2 s at most", async () => {
  const kind = makeTool("test.kind", async (_input, { signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    return textResult("saved in time");
  });
  const loud = makeTool("test.loud", async (_input, { signal }) => {
    await new Promise((_resolve, reject) =>
      signal.addEventListener("abort", () => reject(new Error("Interrupted, nothing written")))
    );
    return textResult("");
  }, { effect: "pure" });
  const deaf = makeTool("test.deaf", () => new Promise(() => {}));
  const later = makeTool("test.later", () => assert.fail("must not run"), { sequential: true });
  const rig = startRig({
    answers: [asks(["test_kind", {}], ["test_loud", {}], ["test_deaf", {}], ["test_later", {}])],
    tools: [kind, loud, deaf, later],
  });
  await settle();
  assert.deepEqual([...rig.journal.values()].map((row) => row.state), [
    "started",
    "started",
    "started",
    "ready",
  ]);
  rig.abort.abort();
  await rig.clock.advance(1999);
  assert.equal(rig.events.at(-1)?.type, "step-finish");
  await rig.clock.advance(1);
  await rig.done;
  const tail = rig.events.slice(rig.events.findIndex((event) => event.type === "step-finish"));
  const outputs = tail.slice(1, 5) as { toolCallId: string }[];
  assert.deepEqual([...outputs].sort((a, b) => a.toolCallId < b.toolCallId ? -1 : 1), [
    { type: "tool-output-available", toolCallId: "call_1", output: "saved in time" },
    { type: "tool-output-error", toolCallId: "call_2", errorText: "aborted" },
    { type: "tool-output-error", toolCallId: "call_3", errorText: "aborted" },
    { type: "tool-output-error", toolCallId: "call_4", errorText: "aborted" },
  ]);
  assert.deepEqual(tail.slice(5), [
    { type: "abort", reason: "The run was stopped" },
    {
      type: "finish",
      finishReason: "aborted",
      usage: USAGE,
      costMicros: 7,
      metadata: METADATA,
    },
  ]);
  assert.deepEqual([...rig.journal.values()].map((row) => row.state), [
    "succeeded",
    "cancelled",
    "unknown",
    "cancelled",
  ]);
});

Deno.test("a stop in the pause before a retry keeps the text", async () => {
  const rig = startRig({
    answers: [async function* () {
      yield [START, text("Partial")];
      await Promise.resolve();
      throw new HubError("upstream_cut", "Cut");
    }],
  });
  await settle();
  rig.abort.abort("Enough");
  await rig.done;
  assert.deepEqual(rig.events.slice(2).map((event) => event.type), [
    "text-start",
    "text-delta",
    "text-end",
    "step-finish",
    "abort",
    "finish",
  ]);
  assert.equal(rig.clock.pending(), 0);
});

Deno.test("a run that is stopped before it begins calls nothing", async () => {
  const rig = await runRig({ answers: [], run: { signal: AbortSignal.abort("Too late") } });
  assert.deepEqual(rig.events.map((event) => event.type), ["start", "abort", "finish"]);
  assert.deepEqual(rig.requests, []);
});

Deno.test("a stop while the last batch of a whole answer is written comes too late", async () => {
  const rig = await runRig({
    answers: [says("Complete")],
    onBatch(batch, { abort }) {
      if (batch.events.some((event) => event.type === "finish")) abort.abort();
    },
  });
  assert.equal(finishOf(rig).finishReason, "stop");
});

Deno.test("a stop while the calls are written runs none of them", async () => {
  const rig = await runRig({
    answers: [asks(["test_never", {}])],
    tools: [makeTool("test.never", () => assert.fail("must not run"))],
    onBatch(batch, { abort }) {
      if (batch.events.some((event) => event.type === "tool-input-available")) abort.abort();
    },
  });
  assert.deepEqual(rig.states.get("call_1"), ["started", "cancelled"]);
  assert.equal(finishOf(rig).finishReason, "aborted");
});

Deno.test("an abandoned run stops its model and its tools and says nothing more", async () => {
  const seen: string[] = [];
  const rig = startRig({
    answers: [asks(["test_wait", {}])],
    tools: [
      makeTool("test.wait", async (_input, { signal }) => {
        await new Promise<void>((resolve) =>
          signal.addEventListener("abort", () => {
            seen.push("stopped");
            resolve();
          })
        );
        return textResult("");
      }),
    ],
    // `drive` would check a whole log; an abandoned one has none.
    onBatch: (batch) => {
      if (batch.calls !== undefined) throw new HubError("lease_lost", "Not ours any more");
    },
  });
  await assert.rejects(rig.done, { code: "lease_lost" });
  assert.deepEqual(await rig.generator.next(), { done: true, value: undefined });
  assert.deepEqual(seen, []);

  let stopped = false;
  const speaking = startRig({
    answers: [stalls([[text("Hi")]], () => stopped = true)],
    onBatch: (batch) => {
      if (batch.events.some((event) => event.type === "text-delta")) throw new Error("gone");
    },
  });
  await assert.rejects(speaking.done, { message: "gone" });
  await settle();
  assert.equal(stopped, true);
});

Deno.test("an error that comes with the stop is the stop's", async () => {
  const rig = startRig({
    answers: [async function* (_request, { signal }) {
      yield [START, text("Hi")];
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      throw new HubError("upstream_cut", "The connection was closed");
    }],
  });
  await settle();
  rig.abort.abort();
  await rig.done;
  const types = rig.events.map((event: HubEvent) => event.type);
  assert.ok(!types.includes("error"));
  await settle();
});

Deno.test("an answer that is whole but does not close ends with the stop", async () => {
  let release = () => {};
  const rig = startRig({
    answers: [async function* () {
      yield [START, text("Whole"), ...end("stop")];
      await new Promise<void>((resolve) => release = resolve);
    }],
  });
  await settle();
  rig.abort.abort();
  await rig.done;
  assert.equal(finishOf(rig).finishReason, "stop");
  release();
  await settle();
});
