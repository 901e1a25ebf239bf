import assert from "node:assert/strict";
import { compactionsOf, SUMMARY_HEAD } from "../../src/inference/conversation.ts";
import { NO_SUMMARY } from "../../src/inference/compact.ts";
import type { HubEvent } from "../../src/core/event.ts";
import type { ModelRequest } from "../../src/core/model.ts";
import {
  dataOf,
  endlessly,
  filler,
  findTokenizer,
  GO,
  isSummary,
  measure,
  messageOf,
  TOKENIZERS,
  tooLong,
  watched,
  windowFor,
  wordsOf,
  worker,
} from "./context_rig.ts";
import { type Answer, answer, asks, end, finishOf, type Rig, runRig, says } from "./loop_rig.ts";

const LIMIT = 6000;
const settings = { maxSteps: 1000 };
const tools = [filler(3000)];
const history = [GO];

const work = (
  steps: number,
  more: { limit?: number; summary?: Answer; tokenizer?: string } = {},
) =>
  runRig({
    answers: endlessly(worker({ steps, ...(more.summary && { summary: more.summary }) })),
    tools,
    settings,
    history,
    run: watched(windowFor(more.limit ?? LIMIT, 500, more.tokenizer)),
  });

/** The requests of steps, without those for summaries. */
const stepsOf = (rig: Rig) => rig.requests.filter((request) => !isSummary(request));

/** True when a request goes on where the one before it ended, to the byte. */
function goesOn(before: ModelRequest, after: ModelRequest): boolean {
  assert.deepEqual(after.tools, before.tools);
  const [a, b] = [before, after].map(({ messages }) => messages.map((m) => JSON.stringify(m)));
  return (a ?? []).every((message, index) => b?.[index] === message);
}

Deno.test("old results become pointers, the newest stay, and the next requests begin with the same bytes", async () => {
  const rig = await work(12);
  assert.equal(finishOf(rig).finishReason, "stop");
  const [first] = compactionsOf(messageOf(rig.events));
  assert.ok(first && first.summary === undefined, "pointers were enough");
  assert.ok(first.pruned.length > 0 && first.afterTokens < first.beforeTokens * 0.8);
  assert.ok(first.beforeTokens > LIMIT && first.afterTokens <= LIMIT);
  const steps = stepsOf(rig);
  const at = steps.findIndex((one) => JSON.stringify(one).includes("left out to save room"));
  const shorter = steps[at];
  assert.ok(shorter);
  const results = shorter.messages.flatMap((m) => m.role === "tool" ? m.results : []);
  for (const { toolCallId, text } of results) {
    const isOld = first.pruned.includes(toolCallId);
    assert.equal(text.includes(`hub.read_result: ref "${toolCallId}"`), isOld);
    assert.equal(/^\d: word word/.test(text), !isOld);
  }
  assert.equal(results.at(-1)?.text.startsWith(`${at - 1}: word`), true);
  const breaks = steps.slice(1).filter((request, index) =>
    !goesOn(steps[index] ?? request, request)
  );
  assert.equal(breaks.length, compactionsOf(messageOf(rig.events)).length);
});

for (const tokenizer of TOKENIZERS) {
  Deno.test(`${tokenizer}: one token decides whether a conversation is made shorter`, async () => {
    const free = await work(4, { limit: 1e9, tokenizer });
    const last = free.requests.at(-1);
    assert.ok(last);
    const size = await measure(last, findTokenizer(tokenizer));
    for (const [limit, times] of [[size + 1, 0], [size, 0], [size - 1, 1]] as const) {
      const rig = await work(4, { limit, tokenizer });
      const made = compactionsOf(messageOf(rig.events));
      assert.equal(made.length, times, `${limit - size}`);
      if (times === 0) {
        assert.deepEqual(rig.requests, free.requests);
        continue;
      }
      assert.deepEqual([made[0]?.beforeTokens, made[0]?.limitTokens], [size, limit]);
      const sent = rig.requests.at(-1);
      assert.ok(sent && made[0]);
      assert.ok(await measure(sent, findTokenizer(tokenizer)) <= limit);
      assert.ok(made[0].afterTokens <= limit);
    }
  });
}

Deno.test("a summary stands for the old steps; the user's words and whole steps stay", async () => {
  const words = "x".repeat(300);
  const rig = await runRig({
    answers: endlessly((request, context) => {
      if (isSummary(request)) return says("SUMMARY")(request, context);
      const step = context.step ?? 0;
      return (step < 40 ? asks(["a_fill", { n: step, words }]) : says("Done"))(request, context);
    }),
    tools: [filler(100)],
    settings,
    history,
    run: watched(windowFor(3000)),
  });
  const done = compactionsOf(messageOf(rig.events)).filter(({ summary }) => summary !== undefined);
  assert.ok(done.length >= 1);
  const asked = rig.requests.filter(isSummary);
  assert.equal(asked.length, done.length);
  for (const request of asked) {
    assert.equal(request.toolChoice, "none");
    assert.deepEqual(request.tools, rig.requests[0]?.tools);
    assert.ok(await measure(request) <= 3500);
  }
  for (const request of stepsOf(rig)) {
    assert.ok(await measure(request) <= 3000);
    if (!wordsOf(request.messages[1]).startsWith(SUMMARY_HEAD)) continue;
    assert.equal(wordsOf(request.messages[1]), `${SUMMARY_HEAD}\n\nSUMMARY`);
    assert.equal(wordsOf(request.messages[2]), "Go on until I say stop");
    assert.equal(request.messages[3]?.role, "assistant");
  }
  // Each model call is in the run's usage and cost, those for summaries too.
  const { usage, costMicros } = finishOf(rig);
  assert.equal(usage.promptTokens, 10 * rig.requests.length);
  assert.equal(costMicros, 7 * rig.requests.length);
});

const broken: Answer = async function* () {
  await Promise.resolve();
  yield [];
  throw new Error("no summary today");
};

Deno.test("a summary that fails ends nothing: what is old is left out with a remark", async () => {
  const refused = answer([{ type: "text-delta", delta: "I cannot.", refusal: true }], end("stop"));
  for (const summary of [broken, says("  "), tooLong, refused]) {
    const rig = await runRig({
      answers: endlessly((request, context) =>
        isSummary(request)
          ? summary(request, context)
          : (context.step ?? 0) < 30
          ? asks(["a_fill", { n: context.step ?? 0, words: "x".repeat(300) }])(request, context)
          : says("Done")(request, context)
      ),
      tools: [filler(100)],
      settings,
      history,
      run: watched(windowFor(3000)),
    });
    assert.equal(finishOf(rig).finishReason, "stop");
    assert.ok(JSON.stringify(rig.requests.at(-1)).includes(NO_SUMMARY));
  }
});

Deno.test("a summary that the run's budget has no room for is not asked for", async () => {
  for (const [tokens, isAsked] of [[2000, false], [1_000_000, true]] as const) {
    const rig = await runRig({
      answers: endlessly((request, context) =>
        isSummary(request)
          ? says("SUMMARY")(request, context)
          : (context.step ?? 0) < 30
          ? asks(["a_fill", { n: context.step ?? 0, words: "x".repeat(300) }])(request, context)
          : says("Done")(request, context)
      ),
      tools: [filler(100)],
      settings,
      history,
      run: { ...watched(windowFor(3000)), budget: { tokens } },
    });
    assert.equal(finishOf(rig).finishReason, "stop");
    assert.equal(rig.requests.some(isSummary), isAsked);
    assert.equal(JSON.stringify(rig.requests.at(-1)).includes(NO_SUMMARY), !isAsked);
  }
});

/** Refuses the requests of these numbers, counted from 0. */
const refusing = (refused: number[], answer: Answer): Answer[] =>
  endlessly(answer).map((one, index) => refused.includes(index) ? tooLong : one);

Deno.test("a provider's refusal makes the conversation shorter, once", async () => {
  const run = (refused: number[], run = watched(windowFor(1e6))) =>
    runRig({ answers: refusing(refused, worker({ steps: 5 })), tools, settings, history, run });
  const rig = await run([4]);
  assert.equal(finishOf(rig).finishReason, "stop");
  const [done] = compactionsOf(messageOf(rig.events));
  assert.equal(done?.trigger, "provider");
  const again = rig.requests[5];
  assert.ok(done && again && await measure(again) < done.beforeTokens / 2);
  const twice = await run([4, 5]);
  const error = twice.events.find(({ type }) => type === "error");
  assert.ok(error?.type === "error");
  assert.deepEqual([error.code, error.retryable], ["context_overflow", false]);
  const nothing = await run([0]);
  const early = nothing.events.find(({ type }) => type === "error");
  assert.equal(early?.type === "error" && early.code, "context_overflow");
});

Deno.test("two compactions in a row that free little are the last: the run concludes", async () => {
  const history = [{ ...GO, parts: [{ ...GO.parts[0], text: "I say this. ".repeat(1700) }] }];
  const rig = await runRig({
    answers: endlessly((request, context) =>
      isSummary(request) ? says("S")(request, context) : worker({ steps: 1000 })(request, context)
    ),
    tools: [filler(1000)],
    settings,
    history: history as typeof history & [typeof GO],
    run: watched(windowFor(LIMIT)),
  });
  assert.equal(finishOf(rig).finishReason, "token-limit");
  const shares = compactionsOf(messageOf(rig.events)).map(({ beforeTokens, afterTokens }) =>
    (beforeTokens - afterTokens) / beforeTokens
  );
  assert.ok(shares.length >= 2 && shares.slice(-2).every((share) => share < 0.2), `${shares}`);
  assert.equal(dataOf(rig.events, "context-guard").at(-1)?.["outcome"], "concluded");
});

Deno.test("the next run of a session reads what the last one read, to the byte", async () => {
  const first = await work(40);
  assert.ok(compactionsOf(messageOf(first.events)).length > 1);
  const last = stepsOf(first).at(-1);
  assert.ok(last);
  // What comes back from Postgres is JSON.
  const stored = JSON.parse(JSON.stringify(messageOf(first.events)));
  const next = { ...GO, id: "msg_2", parts: GO.parts };
  const rig = await runRig({
    answers: [says("Again")],
    tools,
    settings,
    history: [GO, stored, next],
    run: { ...watched(windowFor(1e6)), messageId: "msg_3" },
  });
  const [request] = rig.requests;
  assert.ok(request && goesOn(last, request));
  assert.equal(request.messages.length, last.messages.length + 2);
});

Deno.test("300 steps: requests stay within the window, and begin alike between compactions", async () => {
  const rig = await work(300);
  assert.equal(finishOf(rig).finishReason, "stop");
  const steps = stepsOf(rig);
  assert.equal(steps.length, 301);
  const compactions = compactionsOf(messageOf(rig.events));
  let breaks = 0;
  let largest = 0;
  for (const [index, request] of steps.entries()) {
    const before = steps[index - 1];
    if (before !== undefined && !goesOn(before, request)) breaks++;
    largest = Math.max(largest, JSON.stringify(request.messages).length);
    assert.ok(await measure(request) <= LIMIT);
  }
  assert.equal(breaks, compactions.length, "nothing but a compaction changes what was sent before");
  assert.ok(breaks < 80, `${breaks} compactions`);
  assert.ok(largest < 40_000, `${largest} characters`);
  const durable: HubEvent[] = rig.events;
  const sizes = compactions.map((one) => JSON.stringify(one).length);
  assert.ok(Math.max(...sizes) < 20_000, "what is noted does not grow with the run");
  assert.ok(durable.length > 1500);
});
