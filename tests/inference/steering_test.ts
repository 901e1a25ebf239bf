import assert from "node:assert/strict";
import fc from "fast-check";
import { checkLog } from "../../src/core/check_log.ts";
import { HubError } from "../../src/core/error.ts";
import type { ModelRequest } from "../../src/core/model.ts";
import type { SteeringKind } from "../../src/core/steering.ts";
import { CONCLUDE } from "../../src/inference/model_request.ts";
import { createWireNames } from "../../src/operations/wire_names.ts";
import type { SteeringInbox } from "../../src/run/steering_inbox.ts";
import { property } from "../support/property.ts";
import { type Answer, asks, makeTool, says, START, textResult } from "./loop_rig.ts";
import { driveOwner, FakeStore, readLater, readThen } from "./steering_rig.ts";

const MAX_STEPS = 3;

/** What happens at each place of the run, in the order in which it comes to them. */
const action = fc.oneof(
  { weight: 12, arbitrary: fc.constant({ kind: "nothing" as const }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("say" as const),
      as: fc.constantFrom<SteeringKind>("steer", "queue"),
      isHinted: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "kill" as const }) },
);
const script = fc.record({
  answers: fc.array(fc.constantFrom("words", "words", "calls", "calls", "failure"), {
    maxLength: 12,
  }),
  actions: fc.array(action, { maxLength: 60 }),
  stopAt: fc.option(fc.nat(40), { freq: 2 }),
  leaveAt: fc.option(fc.nat(40), { freq: 2 }),
});
type Script = typeof script extends fc.Arbitrary<infer T> ? T : never;

async function play({ answers, actions, stopAt, leaveAt }: Script) {
  const store = new FakeStore();
  const abort = new AbortController();
  let inbox: SteeringInbox | null = null;
  let place = 0;
  let refused = 0;
  let calls = 0;
  let minted = 0;
  let owners = 0;
  let isKilled = false;
  let mustLeave = false;
  const requests: ModelRequest[] = [];
  const pass = () => {
    if (stopAt === place) abort.abort("Stopped by the test");
    if (leaveAt === place) mustLeave = true;
    const now = actions[place++];
    if (now?.kind === "kill") isKilled = true;
    if (now?.kind !== "say") return;
    if (!store.say(now.as)) refused++;
    else if (now.isHinted) inbox?.tell(store.said.length);
  };
  const answerOf = (kind: string): Answer =>
    async function* (request, context) {
      yield [START];
      pass();
      if (kind === "failure") throw new HubError("upstream_rejected", "No");
      const rest = kind === "words" ? says("Words") : asks(["t.one", { n: calls }], ["t.two", {}]);
      for await (const read of rest(request, context)) {
        pass();
        if (read !== undefined) yield read.filter(({ type }) => type !== "response-start");
      }
    };
  const script = Array.from({ length: 40 }, (): Answer => (request, context) => {
    requests.push(request);
    return answerOf(answers[calls++] ?? "words")(request, context);
  });
  const tools = ["t.one", "t.two"].map((name) =>
    makeTool(name, () => {
      pass();
      return textResult("done");
    }, { effect: "pure", polling: true })
  );
  while (!store.isOver) {
    assert.ok(++owners < 70, "the run ends");
    isKilled = false;
    mustLeave = false;
    await driveOwner(store, {
      answers: script,
      tools,
      settings: { maxSteps: MAX_STEPS },
      abort,
      onInbox: (made) => inbox = made,
      kills() {
        pass();
        return isKilled;
      },
      run: {
        mustLeave: () => mustLeave,
        ids: { next: (prefix) => `${prefix}_${++minted}` },
      },
    });
  }
  return { store, requests, refused };
}

property(
  "whatever is said when: each text is read once and in order, or reported as undelivered",
  script,
  async (given) => {
    const { store, requests } = await play(given);
    assert.deepEqual(checkLog(store.log), []);
    const finish = store.events.at(-1);
    const isWhole = finish?.type === "finish" &&
      !["error", "aborted"].includes(finish.finishReason);
    for (const kind of ["steer", "queue"]) {
      const said = store.said.filter((text) => text.kind === kind);
      const names = JSON.stringify(said.map(({ steeringId }) => steeringId));
      const logged = store.events.flatMap((event) =>
        event.type === "data" && event.id !== undefined &&
          JSON.stringify(event.data).includes(`"${kind}"`)
          ? [event.id]
          : []
      );
      assert.equal(JSON.stringify(logged), names, "all, once, in order");
      for (const { state } of said) {
        if (isWhole) assert.equal(state, "applied");
        else assert.notEqual(state, "pending");
      }
    }
    const turns = 1 + store.said.length;
    const steps = store.events.filter(({ type }) => type === "step-start").length;
    assert.ok(steps <= turns * MAX_STEPS, "every turn keeps to its steps");
    if (!isWhole) return;
    // What was said is read by the run, and by later ones, at the same place.
    const { toWire } = createWireNames(["t.one", "t.two"]);
    const last = requests.at(-1);
    assert.ok(last !== undefined);
    const then = readThen(last);
    const later = readLater(store, toWire).slice(0, then.length);
    assert.equal(JSON.stringify(later), JSON.stringify(then));
    for (const { text } of store.said) {
      const read = then.filter((message) =>
        message.role === "user" && JSON.stringify(message.content) ===
          JSON.stringify([{ type: "text", text }])
      );
      assert.equal(read.length, 1, `${text} is read once`);
    }
  },
  { runs: 500 },
);

/** A run whose model gives these answers; `at` says something before the answer of that number. */
async function run(
  answers: Answer[],
  at: Record<number, SteeringKind[]>,
  options: { maxSteps?: number; stopAt?: number } = {},
) {
  const store = new FakeStore();
  const abort = new AbortController();
  const requests = await driveOwner(store, {
    answers: answers.map((answer, index): Answer => (request, context) => {
      for (const kind of at[index] ?? []) store.say(kind);
      if (options.stopAt === index) abort.abort("stopped by the user");
      return answer(request, context);
    }),
    tools: [makeTool("t.one", () => textResult("done"), { polling: true })],
    settings: { maxSteps: options.maxSteps ?? 10 },
    abort,
    kills: () => false,
  });
  assert.deepEqual(checkLog(store.log), []);
  const words = requests.map(({ messages }) =>
    messages.flatMap((message) =>
      message.role === "user"
        ? message.content.flatMap((piece) => piece.type === "text" ? [piece.text] : [])
        : []
    )
  );
  return { store, words };
}

Deno.test("steers are read at the next step, a queued text when the run would have finished", async () => {
  const { store, words } = await run(
    [asks(["t.one", {}]), asks(["t.one", {}]), says("So"), says("And"), says("Done")],
    { 0: ["queue", "steer", "steer", "queue"] },
  );
  assert.deepEqual(words, [
    ["Go"],
    ["Go", "text 2", "text 3"],
    ["Go", "text 2", "text 3"],
    ["Go", "text 2", "text 3", "text 1"],
    ["Go", "text 2", "text 3", "text 1", "text 4"],
  ]);
  assert.deepEqual(store.said.map(({ state }) => state), Array(4).fill("applied"));
});

Deno.test("a text that comes during the last answer makes the run go on, with its steps anew", async () => {
  const { words } = await run(
    [asks(["t.one", {}]), says("Enough"), asks(["t.one", {}]), says("Done")],
    { 1: ["steer"] },
    { maxSteps: 2 },
  );
  assert.deepEqual(words, [
    ["Go"],
    ["Go", CONCLUDE],
    ["Go", "text 1"],
    ["Go", "text 1", CONCLUDE],
  ]);
});

Deno.test("what a stop or a failure comes before is undelivered, and no later run reads it", async () => {
  for (const stopAt of [1, undefined]) {
    const failing: Answer = () => {
      throw new HubError("upstream_rejected", "No");
    };
    const { store } = await run(
      [asks(["t.one", {}]), stopAt === undefined ? failing : says("Never")],
      { 0: ["steer", "queue"], 1: ["steer"] },
      stopAt === undefined ? {} : { stopAt },
    );
    const states = store.said.map(({ state }) => state);
    assert.deepEqual(states, ["applied", "undelivered", "undelivered"]);
    const types = store.events.slice(-4).map(({ type }) => type);
    const ending = stopAt === undefined ? "error" : "abort";
    assert.deepEqual(types, ["data", "data", ending, "finish"]);
    const read = JSON.stringify(readLater(store, (name) => name));
    assert.ok(read.includes("text 1") && !read.includes("text 2") && !read.includes("text 3"));
  }
});

Deno.test("texts that cannot be read now keep the run from ending until they can", async () => {
  const store = new FakeStore();
  let fails = 3;
  const { pending } = store;
  store.pending = () =>
    fails-- > 0
      ? Promise.reject(new HubError("database_unavailable", "No answer"))
      : pending.call(store);
  const requests = await driveOwner(store, {
    answers: [
      (request, context) => {
        store.say("queue");
        return says("So")(request, context);
      },
      says("Done"),
    ],
    abort: new AbortController(),
    kills: () => false,
  });
  assert.equal(requests.length, 2);
  assert.deepEqual(checkLog(store.log), []);
  assert.equal(store.said[0]?.state, "applied");
});

Deno.test("another owner counts the steps of a turn from where it began", async () => {
  const store = new FakeStore();
  const tools = [makeTool("t.one", () => textResult("done"), { effect: "pure" })];
  const own = { tools, settings: { maxSteps: 3 }, abort: new AbortController() };
  const ofStep1 = () =>
    store.events.some((event) => event.type === "step-finish" && event.step === 1);
  await driveOwner(store, {
    ...own,
    answers: [
      (request, context) => {
        store.say("queue");
        return says("So")(request, context);
      },
      asks(["t.one", {}]),
    ],
    kills: () => ofStep1(),
  });
  const [request] = await driveOwner(store, {
    ...own,
    answers: [says("Done")],
    kills: () => false,
    run: { ids: { next: (prefix) => `${prefix}_again` } },
  });
  assert.ok(request !== undefined && !JSON.stringify(request.messages).includes(CONCLUDE));
  assert.deepEqual(checkLog(store.log), []);
});
