import assert from "node:assert/strict";
import { Deadlines } from "../../src/core/deadlines.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import type { ModelEvent } from "../../src/core/model.ts";
import { createCallModel } from "../../src/router/call_model.ts";
import { createOpenAnswer } from "../../src/router/open_answer.ts";
import { TargetGates } from "../../src/router/target_gates.ts";
import { TargetHealth } from "../../src/router/target_health.ts";
import { chatFrames } from "../support/chat_replies.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { createFakeAnswer, createFakeTarget } from "../support/fake_target.ts";
import { createTestGate } from "../support/gates.ts";

/** All events of an answer that comes in one read, and the code of its failure. */
async function call(answer: string) {
  const clock = createFakeClock();
  const deadlines = new Deadlines(clock);
  const openAnswer = createOpenAnswer({
    clock,
    random: () => 0,
    log: SILENT_LOG,
    redact: (text) => text,
    health: new TargetHealth(clock),
    deadlines,
    gates: new TargetGates({
      providers: new Map([["p", createTestGate(clock, { max: 8, deadlines })]]),
      models: new Map(),
    }),
    recordUsage() {},
  });
  const pricing = { inputPerMillion: 1, outputPerMillion: 2 };
  const target = createFakeTarget(
    "p/m",
    () => createFakeAnswer({ pieces: [answer] }).response,
    { override: { pricing } },
  );
  const callModel = createCallModel(openAnswer, {
    targets: () => [target],
    facts: { requestId: "r", tenantId: "t", keyId: "k", kind: "run", publicModel: "m" },
    tags: [],
    toWire: (name) => name,
  });
  const events: ModelEvent[] = [];
  const request = { messages: [], tools: [] };
  const { signal } = new AbortController();
  let code: string | null = null;
  try {
    for await (const read of callModel(request, { signal, stepAttempt: 0 })) events.push(...read);
  } catch (error) {
    code = (error as { code: string }).code;
  }
  assert.equal(deadlines.size, 0);
  deadlines.close();
  return { events: events.filter(({ type }) => type !== "response-start"), code };
}

Deno.test("an agent's model gives what came before a failure in the same read", async () => {
  const frames = chatFrames({ deltas: ["a ", "b "] });
  const endless = `:${"x".repeat(1024 * 1024 + 1)}\n\n`;
  const second = frames.findIndex((frame) => frame.includes("b "));
  assert.deepEqual(await call(frames.toSpliced(second, 0, endless).join("")), {
    events: [{ type: "text-delta", delta: "a " }],
    code: "upstream_malformed",
  });
});

Deno.test("usage of an agent's model has its cost", async () => {
  const frames = chatFrames({
    deltas: ["a"],
    usage: { promptTokens: 10, completionTokens: 5 },
  });
  const { events } = await call(frames.join(""));
  const usage = events.find((event) => event.type === "usage");
  assert.equal(usage?.costMicros, 20);
});
