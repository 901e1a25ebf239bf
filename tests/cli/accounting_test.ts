import assert from "node:assert/strict";
import { Accounting } from "../../src/cli/accounting.ts";
import { HubError } from "../../src/core/error.ts";
import type { CallModel } from "../../src/core/model.ts";
import type { ExecuteTool } from "../../src/inference/agent_run.ts";
import { callTool } from "../../src/operations/call.ts";
import type {
  RunFactsForCalls,
  RunnableAgent,
  StartOptions,
} from "../../src/run/runnable_agent.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { filler, windowFor, worker } from "../inference/context_rig.ts";
import {
  type Answer,
  asks,
  makeTool,
  type RigOptions,
  says,
  START,
  startRig,
  text,
  textResult,
  USAGE,
} from "../inference/loop_rig.ts";

const executeTool: ExecuteTool = (tool, input, context) => callTool(tool, input, { context });

/** Runs the loop over these answers, which take 100 ms each, and gives the lines and the requests. */
async function accountFor(
  answers: Answer[],
  { stopAfter = Infinity, ...options }: Partial<RigOptions> & { stopAfter?: number } = {},
) {
  const path = await Deno.makeTempFile({ dir: "/tmp", prefix: "loophub-accounting-" });
  try {
    const clock = createFakeClock();
    const accounting = new Accounting(path, clock);
    const sizes: number[] = [];
    const callModel: CallModel = async function* (request, context) {
      const { messages, tools } = request;
      const scripted = answers[sizes.length];
      sizes.push(JSON.stringify({ messages, tools }).length);
      await clock.advance(100);
      if (scripted !== undefined) yield* scripted(request, context);
    };
    const { agent, start } = accounting.watch({
      agent: { callModel: () => callModel } as unknown as RunnableAgent,
      start: { executeTool } as unknown as StartOptions,
    });
    const tools = [
      makeTool("good", async () => {
        await clock.advance(30);
        return textResult("fine");
      }),
      makeTool("bad", () => Promise.reject(new Error("no"))),
    ];
    const rig = startRig({
      answers,
      tools,
      ...options,
      run: {
        ...options.run,
        callModel: agent.callModel({} as RunFactsForCalls),
        executeTool: start.executeTool,
      },
      onBatch(batch, rig) {
        if (rig.events.length > stopAfter) rig.abort.abort("stop");
        for (const event of batch.events) accounting.take(event);
      },
    });
    let isOver = false;
    const done = rig.done.finally(() => isOver = true);
    while (!isOver) await rig.clock.advance(1000);
    await done;
    const lines = (await Deno.readTextFile(path)).trim().split("\n").map((line) =>
      JSON.parse(line)
    );
    return { lines, sizes };
  } finally {
    await Deno.remove(path);
  }
}

const time = "2027-01-15T08:00:00.100Z";

Deno.test("each model call has a line, those that broke off too; tools and the run have theirs", async () => {
  const cut: Answer = async function* () {
    yield [START, text("half")];
    await Promise.resolve();
    throw new HubError("upstream_cut", "Cut");
  };
  const { lines, sizes } = await accountFor([
    cut,
    asks(["good", { a: 1 }], ["bad", {}]),
    says("Done."),
  ]);
  assert.deepEqual(lines.map((line) => line.type), ["llm", "llm", "tool", "tool", "llm", "run"]);
  const [broken, asked, bad, good, answered, run] = lines;
  assert.deepEqual(broken, {
    time,
    type: "llm",
    step: 0,
    attempt: 1,
    outcome: "upstream_cut",
    finishReason: null,
    provider: "acme",
    model: "acme-1",
    latencyMs: 100,
    charactersIn: sizes[0],
    charactersOut: 4,
    promptTokens: null,
    completionTokens: null,
    totalTokens: null,
    cachedTokens: null,
    reasoningTokens: null,
    costMicros: null,
  });
  const whole = { outcome: "ok", latencyMs: 100, ...USAGE, costMicros: 7 };
  assert.partialDeepStrictEqual(asked, {
    ...whole,
    step: 0,
    attempt: 2,
    finishReason: "tool-calls",
    charactersIn: sizes[1],
    charactersOut: '{"a":1}{}'.length,
  });
  assert.partialDeepStrictEqual(answered, {
    ...whole,
    step: 1,
    attempt: 1,
    charactersIn: sizes[2],
    charactersOut: 5,
  });
  assert.ok(Number(sizes[2]) > Number(sizes[0]));
  assert.partialDeepStrictEqual(good, {
    tool: "good",
    status: "ok",
    latencyMs: 30,
    charactersIn: 7,
    charactersOut: 4,
  });
  assert.partialDeepStrictEqual(bad, { tool: "bad", status: "failed", charactersIn: 2 });
  assert.partialDeepStrictEqual(run, { finishReason: "stop", costMicros: null });
});

Deno.test("a call that the run's end stopped is accounted as aborted", async () => {
  const endless: Answer = async function* (_request, { signal }) {
    yield [START, text("never")];
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  };
  const { lines } = await accountFor([endless], { stopAfter: 2 });
  assert.deepEqual(lines.map((line) => line.type).toSorted(), ["llm", "run"]);
  const llm = lines.find((line) => line.type === "llm");
  assert.partialDeepStrictEqual(llm, { outcome: "aborted", charactersOut: 5 });
});

Deno.test("each model call says how much room it left, the run why it ended", async () => {
  const limit = 2000;
  const { lines } = await accountFor(new Array<Answer>(50).fill(worker({ steps: 50 })), {
    tools: [filler(1500)],
    settings: { compaction: false, maxSteps: 50 },
    run: { window: () => windowFor(limit, 1500) },
  });
  const calls = lines.filter(({ type }) => type === "llm");
  assert.ok(calls.length > 2, `${calls.length}`);
  for (const [index, call] of calls.entries()) {
    assert.equal(call.limitTokens, limit);
    assert.equal(call.remainingTokens, limit - call.projectedTokens);
    if (index > 0) assert.ok(call.projectedTokens > calls[index - 1].projectedTokens);
    assert.equal(call.remainingTokens < 0, index === calls.length - 1, "the last one concludes");
  }
  const guards = lines.filter(({ type }) => type === "guard");
  assert.deepEqual(guards.map(({ trigger, outcome }) => [trigger, outcome]), [
    ["request", "concluded"],
  ]);
  assert.partialDeepStrictEqual(guards[0], {
    limitTokens: limit,
    projectedTokens: calls.at(-1)?.projectedTokens,
    remainingTokens: calls.at(-1)?.remainingTokens,
  });
  assert.partialDeepStrictEqual(lines.at(-1), {
    type: "run",
    finishReason: "token-limit",
    exitReason: "EXIT-TOKEN-LIMIT",
  });
  const free = await accountFor([says("Done.")]);
  assert.deepEqual(
    free.lines.map((line) => ["projectedTokens" in line, "exitReason" in line]),
    [[false, false], [false, false]],
  );
});

Deno.test("each limit of a run has an exit reason of its own", async () => {
  const cases = [
    [{ steps: 2 }, "EXIT-MAX-STEPS"],
    [{ tokens: 30 }, "EXIT-MAX-TOKENS"],
    [{ costMicros: 14 }, "EXIT-MAX-COST"],
    [{ outputBytes: 10 }, "EXIT-MAX-OUTPUT"],
    [{ wallTimeMs: 50 }, "EXIT-MAX-TIME"],
  ] as const;
  for (const [budget, exitReason] of cases) {
    const answers = new Array<Answer>(50).fill(asks(["good", { a: 1 }]));
    const { lines } = await accountFor(answers, { run: { budget } });
    assert.equal(lines.at(-1)?.exitReason, exitReason);
  }
});

Deno.test("a file that cannot be written is told before anything runs", () => {
  assert.throws(() => new Accounting("/nowhere/at/all", createFakeClock()), {
    code: "invalid_request",
  });
});
