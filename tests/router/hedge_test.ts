import assert from "node:assert/strict";
import fc from "fast-check";
import { HubError } from "../../src/core/error.ts";
import type { Target } from "../../src/providers/target.ts";
import { HedgeBudget } from "../../src/router/hedge_budget.ts";
import { trailOfAnswer } from "../../src/router/attempt_trail.ts";
import { settle } from "../support/fake_clock.ts";
import { createFakeAnswer, createFakeTarget, type FakeAnswer } from "../support/fake_target.ts";
import { property } from "../support/property.ts";
import { chatFrames } from "../support/chat_replies.ts";
import { createRoutingRig, finish, routeOf } from "./routing_rig.ts";

const SSE = { "content-type": "text/event-stream" };
const FRAMES = chatFrames({ text: "one two" });

type Rig = ReturnType<typeof createRoutingRig>;

/** Targets `p/…` whose streams begin after so many milliseconds; null for never, a number below 0 for a 500 then. */
function createStreams(rig: Rig, beginMs: Record<string, number | null>) {
  const answers: { model: string; answer: FakeAnswer }[] = [];
  const timeouts = { connectMs: 1e6, firstTokenMs: 1e6, inactivityMs: 1e6, totalMs: 1e6 };
  const targetOf = (model: string): Target =>
    createFakeTarget(`p/${model}`, async ({ signal }) => {
      const ms = beginMs[model] ?? null;
      if (ms !== null && ms < 0) {
        await wait(-ms, signal);
        return createFakeAnswer({ status: 500, pieces: ["{}"] }).response;
      }
      const answer = createFakeAnswer({ headers: SSE });
      answers.push({ model, answer });
      if (ms !== null) {
        rig.clock.setTimer(() => {
          for (const frame of FRAMES) answer.push(frame);
          answer.end();
        }, ms);
      }
      return answer.response;
    }, { timeouts });
  const wait = (
    ms: number,
    signal: { addEventListener: AbortSignal["addEventListener"] } | unknown,
  ) =>
    new Promise<void>((resolve, reject) => {
      rig.clock.setTimer(resolve, ms);
      (signal as AbortSignal).addEventListener("abort", () => reject(new HubError("aborted", "x")));
    });
  return {
    answers,
    route: (models: string[], hedge: { afterMs?: number; maxPercent?: number }) =>
      routeOf(models.map(targetOf), { hedge }),
  };
}

Deno.test("a late target gets a second one beside it; the first content wins, the other is stopped and accounted", async () => {
  const rig = createRoutingRig();
  const { route, answers } = createStreams(rig, { a: 5000, b: 30 });
  const opened = rig.open(route(["a", "b"], { afterMs: 100, maxPercent: 100 }), { stream: true });
  await rig.clock.advance(129);
  assert.deepEqual(answers.map(({ model }) => model), ["a", "b"]);
  assert.equal(answers[0]?.answer.cancelled, false);
  await rig.clock.advance(1);
  const answer = await opened;
  assert.equal(answer.attempt.target.id, "p/b");
  assert.equal(answers[0]?.answer.cancelled, true);
  assert.equal(trailOfAnswer(answer), "p/a;aborted;200;130, p/b;ok;200;30");
  await finish(answer);
  assert.deepEqual(
    rig.facts.map(({ model, errorCode, attempts }) => [model, errorCode, attempts.length]),
    [
      ["a", "aborted", 1],
      ["b", null, 2],
    ],
  );
  assert.ok(rig.isQuiet());
  assert.equal(rig.health.rests("p/a"), false);
});

Deno.test("a target that begins in time is alone, and one that fails in time gives way as always", async () => {
  const rig = createRoutingRig();
  const { route, answers } = createStreams(rig, { a: 99, b: 10, c: -50 });
  const hedge = { afterMs: 100, maxPercent: 100 };
  const opened = rig.open(route(["a", "b"], hedge), { stream: true });
  await rig.clock.advance(200);
  await finish(await opened);
  const other = rig.open(route(["c", "b"], hedge), { stream: true });
  await rig.clock.advance(200);
  await finish(await other);
  assert.deepEqual(answers.map(({ model }) => model), ["a", "b"]);
  assert.deepEqual(rig.facts.map(({ model, outcome }) => `${model} ${outcome}`), [
    "a ok",
    "c error",
    "b ok",
  ]);
  assert.equal(rig.clock.pending(), 1, "only the deadlines' own timer");
});

Deno.test("when one of two fails the other is waited for; when both do, the next target is asked", async () => {
  const rig = createRoutingRig();
  const { route } = createStreams(rig, { a: 300, b: -20, c: -150, d: 10 });
  const hedge = { afterMs: 100, maxPercent: 100 };
  const first = rig.open(route(["a", "b", "d"], hedge), { stream: true });
  await rig.clock.advance(400);
  assert.equal((await first).attempt.target.id, "p/a");
  await finish(await first);
  const second = rig.open(route(["c", "b", "d"], hedge), { stream: true });
  await rig.clock.advance(400);
  const answer = await second;
  assert.deepEqual(answer.attempts.map(({ target }) => target), ["p/b", "p/c"]);
  assert.equal(answer.attempt.target.id, "p/d");
  await finish(answer);
  assert.ok(rig.isQuiet());
});

Deno.test("without a time of its own, a model asks twice past the 95th percentile of twenty answers", async () => {
  const rig = createRoutingRig();
  const begins: Record<string, number | null> = { a: 50, b: 10 };
  const { route, answers } = createStreams(rig, begins);
  const targets = route(["a", "b"], { maxPercent: 100 });
  for (let turn = 0; turn < 20; turn++) {
    begins["a"] = turn === 19 ? 400 : 50;
    const opened = rig.open(targets, { stream: true });
    await rig.clock.advance(500);
    await finish(await opened);
  }
  assert.deepEqual([...new Set(answers.map(({ model }) => model))], ["a"]);
  begins["a"] = 5000;
  const opened = rig.open(targets, { stream: true });
  await rig.clock.advance(399);
  assert.equal(answers.length, 21);
  await rig.clock.advance(20);
  assert.equal((await opened).attempt.target.id, "p/b");
  await finish(await opened);
});

Deno.test("a client that leaves ends both tries", async () => {
  const rig = createRoutingRig();
  const { route, answers } = createStreams(rig, { a: null, b: null });
  const abort = new AbortController();
  const targets = route(["a", "b"], { afterMs: 100, maxPercent: 100 });
  const opened = rig.open(targets, { stream: true, signal: abort.signal });
  const rejected = assert.rejects(opened, { code: "client_closed" });
  await rig.clock.advance(150);
  abort.abort(new HubError("client_closed", "gone"));
  await rejected;
  await settle();
  assert.deepEqual(answers.map(({ answer }) => answer.cancelled), [true, true]);
  assert.deepEqual(rig.facts.map(({ outcome }) => outcome), ["aborted", "aborted"]);
  assert.ok(rig.isQuiet());
});

Deno.test("no second target is asked that rests, that is full, or that is a fallback", async () => {
  const rig = createRoutingRig({ max: 1 });
  const { route, answers } = createStreams(rig, { a: 300, b: 10 });
  const opened = rig.open(route(["a", "b"], { afterMs: 100, maxPercent: 100 }), { stream: true });
  await rig.clock.advance(400);
  await finish(await opened);
  assert.deepEqual(answers.map(({ model }) => model), ["a"], "one place at the provider");
  const roomy = createRoutingRig();
  const streams = createStreams(roomy, { a: 300, b: 10 });
  roomy.health.rest("p/b", 60_000);
  const alone = roomy.open(streams.route(["a", "b"], { afterMs: 100, maxPercent: 100 }), {
    stream: true,
  });
  await roomy.clock.advance(400);
  await finish(await alone);
  assert.deepEqual(streams.answers.map(({ model }) => model), ["a"]);
});

property(
  "the budget of second tries is never exceeded, at no moment",
  fc.tuple(
    fc.double({ min: 0.005, max: 1, noNaN: true }),
    fc.array(fc.boolean(), { maxLength: 500 }),
  ),
  ([share, wishes]) => {
    const budget = new HedgeBudget(share);
    let spent = 0;
    for (const [index, wish] of wishes.entries()) {
      budget.earn();
      if (wish && budget.spend()) spent++;
      assert.ok(spent <= share * (index + 1) + 1e-6, `${spent} of ${index + 1} at ${share}`);
    }
    // All that was allowed is had by who always asks.
    const eager = new HedgeBudget(share);
    let had = 0;
    for (let turn = 0; turn < 1000; turn++) {
      eager.earn();
      if (eager.spend()) had++;
    }
    assert.ok(had >= Math.floor(share * 1000) - 1);
  },
);

const begin = fc.option(
  fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: -300, max: -1 })),
  { nil: null },
);

property(
  "each try that reached its provider is accounted exactly once, in every race",
  fc.record({
    begins: fc.tuple(begin, begin, begin),
    afterMs: fc.integer({ min: 1, max: 300 }),
    leaveMs: fc.option(fc.integer({ min: 1, max: 400 }), { nil: null }),
  }),
  async ({ begins: [a, b, c], afterMs, leaveMs }) => {
    const rig = createRoutingRig();
    const { route } = createStreams(rig, { a, b, c });
    const abort = new AbortController();
    const left = new HubError("client_closed", "gone");
    if (leaveMs !== null) rig.clock.setTimer(() => abort.abort(left), leaveMs);
    let sent = 0;
    const targets = route(["a", "b", "c"], { afterMs, maxPercent: 100 });
    for (const { endpoints: { chat } } of targets) {
      const { send } = chat;
      chat.send = (request) => {
        sent++;
        return send(request);
      };
    }
    const opened = rig.open(targets, { stream: true, signal: abort.signal })
      .then((answer) => finish(answer)).catch(() => {});
    await rig.clock.advance(1000);
    abort.abort(left);
    await opened;
    await settle();
    assert.equal(rig.facts.length, sent);
    assert.equal(new Set(rig.facts.map(({ model }) => model)).size, sent, "no target twice");
    const last = rig.facts.at(-1);
    assert.equal(last?.attempts.length, sent);
    assert.equal(rig.facts.filter(({ outcome }) => outcome === "ok").length <= 1, true);
    assert.ok(rig.isQuiet());
  },
  { runs: 150 },
);
