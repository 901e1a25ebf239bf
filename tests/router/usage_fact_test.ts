import assert from "node:assert/strict";
import { Deadlines } from "../../src/core/deadlines.ts";
import { HubError } from "../../src/core/error.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { QUIRKS } from "../../src/providers/quirks.ts";
import type { Target } from "../../src/providers/target.ts";
import type { SendUpstream, UpstreamResponse } from "../../src/providers/transport.ts";
import { createOpenAnswer } from "../../src/router/open_answer.ts";
import { TargetGates } from "../../src/router/target_gates.ts";
import { TargetHealth } from "../../src/router/target_health.ts";
import type { UsageFact } from "../../src/router/usage_fact.ts";
import { CHAT } from "../../src/wire/openai_chat/chat_wire.ts";
import { chatFrames } from "../support/chat_replies.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";

const USAGE_ID = "usg_1";
const START_MS = 1_800_000_000_000;
const PRICING = { inputPerMillion: 2, outputPerMillion: 10 };
const USAGE = { promptTokens: 30, completionTokens: 12 };
const WIRE_USAGE = { prompt_tokens: 30, completion_tokens: 12, total_tokens: 42 };
const FACTS = {
  requestId: "req_1",
  tenantId: "t",
  keyId: "k",
  kind: "proxy",
  publicModel: "public",
} as const;

/** What a provider does: an answer in pieces, or a failure. An error among the pieces breaks the answer there. */
type Play = { status?: number; pieces: (string | HubError)[] } | HubError;

function setup() {
  const clock = createFakeClock(START_MS);
  const facts: UsageFact[] = [];
  const deadlines = new Deadlines(clock);
  const openAnswer = createOpenAnswer({
    clock,
    random: () => 0,
    log: SILENT_LOG,
    health: new TargetHealth(clock),
    deadlines,
    redact: (text) => text,
    gates: new TargetGates({ providers: new Map(), models: new Map() }),
    nextUsageId: () => USAGE_ID,
    recordUsage: (fact) => void facts.push(fact),
  });
  const open = (
    plays: Record<string, Play>,
    options: { stream?: boolean; signal?: AbortSignal; pricing?: typeof PRICING } = {},
  ) =>
    openAnswer({
      targets: Object.entries(plays).map(([model, play]) =>
        targetOf(model, playback(play), options)
      ),
      prepare: () => ({ wire: CHAT, body: new Uint8Array(400), hideUsage: false }),
      stream: options.stream ?? false,
      signal: options.signal ?? new AbortController().signal,
      facts: FACTS,
    });
  /** Opens and reads to the end; the code of the failure, or "ok". */
  const run = async (...args: Parameters<typeof open>) => {
    try {
      const answer = await open(...args);
      while (await answer.read() !== null) { /* to the end */ }
      return "ok";
    } catch (error) {
      assert.ok(error instanceof HubError, String(error));
      return error.code;
    }
  };
  return { clock, deadlines, facts, open, run };
}

function targetOf(
  model: string,
  send: SendUpstream,
  { pricing }: { pricing?: typeof PRICING },
): Target {
  return {
    id: `p/${model}`,
    provider: "p",
    model,
    endpoints: { chat: { url: "http://up/v1/chat/completions", send } },
    fixedHeaders: [],
    quirks: QUIRKS["openai-compatible"],
    timeouts: { connectMs: 1000, firstTokenMs: 1000, inactivityMs: 1000, totalMs: 10_000 },
    maxRetries: 0,
    override: pricing === undefined ? {} : { pricing },
  };
}

const playback = (play: Play): SendUpstream => ({ signal }) => {
  if (play instanceof HubError) return Promise.reject(play);
  const pieces = [...play.pieces];
  const stopped = Promise.withResolvers<never>();
  stopped.promise.catch(() => {});
  const stop = () => stopped.reject(new HubError("aborted", "Stopped"));
  signal.addEventListener("abort", stop, { once: true });
  const response: UpstreamResponse = {
    status: play.status ?? 200,
    header: () => null,
    headers: [],
    headersStartingWith: () => [],
    read() {
      const piece = pieces.shift();
      if (piece instanceof HubError) return Promise.reject(piece);
      // A play that ends with an empty piece hangs there.
      if (piece === "") return stopped.promise;
      return Promise.resolve(piece === undefined ? null : new TextEncoder().encode(piece));
    },
    cancel: stop,
  };
  return Promise.resolve(response);
};

const WHOLE: Play = { pieces: [JSON.stringify({ choices: [], usage: WIRE_USAGE })] };

Deno.test("an answer is one fact, with who asked, what it cost and how long it took", async () => {
  const { facts, run } = setup();
  assert.equal(await run({ a: WHOLE }, { pricing: PRICING }), "ok");
  assert.equal(facts.length, 1);
  assert.deepEqual(facts[0], {
    ...FACTS,
    provider: "p",
    model: "a",
    streamed: false,
    outcome: "ok",
    status: 200,
    errorCode: null,
    usage: { ...USAGE, totalTokens: 42, cachedTokens: 0, reasoningTokens: 0 },
    estimated: false,
    costMicros: 30 * 2 + 12 * 10,
    startedAt: START_MS,
    firstTokenMs: facts[0]?.firstTokenMs,
    durationMs: 0,
    bytesOut: facts[0]?.bytesOut,
    attempts: [{ target: "p/a", outcome: "ok", status: 200, durationMs: 0 }],
    usageId: USAGE_ID,
  });
  assert.ok((facts[0]?.bytesOut ?? 0) > 0);
});

Deno.test("a model without a price costs null, not nothing", async () => {
  const { facts, run } = setup();
  await run({ a: WHOLE });
  assert.equal(facts[0]?.costMicros, null);
});

Deno.test("a stream's usage is what its frame says", async () => {
  const { facts, run } = setup();
  const frames = chatFrames({ text: "Hello there", usage: USAGE });
  assert.equal(await run({ a: { pieces: frames } }, { stream: true }), "ok");
  const [fact] = facts;
  assert.equal(fact?.streamed, true);
  assert.equal(fact?.usage?.completionTokens, 12);
  assert.equal(fact?.estimated, false);
  assert.equal(fact?.bytesOut, frames.join("").length);
});

Deno.test("an answer that does not tell its usage is estimated, and the fact says so", async () => {
  const { facts, run } = setup();
  await run({ a: { pieces: chatFrames({ text: "Hello there" }) } }, {
    stream: true,
    pricing: PRICING,
  });
  const [fact] = facts;
  assert.equal(fact?.estimated, true);
  assert.equal(fact?.usage?.promptTokens, 100);
  assert.ok((fact?.usage?.completionTokens ?? 0) > 0);
  assert.ok((fact?.costMicros ?? 0) > 200);
});

Deno.test("each target that was reached is a fact, and the trace grows from one to the next", async () => {
  const { facts, run } = setup();
  const broken: Play = { status: 500, pieces: ["{}"] };
  assert.equal(await run({ a: broken, b: broken, c: WHOLE }), "ok");
  assert.deepEqual(
    facts.map(({ model, outcome, status, errorCode, usage }) => ({
      model,
      outcome,
      status,
      errorCode,
      tokens: usage?.promptTokens ?? null,
    })),
    [
      { model: "a", outcome: "error", status: 500, errorCode: "upstream_error", tokens: null },
      { model: "b", outcome: "error", status: 500, errorCode: "upstream_error", tokens: null },
      { model: "c", outcome: "ok", status: 200, errorCode: null, tokens: 30 },
    ],
  );
  assert.deepEqual(
    facts.map((fact) => fact.attempts.map((attempt) => `${attempt.target} ${attempt.outcome}`)),
    [
      ["p/a upstream_error"],
      ["p/a upstream_error", "p/b upstream_error"],
      ["p/a upstream_error", "p/b upstream_error", "p/c ok"],
    ],
  );
});

Deno.test("a target that was not reached is no fact, but stands in the trace", async () => {
  const { facts, run } = setup();
  const unreachable = new HubError("upstream_unreachable", "Connection refused");
  assert.equal(await run({ a: unreachable }), "upstream_unreachable");
  assert.equal(facts.length, 0);
  assert.equal(await run({ a: unreachable, b: WHOLE }), "ok");
  assert.equal(facts.length, 1);
  assert.deepEqual(facts[0]?.attempts.map((attempt) => [attempt.target, attempt.status]), [
    ["p/a", null],
    ["p/b", 200],
  ]);
});

Deno.test("a refused request produced nothing and costs nothing", async () => {
  const { facts, run } = setup();
  const refused: Play = { status: 400, pieces: ['{"error":{"message":"bad"}}'] };
  assert.equal(await run({ a: refused }, { pricing: PRICING }), "upstream_rejected");
  assert.equal(facts.length, 1);
  const { outcome, status, usage, costMicros } = facts[0] ?? {};
  assert.deepEqual({ outcome, status, usage, costMicros }, {
    outcome: "error",
    status: 400,
    usage: null,
    costMicros: null,
  });
});

Deno.test("a stream that is cut behind its beginning is one fact, estimated from what came", async () => {
  const { facts, run } = setup();
  const pieces = [...chatFrames({ text: "Hello there" }).slice(0, 3)];
  const cut = new HubError("upstream_cut", "Connection reset");
  assert.equal(await run({ a: { pieces: [...pieces, cut] } }, { stream: true }), "upstream_cut");
  assert.equal(facts.length, 1);
  const { outcome, errorCode, estimated, status } = facts[0] ?? {};
  assert.deepEqual({ outcome, errorCode, estimated, status }, {
    outcome: "cut",
    errorCode: "upstream_cut",
    estimated: true,
    status: 200,
  });
});

Deno.test("a stream that stalls is a timeout", async () => {
  const { clock, facts, run } = setup();
  const pieces = [...chatFrames({ text: "Hello there" }).slice(0, 3), ""];
  const code = run({ a: { pieces } }, { stream: true });
  await clock.advance(5000);
  assert.equal(await code, "upstream_timeout");
  assert.equal(facts.length, 1);
  assert.equal(facts[0]?.outcome, "timeout");
  assert.ok((facts[0]?.durationMs ?? 0) >= 1000);
});

Deno.test("a client that leaves is one fact, whoever notices first, and pays for what was streamed", async () => {
  for (const how of ["cancel", "signal"]) {
    const { deadlines, facts, open } = setup();
    const abort = new AbortController();
    const pieces = [...chatFrames({ text: "Hello there" }).slice(0, 3), ""];
    const answer = await open({ a: { pieces } }, {
      stream: true,
      signal: abort.signal,
      pricing: PRICING,
    });
    await answer.read();
    const waiting = answer.read().catch(() => {});
    await settle();
    const reason = new HubError("client_closed", "The client left");
    if (how === "signal") abort.abort(reason);
    answer.cancel(reason);
    answer.cancel(reason);
    await waiting;
    assert.equal(facts.length, 1, how);
    assert.equal(facts[0]?.outcome, "aborted");
    assert.equal(facts[0]?.estimated, true);
    assert.ok((facts[0]?.costMicros ?? 0) > 0);
    assert.equal(deadlines.size, 0);
  }
});

Deno.test("a whole answer that breaks off before its first byte still costs its request", async () => {
  const left = new HubError("client_closed", "The client left");
  const cut = new HubError("upstream_cut", "Connection reset");
  const cases: [play: Play, end: "left" | "late" | null, prompt: number | undefined][] = [
    [{ pieces: [""] }, "left", 100],
    [{ pieces: [""] }, "late", 100],
    [{ pieces: [cut] }, null, 100],
    // It never said that it had begun, or refused, or told an error: nothing was made.
    [cut, null, undefined],
    [{ status: 503, pieces: [""] }, "late", undefined],
    [{ pieces: ['{"error":{"message":"no"}}'] }, null, undefined],
  ];
  for (const [play, end, prompt] of cases) {
    const { clock, facts, run } = setup();
    const abort = new AbortController();
    const done = run({ a: play }, { signal: abort.signal, pricing: PRICING });
    await settle();
    if (end === "left") abort.abort(left);
    if (end === "late") await clock.advance(5000);
    await done;
    const [fact] = facts;
    assert.equal(facts.length, 1);
    assert.deepEqual([fact?.usage?.promptTokens, fact?.estimated], [prompt, prompt !== undefined]);
    assert.equal((fact?.costMicros ?? 0) > 0, prompt !== undefined);
    assert.equal(fact?.usage?.completionTokens ?? 0, 0);
  }
});

Deno.test("a place among the concurrent requests is given back at every end", async () => {
  const { facts, run, open } = setup();
  const cut = new HubError("upstream_cut", "Connection reset");
  const frames = chatFrames({ text: "Hello there" });
  for (let turn = 0; turn < 3; turn++) {
    await run({ a: WHOLE });
    await run({ a: { status: 500, pieces: ["{}"] }, b: WHOLE });
    await run({ a: { pieces: [...frames.slice(0, 3), cut] } }, { stream: true });
    const answer = await open({ a: { pieces: frames } }, { stream: true });
    answer.cancel(new HubError("client_closed", "The client left"));
  }
  assert.equal(facts.length, 15);
});
