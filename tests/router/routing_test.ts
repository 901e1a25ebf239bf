import assert from "node:assert/strict";
import { HubError } from "../../src/core/error.ts";
import { type Log, SILENT_LOG } from "../../src/core/log.ts";
import type { Target } from "../../src/providers/target.ts";
import type { UpstreamRequest } from "../../src/providers/transport.ts";
import { trailOfAnswer } from "../../src/router/attempt_trail.ts";
import { CHAT } from "../../src/wire/openai_chat/chat_wire.ts";
import { createFakeAnswer, createFakeTarget } from "../support/fake_target.ts";
import { createRoutingRig, finish, routeOf, withKeys } from "./routing_rig.ts";

type Play = { status?: number; headers?: Record<string, string> } | HubError;

/** Targets `p/…` that answer as `plays` says, and what was asked, as `model` or `model#key`. */
function createTargets(plays: Record<string, Play>) {
  const asked: string[] = [];
  const targetOf = (model: string): Target =>
    createFakeTarget(`p/${model}`, ({ fixedHeaders }: UpstreamRequest) => {
      const key = fixedHeaders?.find(([name]) => name === "authorization")?.[1]?.slice(4);
      const name = key === undefined ? model : `${model}#${key}`;
      asked.push(name);
      const play = plays[name] ?? plays[model] ?? {};
      if (play instanceof HubError) throw play;
      return createFakeAnswer({ ...play, pieces: ["{}"] }).response;
    });
  return { asked, targetOf };
}

const take = (asked: string[]) => asked.splice(0).join(" ");

function setup(plays: Record<string, Play> = {}) {
  const rig = createRoutingRig();
  const { asked, targetOf } = createTargets(plays);
  const { open } = rig;
  /** Opens, reads, and gives what was asked for it and how it ended. */
  const ask = async (...args: Parameters<typeof open>) => {
    const code = await open(...args).then(async (answer) => {
      await finish(answer);
      return "ok";
    }, (error) => error instanceof HubError ? error.code : String(error));
    return `${take(asked)}: ${code}`;
  };
  return { ...rig, asked, targetOf, ask, plays };
}

Deno.test("a request that one dialect cannot carry goes on to a target that can", async () => {
  const refusal = new HubError("invalid_request", "no", { param: "logprobs" });
  const { ask, targetOf, health, open, asked } = setup({ a: refusal, b: refusal });
  const [a, b, c] = ["a", "b", "c"].map(targetOf) as [Target, Target, Target];
  assert.equal(await ask([a, b, c]), "a b c: ok");
  await assert.rejects(open([a, b]), (error) => {
    assert.ok(error instanceof HubError);
    assert.equal(error.param, "logprobs");
    assert.equal(
      error.headers?.["x-loophub-attempts"],
      "p/a;invalid_request;-;0, p/b;invalid_request;-;0",
    );
    return true;
  });
  take(asked);
  // It is no fault of the target.
  for (let turn = 0; turn < 10; turn++) await ask([a, c]);
  assert.equal(health.rests("p/a"), false);
});

Deno.test("a request that only a resting or a failing target can carry is not answered by another's refusal", async () => {
  const { ask, targetOf, health, plays } = setup({
    a: new HubError("invalid_request", "no"),
    b: { status: 500 },
  });
  const targets = ["a", "b"].map(targetOf);
  assert.equal(await ask(targets), "a b: upstream_error");
  for (let turn = 0; turn < 4; turn++) await ask(targets);
  assert.equal(health.rests("p/b"), true);
  plays["b"] = {};
  assert.equal(await ask(targets), "a b: ok");
});

Deno.test("a body that cannot be made for one target is made for the next", async () => {
  const { open, targetOf, asked, isQuiet } = setup();
  const answer = await open(["a", "b"].map(targetOf), {
    prepare(target) {
      if (target.model === "a") throw new HubError("invalid_request", "no");
      return { ...createPrepared() };
    },
  });
  await finish(answer);
  assert.equal(take(asked), "b");
  assert.ok(isQuiet());
});

Deno.test("a 429 rests its target for as long as it says, and nobody waits while another is free", async () => {
  const { ask, targetOf, clock, plays } = setup({
    a: { status: 429, headers: { "retry-after": "20" } },
  });
  const targets = ["a", "b"].map((model) => ({ ...targetOf(model), maxRetries: 2 }));
  assert.equal(await ask(targets), "a b: ok");
  assert.equal(await ask(targets), "b: ok");
  await clock.advance(19_999);
  assert.equal(await ask(targets), "b: ok");
  plays["a"] = {};
  await clock.advance(1);
  assert.equal(await ask(targets), "a: ok");
  assert.equal(await ask(targets), "a: ok");
});

Deno.test("of targets that all rest, the one that comes back first is tried", async () => {
  const limited = (seconds: number) => ({ status: 429, headers: { "retry-after": `${seconds}` } });
  const { ask, targetOf } = setup({ a: limited(50), b: limited(10), c: limited(30) });
  const targets = ["a", "b", "c"].map(targetOf);
  assert.equal(await ask(targets), "a b c: upstream_rate_limited");
  assert.equal(await ask(targets), "b: upstream_rate_limited");
});

Deno.test("the keys of a pool are taken in turn; a refused one rests for a minute, for all models", async () => {
  const { ask, targetOf, clock, plays } = setup({ "m#2": { status: 401 }, "n#2": { status: 401 } });
  const [m, n] = ["m", "n"].map((model) => withKeys(targetOf(model), 3)) as [Target, Target];
  assert.equal(await ask([m]), "m#1: ok");
  assert.equal(await ask([m]), "m#2 m#3: ok");
  for (const model of [m, n, m, n]) assert.doesNotMatch(await ask([model]), /#2/);
  await clock.advance(60_000);
  plays["m#2"] = {};
  const later = [await ask([m]), await ask([m]), await ask([m])];
  assert.deepEqual(later.toSorted(), ["m#1: ok", "m#2: ok", "m#3: ok"]);
});

Deno.test("a key with a 429 rests at that model only, and a 5xx goes on to the next target", async () => {
  const { ask, targetOf, plays } = setup({ "m#1": { status: 429 } });
  const [m, n] = ["m", "n"].map((model) => withKeys(targetOf(model), 2)) as [Target, Target];
  const affinity = "one session";
  const first = (await ask([n], { affinity })).slice(0, 3);
  const other = first === "n#1" ? "n#2" : "n#1";
  plays["m#1"] = {};
  plays[first.replace("n", "m")] = { status: 429 };
  assert.equal(
    await ask([m], { affinity }),
    `${first.replace("n", "m")} ${other.replace("n", "m")}: ok`,
  );
  assert.equal(await ask([m], { affinity }), `${other.replace("n", "m")}: ok`);
  assert.equal(await ask([n], { affinity }), `${first}: ok`);
  plays["n"] = { status: 500 };
  assert.equal(await ask([n, targetOf("z")], { affinity }), `${first} z: ok`);
});

Deno.test("a target whose keys all rest is passed over, and tried when nothing else is left", async () => {
  const { ask, targetOf } = setup({ m: { status: 401 } });
  const m = withKeys(targetOf("m"), 2);
  assert.equal(await ask([m, targetOf("z")]), "m#1 m#2 z: ok");
  assert.equal(await ask([m, targetOf("z")]), "z: ok");
  assert.match(await ask([m]), /^m#1: upstream_unauthorized$/);
});

Deno.test("rules choose by tag, by size and by stream; the first that fits counts", async () => {
  const { ask, targetOf } = setup();
  const all = ["a", "b", "c", "d"].map(targetOf);
  const route = routeOf(all, {
    rules: [
      { when: { tag: "batch", minBytes: 100 }, targets: ["p/d"] },
      { when: { tag: "batch" }, targets: ["p/b"] },
      { when: { minBytes: 1000, maxBytes: 2000 }, targets: ["p/c"] },
    ],
  });
  const tags = ["x", "batch"];
  assert.equal(await ask(route, { tags, bytes: 100 }), "d: ok");
  assert.equal(await ask(route, { tags, bytes: 99 }), "b: ok");
  assert.equal(await ask(route, { tags: ["x"], bytes: 1000 }), "c: ok");
  assert.equal(await ask(route, { bytes: 2001 }), "a: ok");
  assert.equal(await ask(route), "a: ok");
  const streams = routeOf(all, { rules: [{ when: { stream: false }, targets: ["p/b"] }] });
  assert.equal(await ask(streams), "b: ok");
});

Deno.test("the least busy target is taken, by whatever name its calls came", async () => {
  const { open, targetOf, asked } = setup();
  const [a, b] = ["a", "b"].map(targetOf) as [Target, Target];
  const route = routeOf([a, b], { strategy: "busy" });
  const direct = await Promise.all([open([a]), open([a])]);
  take(asked);
  const answers = [await open(route), await open(route)];
  assert.equal(take(asked), "b b");
  await Promise.all(direct.map(finish));
  answers.push(await open(route), await open(route));
  assert.equal(take(asked), "a a");
  await Promise.all(answers.map(finish));
});

Deno.test("the fastest target is taken; a slow one is tried again after a while, by one request", async () => {
  const rig = createRoutingRig();
  const asked: string[] = [];
  const delays: Record<string, number> = { a: 500, b: 50 };
  const targetOf = (model: string) =>
    createFakeTarget(`p/${model}`, async () => {
      asked.push(model);
      await new Promise<void>((resolve) => rig.clock.setTimer(resolve, delays[model] ?? 0));
      return createFakeAnswer({ pieces: ["{}"] }).response;
    });
  const route = routeOf(["a", "b"].map(targetOf), { strategy: "latency" });
  const ask = async (count: number) => {
    const opened = Array.from({ length: count }, () => rig.open(route));
    await rig.clock.advance(600);
    for (const answer of opened) await finish(await answer);
    return asked.splice(0).toSorted().join("");
  };
  assert.equal(await ask(1), "a");
  assert.equal(await ask(1), "b");
  for (let turn = 0; turn < 5; turn++) assert.equal(await ask(1), "b");
  // Ten times as slow: not before it has faded to a tenth.
  await rig.clock.advance(20_000);
  assert.equal(await ask(2), "ab");
  delays["a"] = 10;
  await rig.clock.advance(30_000);
  await ask(1);
  for (let turn = 0; turn < 3; turn++) assert.equal(await ask(1), "a");
});

Deno.test("the trail tells targets, keys, outcomes and times in visible ASCII, the last eight of them", async () => {
  const { open, targetOf } = setup({ a: { status: 500 }, "m#1": { status: 401 } });
  const odd = { ...targetOf("a"), id: "p/ä;b, c" };
  const answer = await open([odd, withKeys(targetOf("m"), 2)]);
  const trail =
    "p/%C3%A4%3Bb%2C%20c;upstream_error;500;0, p/m#1;upstream_unauthorized;401;0, p/m#2;ok;200;0";
  assert.equal(trailOfAnswer(answer), trail);
  await finish(answer);
  assert.equal(trailOfAnswer(answer), trail);
  const many = Array.from({ length: 11 }, (_, at) => ({ ...targetOf("a"), id: `p/a${at}` }));
  const long = trailOfAnswer(await open([...many, targetOf("z")]));
  assert.match(long, /^\+4, p\/a4;.*, p\/z;ok;200;0$/);
});

Deno.test("the log tells a request's tries: at info when there was more than one, never of a storm", async () => {
  const lines: string[] = [];
  const write = (level: string) => (message: string, fields?: { attempts?: unknown }) =>
    void lines.push(`${level} ${message}: ${fields?.attempts}`);
  const log: Log = {
    ...SILENT_LOG,
    debug: write("debug"),
    info: write("info"),
    writes: () => true,
  };
  const rig = createRoutingRig({ log, max: 1 });
  const { targetOf } = createTargets({ a: { status: 500 } });
  await finish(await rig.open([targetOf("b")]));
  await finish(await rig.open([targetOf("a"), targetOf("b")]));
  await assert.rejects(rig.open([targetOf("a")]));
  assert.deepEqual(lines, [
    "debug A model answers: p/b;ok;200;0",
    "info A model answers: p/a;upstream_error;500;0, p/b;ok;200;0",
    "info No target answers: p/a;upstream_error;500;0",
  ]);
  lines.length = 0;
  const busy = await rig.open([targetOf("b")]);
  const late = assert.rejects(rig.open([targetOf("b")]), { code: "overloaded" });
  await rig.clock.advance(5000);
  await late;
  await finish(busy);
  assert.deepEqual(lines.slice(1), ["debug No target answers: p/b;overloaded;-;5000"]);
});

function createPrepared() {
  return { wire: CHAT, body: new Uint8Array(2), hideUsage: false };
}
