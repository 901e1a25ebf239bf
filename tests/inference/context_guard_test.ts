import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import type { ModelToolResult } from "../../src/core/model.ts";
import { resultsToDrop } from "../../src/inference/results_to_drop.ts";
import { NO_ROOM } from "../../src/inference/tool_result_text.ts";
import {
  dataOf,
  endlessly,
  filler,
  findTokenizer,
  measure,
  TOKENIZERS,
  tooLong,
  watched,
  windowFor,
  worker,
} from "./context_rig.ts";
import { asks, finishOf, makeTool, type Rig, runRig, says, textResult } from "./loop_rig.ts";

const NO_COMPACTION = { compaction: false, maxSteps: 50 };

const lastResult = (rig: Rig) => {
  const message = rig.requests.at(-1)?.messages.findLast(({ role }) => role === "tool");
  return message?.role === "tool" ? message.results.at(-1)?.text : undefined;
};

for (const tokenizer of TOKENIZERS) {
  Deno.test(`${tokenizer}: a request at the limit is sent, one token more ends the run with a conclusion`, async () => {
    const tools = [filler(2000)];
    const run = (limit: number) => {
      const window = watched(windowFor(limit, 500, tokenizer));
      const answers = [asks(["a_fill", { n: 1 }]), worker({ steps: 1 })];
      return runRig({ answers, tools, settings: NO_COMPACTION, run: window });
    };
    const free = await run(1e9);
    const [first, second] = free.requests;
    assert.ok(first && second);
    const size = await measure(second, findTokenizer(tokenizer));
    assert.ok(size > await measure(first, findTokenizer(tokenizer)) + 300);
    for (const more of [1, 0]) {
      const rig = await run(size + more);
      assert.equal(finishOf(rig).finishReason, "stop");
      assert.deepEqual(rig.requests, free.requests);
      assert.deepEqual(dataOf(rig.events, "context-guard"), []);
      const { projection } = rig.contexts.at(-1) ?? {};
      const limits = { limitTokens: size + more, remainingTokens: more };
      assert.deepEqual(projection, { projectedTokens: size, ...limits });
    }
    const over = await run(size - 1);
    assert.equal(finishOf(over).finishReason, "token-limit");
    assert.equal(over.requests.at(-1)?.toolChoice, "none");
    assert.deepEqual(over.requests.at(-1)?.tools, second.tools);
    const [fact] = dataOf(over.events, "context-guard");
    assert.equal(fact?.["outcome"], "concluded");
    assert.equal(fact?.["limitTokens"], size - 1);
    assert.deepEqual([fact?.["projectedTokens"], fact?.["remainingTokens"]], [size, -1]);
  });

  Deno.test(`${tokenizer}: calls run as long as there is room at all for what comes of them`, async () => {
    const tools = [filler(5)];
    const run = (limit: number) => {
      const answers = [asks(["a_fill", { n: 1, why: "because ".repeat(200) }]), says("Done")];
      const window = watched(windowFor(limit, 500, tokenizer));
      return runRig({ answers, tools, settings: NO_COMPACTION, run: window });
    };
    const free = await run(1e9);
    // Before it runs, a call has the text of a result that is not there.
    const asked = structuredClone(free.requests[1]);
    const results = asked?.messages.at(-1);
    assert.ok(asked && results?.role === "tool" && results.results[0]);
    results.results[0].text = "result unavailable; do not assume it ran";
    const size = await measure(asked, findTokenizer(tokenizer));
    for (const more of [1, 0]) {
      const rig = await run(size + more);
      assert.notEqual(lastResult(rig), NO_ROOM);
      assert.equal([...rig.journal.values()][0]?.state, "succeeded");
    }
    const over = await run(size - 1);
    assert.equal(lastResult(over), NO_ROOM);
    assert.deepEqual([...over.states.values()], [["failed"]]);
    assert.equal(finishOf(over).finishReason, "token-limit");
    const [fact] = dataOf(over.events, "context-guard");
    assert.deepEqual([fact?.["trigger"], fact?.["outcome"]], ["tool", "refused"]);
  });
}

Deno.test("results that do not fit into the buffer are replaced, the newest first; the log keeps them", async () => {
  const tools = [filler(4000)];
  const answers = [asks(["a_fill", { n: 1 }], ["a_fill", { n: 2 }]), says("Done")];
  const window = watched(windowFor(400, 1100));
  const rig = await runRig({ answers, tools, settings: NO_COMPACTION, run: window });
  assert.equal(finishOf(rig).finishReason, "token-limit");
  const results = rig.requests[1]?.messages.find(({ role }) => role === "tool");
  assert.ok(results?.role === "tool");
  assert.match(results.results[0]?.text ?? "", /^1: word/);
  assert.equal(results.results[1]?.text, NO_ROOM);
  assert.equal(rig.events.filter(({ type }) => type === "tool-output-available").length, 2);
  const [fact] = dataOf(rig.events, "context-guard");
  assert.deepEqual(fact?.["dropped"], ["call_2"]);
  const last = rig.requests[1];
  assert.ok(last && await measure(last) <= 1500);
});

Deno.test("StepRequests: event, gauge and accounting tell the request as it was found, before results were dropped", async () => {
  const tools = [filler(4000)];
  const answers = [asks(["a_fill", { n: 1 }], ["a_fill", { n: 2 }]), says("Done")];
  const free = await runRig({
    answers,
    tools,
    settings: NO_COMPACTION,
    run: watched(windowFor(1e9)),
  });
  const whole = free.requests[1];
  assert.ok(whole);
  const found = await measure(whole);
  const window = watched(windowFor(400, 1100));
  const rig = await runRig({ answers, tools, settings: NO_COMPACTION, run: window });
  const last = rig.requests[1];
  assert.ok(last);
  const sentTokens = await measure(last);
  const told = {
    projectedTokens: found,
    limitTokens: 400,
    remainingTokens: 400 - found,
    sentTokens,
  };
  const [fact] = dataOf(rig.events, "context-guard");
  const { trigger: _, outcome: __, dropped: ___, ...numbers } = fact ?? {};
  assert.deepEqual(numbers, told);
  assert.deepEqual(rig.contexts[1]?.projection, told);
  assert.equal(window.facts.at(-1)?.remainingTokens, 400 - found);
});

Deno.test("StepRequests: the largest result is dropped first, the small ones of the step stay", async () => {
  const tools = [filler(4000), makeTool("a.small", () => textResult("small"))];
  for (const order of [["a_small", "a_fill", "a_small"], ["a_fill", "a_small", "a_small"]]) {
    const asked = order.map((name, n): [string, JsonObject] => [name, { n }]);
    const answers = [asks(...asked), says("Done")];
    const window = watched(windowFor(300, 500));
    const rig = await runRig({ answers, tools, settings: NO_COMPACTION, run: window });
    const [fact] = dataOf(rig.events, "context-guard");
    assert.deepEqual(fact?.["dropped"], [`call_${order.indexOf("a_fill") + 1}`]);
    const results = rig.requests[1]?.messages.find(({ role }) => role === "tool");
    const texts = results?.role === "tool" ? results.results.map(({ text }) => text) : [];
    assert.deepEqual(
      texts,
      order.map((name) => name === "a_fill" ? NO_ROOM : "small"),
    );
  }
});

Deno.test("resultsToDrop: repeated texts first, then the largest, then the newest; nothing that saves nothing", async () => {
  const tokenizer = findTokenizer("heuristic");
  const result = (toolCallId: string, text: string, images = 0): ModelToolResult => ({
    toolCallId,
    toolName: "t",
    text,
    images: Array.from({ length: images }, () => ({ url: "data:,", mediaType: "image/png" })),
    isError: false,
  });
  const words = (count: number) => "word ".repeat(count);
  const results = [
    result("newest", words(300)),
    result("repeats", words(200)),
    result("tiny", "ok"),
    result("pictured", "", 3),
    result("largest", words(5000)),
    result("repeated", words(200)),
    result("equal", `${words(299)}WORD `),
  ];
  const drop = (tokens: number) => resultsToDrop(results, { tokens, tokenizer });
  assert.deepEqual(await drop(1), ["repeats"]);
  assert.deepEqual(await drop(1000), ["repeats", "largest"]);
  assert.deepEqual(await drop(1e9), [
    "repeats",
    "largest",
    "pictured",
    "newest",
    "equal",
    "repeated",
  ]);
});

Deno.test("what fits not even without results ends with context_overflow", async () => {
  const window = watched(windowFor(5, 5));
  const rig = await runRig({ answers: [says("never")], run: window });
  const error = rig.events.find(({ type }) => type === "error");
  assert.equal(error?.type === "error" && error.code, "context_overflow");
  assert.equal(rig.requests.length, 0);
  assert.deepEqual(window.facts.at(-1)?.event, { trigger: "request", outcome: "overflow" });
});

Deno.test("without a window nothing is guarded, and a refusal is the provider's own error", async () => {
  const rig = await runRig({ answers: [tooLong] });
  const error = rig.events.find(({ type }) => type === "error");
  assert.equal(error?.type === "error" && error.code, "context_length_exceeded");
});

Deno.test("without compaction a run concludes in its window, whatever its tools give", async () => {
  const tools = [filler(3000)];
  const window = watched(windowFor(5000, 1500));
  const answers = endlessly(worker({ steps: 1000 }));
  const rig = await runRig({
    answers,
    tools,
    settings: { compaction: false, maxSteps: 1000 },
    run: window,
  });
  assert.equal(finishOf(rig).finishReason, "token-limit");
  for (const request of rig.requests) assert.ok(await measure(request) <= 6500);
  const remaining = window.facts.map(({ remainingTokens }) => remainingTokens);
  assert.ok(remaining.length > 5 && (remaining.at(-1) ?? 0) < 0, `${remaining}`);
});
