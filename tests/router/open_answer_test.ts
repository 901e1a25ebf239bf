import assert from "node:assert/strict";
import { Deadlines } from "../../src/core/deadlines.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import type { Target } from "../../src/providers/target.ts";
import { type Answer, createOpenAnswer } from "../../src/router/open_answer.ts";
import { TargetGates } from "../../src/router/target_gates.ts";
import { TargetHealth } from "../../src/router/target_health.ts";
import type { CallFacts } from "../../src/router/usage_fact.ts";
import { CHAT } from "../../src/wire/openai_chat/chat_wire.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";
import { createFakeAnswer, createFakeTarget } from "../support/fake_target.ts";
import { createTestGate } from "../support/gates.ts";
import { testIds } from "../support/postgres.ts";

const OPEN_MS = 5000;
const FACTS: CallFacts = {
  requestId: "r",
  tenantId: "t",
  keyId: "k",
  kind: "proxy",
  publicModel: "m",
};

/** A router, and the way to ask it for a whole answer. */
function createRouter({ max = 8, ofModels = {} }: {
  max?: number;
  ofModels?: Record<string, number>;
} = {}) {
  const clock = createFakeClock();
  const deadlines = new Deadlines(clock);
  const gateOf = (max: number) => createTestGate(clock, { max, deadlines });
  const providers = new Map(["p", "q"].map((name) => [name, gateOf(max)]));
  const models = new Map(Object.entries(ofModels).map(([id, max]) => [id, gateOf(max)]));
  const openAnswer = createOpenAnswer({
    clock,
    random: () => 0,
    log: SILENT_LOG,
    redact: (text) => text,
    health: new TargetHealth(clock),
    deadlines,
    gates: new TargetGates({ providers, models }),
    nextUsageId: () => testIds.next("usg"),
    recordUsage() {},
  });
  return {
    clock,
    openAnswer,
    /** Fails if a timer, a deadline or a place is left. */
    assertQuiet() {
      for (const gate of [...providers.values(), ...models.values()]) assert.ok(gate.isIdle);
      assert.equal(deadlines.size, 0);
      deadlines.close();
      assert.equal(clock.pending(), 0);
    },
    open: (targets: readonly Target[], signal = new AbortController().signal): Promise<Answer> =>
      openAnswer({
        targets,
        prepare: () => ({ wire: CHAT, body: new Uint8Array(2), hideUsage: false }),
        stream: false,
        signal,
        facts: FACTS,
      }),
  };
}

/** Reads to the end, so that timers stop and the place is free. */
async function finish(answer: Answer): Promise<void> {
  while (await answer.read()) { /* to the end */ }
}

/** Targets `p/…` that answer with these statuses, and a way to ask some of them. */
function setup() {
  const { clock, open } = createRouter();
  const status: Record<string, number> = { a: 200, b: 200 };
  const tried: string[] = [];
  const targetOf = (model: string) =>
    createFakeTarget(`p/${model}`, () => {
      tried.push(model);
      return createFakeAnswer({ status: status[model] ?? 0, pieces: ["{}"] }).response;
    });
  return {
    clock,
    status,
    /** Asks these targets in order; gives the ones that were tried. */
    async ask(...models: string[]): Promise<string> {
      tried.length = 0;
      const answer = await open(models.map(targetOf)).catch(() => null);
      if (answer !== null) await finish(answer);
      return tried.join(" ");
    },
  };
}

/** Lets five failures rest `model`, and its rest go by. */
async function restAndWait({ ask, clock, status }: ReturnType<typeof setup>, model: string) {
  status[model] = 500;
  for (let index = 0; index < 5; index++) await ask(model);
  assert.equal(await ask(model, "c"), "c");
  await clock.advance(OPEN_MS);
}

Deno.test("a rested second target that was not needed can still be probed later", async () => {
  const rig = setup();
  await restAndWait(rig, "b");
  assert.equal(await rig.ask("a", "b"), "a");
  rig.status["a"] = 500;
  rig.status["b"] = 200;
  assert.equal(await rig.ask("a", "b"), "a b");
});

Deno.test("a probe that the provider refuses does not shut its target out", async () => {
  const rig = setup();
  await restAndWait(rig, "a");
  rig.status["a"] = 400;
  assert.equal(await rig.ask("a", "b"), "a");
  rig.status["a"] = 200;
  assert.equal(await rig.ask("a", "b"), "a");
});

Deno.test("when all targets rest, the first is tried all the same", async () => {
  const rig = setup();
  rig.status["a"] = rig.status["b"] = 500;
  for (let index = 0; index < 5; index++) await rig.ask("a", "b");
  assert.equal(await rig.ask("a", "b"), "a");
});

Deno.test("an answer that was asked for and came too late goes to the next target, not to the same", async () => {
  const { clock, open } = createRouter();
  const tried: string[] = [];
  const targetOf = (id: string) =>
    createFakeTarget(id, () => {
      tried.push(id);
      const answer = createFakeAnswer(id === "p/b" ? { pieces: ["{}"] } : {});
      if (id === "p/a") answer.push("{");
      return answer.response;
    }, { maxRetries: 3 });
  const opened = open([targetOf("p/a"), targetOf("p/b")]);
  await clock.advance(1000);
  await finish(await opened);
  assert.deepEqual(tried, ["p/a", "p/b"]);
});

Deno.test("retries on broken targets leave a try for each target behind them", async () => {
  const { clock, open } = createRouter();
  const tried: string[] = [];
  const targetOf = (id: string, status: number, maxRetries: number) =>
    createFakeTarget(id, () => {
      tried.push(id);
      return createFakeAnswer({ status, pieces: ["{}"] }).response;
    }, { maxRetries });
  const bad = ["a", "b", "c", "d"].map((model) => targetOf(`p/${model}`, 500, 2));
  const opened = open([...bad, targetOf("p/good", 200, 2)]);
  await clock.advance(10_000);
  await finish(await opened);
  assert.deepEqual(tried.join(" "), "p/a p/a p/a p/b p/b p/c p/d p/good");
});

/** Targets of two providers with one place each, and answers that stay until they are ended. */
function createBusy() {
  const router = createRouter({ max: 1 });
  const tried: string[] = [];
  const targetOf = (id: string) =>
    createFakeTarget(id, () => {
      tried.push(id);
      return createFakeAnswer({ pieces: ["{}"] }).response;
    }, { timeouts: { connectMs: 1, firstTokenMs: 60_000, inactivityMs: 60_000, totalMs: 60_000 } });
  return { ...router, tried, first: targetOf("p/m"), second: targetOf("q/m") };
}

Deno.test("a full provider is passed over at once; without another one there is a wait", async () => {
  const { open, clock, assertQuiet, tried, first, second } = createBusy();
  const busy = await open([first]);
  const other = await open([first, second]);
  assert.deepEqual(tried, ["p/m", "q/m"]);
  const waiting = open([first, second]);
  await clock.advance(4999);
  assert.equal(tried.length, 2);
  await finish(other);
  await clock.advance(1);
  // The first has not come free in five seconds; the second has meanwhile.
  const third = await waiting;
  assert.deepEqual(tried, ["p/m", "q/m", "q/m"]);
  await finish(third);
  assert.deepEqual(third.attempts.map(({ target, outcome }) => [target, outcome]), [
    ["p/m", "overloaded"],
    ["q/m", "ok"],
  ]);
  await finish(busy);
  assertQuiet();
});

Deno.test("who waits for a full provider is bounded in number and in time, and comes in order", async () => {
  const { open, clock, first, assertQuiet } = createBusy();
  const overloaded = { code: "overloaded", status: 503 };
  let busy = await open([first]);
  const late = Promise.all([1, 2].map(() => assert.rejects(open([first]), overloaded)));
  await assert.rejects(open([first]), overloaded);
  await clock.advance(5000);
  await late;
  const order: number[] = [];
  const queued = [1, 2].map(async (place) => {
    const answer = await open([first]);
    order.push(place);
    await finish(answer);
  });
  await assert.rejects(open([first]), overloaded);
  await finish(busy);
  await Promise.all(queued);
  assert.deepEqual(order, [1, 2]);
  busy = await open([first]);
  const abort = new AbortController();
  const leaving = assert.rejects(open([first], abort.signal), /gone/);
  abort.abort(new Error("gone"));
  await leaving;
  await finish(busy);
  assertQuiet();
});

Deno.test("a model with a limit of its own takes a place there and at its provider", async () => {
  const { open, clock, assertQuiet } = createRouter({ max: 2, ofModels: { "p/small": 1 } });
  const tried: string[] = [];
  const targetOf = (model: string) =>
    createFakeTarget(`p/${model}`, () => {
      tried.push(model);
      return createFakeAnswer({ pieces: ["{}"] }).response;
    });
  const [small, large] = [targetOf("small"), targetOf("large")];
  const first = await open([small]);
  // Full as a model, while its provider has room.
  const other = await open([small, large]);
  assert.deepEqual(tried, ["small", "large"]);
  const waiting = open([small]);
  await settle();
  await finish(first);
  await finish(await waiting);
  const again = await open([large]);
  // Now the provider is full, and the place at the model is not kept for whoever waits in vain.
  const late = assert.rejects(open([small]), { code: "overloaded" });
  await clock.advance(5000);
  await late;
  await finish(again);
  await finish(await open([small]));
  await finish(other);
  assertQuiet();
});

Deno.test("who leaves while waiting for a provider never calls it, whatever else it waits for", async () => {
  const { open, assertQuiet } = createRouter({ max: 1, ofModels: { "p/m": 1 } });
  let calls = 0;
  const target = createFakeTarget("p/m", () => {
    calls++;
    return createFakeAnswer({ pieces: ["{}"] }).response;
  });
  const busy = await open([target]);
  const leaving = [1, 2].map(() => new AbortController());
  const rejected = leaving.map(({ signal }) => assert.rejects(open([target], signal), /gone/));
  await settle();
  for (const abort of leaving) abort.abort(new Error("gone"));
  await Promise.all(rejected);
  await finish(busy);
  await settle();
  assert.equal(calls, 1);
  assertQuiet();
});

Deno.test("a body that cannot be made gives the place back", async () => {
  const { openAnswer, assertQuiet } = createRouter({ max: 1 });
  const target = createFakeTarget("p/m", () => createFakeAnswer({ pieces: ["{}"] }).response);
  const failing = openAnswer({
    targets: [target],
    prepare() {
      throw new Error("no body");
    },
    stream: false,
    signal: new AbortController().signal,
    facts: FACTS,
  });
  await assert.rejects(failing, /no body/);
  assertQuiet();
});
