import assert from "node:assert/strict";
import { MAX_CALLS_PER_ANSWER, MAX_READ_CALLS } from "../../src/core/limits.ts";
import type { Tokenizer } from "../../src/core/tokenizer.ts";
import { windowFor } from "./context_rig.ts";
import { answer, asks, call, end, makeTool, says, startRig, textResult } from "./loop_rig.ts";

const many = (calls: number) =>
  asks(...Array.from({ length: calls }, (_, n) => ["a_fill", { n }] as [string, { n: number }]));
const fill = (characters: number) =>
  makeTool("a.fill", ({ n }) => textResult(`${n}: ${"word ".repeat(characters / 5)}`), {
    effect: "pure",
  });

Deno.test("calls past maxCallsPerAnswer are answered as refused, which the model reads", async () => {
  for (const most of [undefined, 3]) {
    const rig = startRig({
      answers: [many(4000), says("Done")],
      tools: [fill(10)],
      settings: most === undefined ? {} : { maxCallsPerAnswer: most },
    });
    await rig.done;
    const taken = most ?? MAX_CALLS_PER_ANSWER;
    const states = [...rig.journal.values()];
    assert.equal(states.length, 4000);
    assert.equal(states.filter(({ state }) => state === "succeeded").length, taken);
    const results = rig.requests[1]?.messages.flatMap((message) =>
      message.role === "tool" ? message.results : []
    ) ?? [];
    assert.equal(results.length, 4000);
    assert.equal(results[taken - 1]?.isError, false);
    assert.equal(results[taken]?.isError, true);
    assert.match(
      results[3999]?.text ?? "",
      new RegExp(`makes 4000 calls, and the first ${taken} of an answer are taken`),
    );
  }
});

Deno.test("an answer with more calls than are read at all is malformed", async () => {
  const reads = Array.from({ length: MAX_READ_CALLS + 1 }, (_, n) => call(n, "a_fill", {}));
  const rig = startRig({
    answers: new Array(3).fill(answer(reads.flat(), end("tool-calls"))),
    tools: [fill(10)],
  });
  await Promise.all([rig.clock.advance(10_000), rig.done]);
  const error = rig.events.find((event) => event.type === "error");
  assert.equal(error?.code, "upstream_malformed");
  assert.equal(rig.journal.size, 0);
});

Deno.test("arguments longer than are taken are refused without being read", async () => {
  let parsed = 0;
  const rig = startRig({
    answers: [asks(["a_fill", `{"n":"${"x".repeat(1024 * 1024)}"}`]), says("Done")],
    tools: [fill(10)],
    run: {
      parseArguments() {
        parsed++;
        return { ok: true, input: {}, repairs: [] };
      },
    },
  });
  await rig.done;
  assert.equal(parsed, 0);
  const [refused] = [...rig.journal.values()];
  assert.equal(refused?.state, "failed");
  assert.match(refused?.errorText ?? "", /have 1048584 characters, .* at most 1048576/);
});

Deno.test("no more is kept of arguments than may be taken", async () => {
  const megabyte = `{"n":"${"x".repeat(1_000_000)}"}`;
  const rig = startRig({
    answers: [
      asks(["a_fill", `{"n":"${"x".repeat(7_000_000)}"}`], ["a_fill", "{}"]),
      asks(["a_fill", megabyte], ["a_fill", megabyte], ["a_fill", megabyte], ["a_fill", "{}"]),
      says("Done"),
    ],
    tools: [fill(10)],
    run: { parseArguments: () => ({ ok: true, input: {}, repairs: [] }) },
  });
  await rig.done;
  const calls = [...rig.journal.values()];
  assert.deepEqual(
    calls.map(({ state, inputText }) => [state, inputText.length]),
    [
      ["failed", 1024 * 1024],
      ["succeeded", 2],
      ["failed", 2 * 1024 * 1024 - 2 * megabyte.length],
      ["failed", 0],
      ["succeeded", megabyte.length],
      ["succeeded", megabyte.length],
    ],
  );
  assert.match(calls[0]?.errorText ?? "", /7000008 characters, those of a call may have at most/);
  assert.match(
    calls[2]?.errorText ?? "",
    /those of all calls of an answer may have at most 2097152/,
  );
  const written = rig.events.reduce(
    (sum, event) => sum + (event.type === "tool-input-delta" ? event.inputTextDelta.length : 0),
    0,
  );
  assert.equal(written, 3 * 1024 * 1024 + 2);
});

Deno.test("results without room are counted once each, however many there are", async () => {
  const window = windowFor(60_000);
  let counted = 0;
  const tokenizer: Tokenizer = {
    name: window.tokenizer.name,
    estimate(text) {
      counted += text.length;
      return window.tokenizer.estimate(text);
    },
    count(text) {
      counted += text.length;
      return window.tokenizer.count(text);
    },
  };
  const rig = startRig({
    answers: [many(900), says("Done")],
    tools: [fill(500)],
    settings: { maxCallsPerAnswer: 1024, compaction: false },
    run: { window: () => ({ ...window, tokenizer }) },
  });
  await rig.done;
  const results =
    rig.requests[1]?.messages.flatMap((message) =>
      message.role === "tool" ? message.results : []
    ) ?? [];
  assert.equal(results.length, 900);
  const dropped = results.filter(({ text }) => text.includes("context window budget exceeded"));
  assert.ok(dropped.length > 200, `${dropped.length} results were dropped`);
  assert.ok(counted < 20 * 900 * 500, `${counted} characters were counted`);
});
