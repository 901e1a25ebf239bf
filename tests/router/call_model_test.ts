import assert from "node:assert/strict";
import { createHttpClient } from "../../src/providers/http1/client.ts";
import { Deadlines } from "../../src/core/deadlines.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import type { ModelEvent } from "../../src/core/model.ts";
import { createCallModel } from "../../src/router/call_model.ts";
import { createOpenAnswer } from "../../src/router/open_answer.ts";
import { TargetGates } from "../../src/router/target_gates.ts";
import { TargetHealth } from "../../src/router/target_health.ts";
import type { BegunFact, UsageFact } from "../../src/router/usage_fact.ts";
import { chatFrames } from "../support/chat_replies.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { createFakeAnswer, createFakeTarget } from "../support/fake_target.ts";
import { createTestGate } from "../support/gates.ts";
import { testIds } from "../support/postgres.ts";
import { systemClock } from "../support/system_clock.ts";

/** A router with places for eight calls, and what it notes of calls that are about to be sent and that ended. */
function createRig() {
  const clock = createFakeClock();
  const deadlines = new Deadlines(clock);
  const begun: BegunFact[] = [];
  const facts: UsageFact[] = [];
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
    nextUsageId: () => testIds.next("usg"),
    recordUsage: (fact) => void facts.push(fact),
    noteBegun: (fact) => void begun.push(fact),
  });
  return { openAnswer, deadlines, begun, facts };
}

const FACTS = {
  requestId: "r",
  tenantId: "t",
  keyId: "k",
  kind: "run",
  publicModel: "m",
} as const;

/** All events of an answer that comes in one read, and the code of its failure. */
async function call(answer: string) {
  const { openAnswer, deadlines } = createRig();
  const pricing = { inputPerMillion: 1, outputPerMillion: 2 };
  const target = createFakeTarget(
    "p/m",
    () => createFakeAnswer({ pieces: [answer] }).response,
    { override: { pricing } },
  );
  const callModel = createCallModel(openAnswer, {
    targets: () => [target],
    facts: FACTS,
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

Deno.test("a model call of a run is noted before its first byte goes out, under the id of its row", async () => {
  const runId = testIds.next("run");
  const ids = async (epoch: number) => {
    const { openAnswer, deadlines, begun, facts } = createRig();
    const sent: number[] = [];
    const target = (model: string, status: number) =>
      createFakeTarget(`p/${model}`, ({ onSend }) => {
        onSend?.();
        // A connection that turned out to be dead: sent again, and still one call.
        onSend?.();
        sent.push(begun.length);
        const pieces = [chatFrames({ text: "Hi" }).join("")];
        return createFakeAnswer({ status, pieces }).response;
      }, { override: { pricing: { inputPerMillion: 1, outputPerMillion: 2 } } });
    const callModel = createCallModel(openAnswer, {
      targets: () => [target("broken", 500), target("m", 200)],
      facts: { ...FACTS, runId },
      epoch,
      tags: [],
      toWire: (name) => name,
    });
    const { signal } = new AbortController();
    const request = { messages: [], tools: [] };
    for (const context of [{ isSummary: true as const }, {}, {}]) {
      for await (
        const _ of callModel(request, { signal, step: 1, stepAttempt: 0, ...context })
      ) { /* to the end */ }
    }
    assert.deepEqual(sent, [1, 2, 3, 4, 5, 6], "noted before it was sent");
    assert.deepEqual(
      begun.map(({ fact, call, price }) => [
        fact.usageId,
        fact.model,
        fact.errorCode,
        (fact.usage?.promptTokens ?? 0) > 0 && (fact.costMicros ?? 0) > 0 && price !== null,
        call.isLogged,
      ]),
      facts.map(({ usageId, model }, at) => [usageId, model, "orphaned", true, at > 1]),
    );
    deadlines.close();
    return begun.map(({ fact }) => fact.usageId);
  };
  const [first, again, later] = [await ids(1), await ids(1), await ids(2)];
  assert.deepEqual(first, again, "the same facts give the same ids");
  assert.equal(new Set([...first, ...later]).size, 12);
});

Deno.test("a model call that is stopped while it connects was not sent", async () => {
  const { openAnswer, deadlines, begun, facts } = createRig();
  const controller = new AbortController();
  const http = createHttpClient({
    clock: systemClock,
    connect: () => {
      controller.abort();
      return new Promise(() => {});
    },
  });
  const endpoints = { chat: { url: "http://127.0.0.1:9/v1", send: http.send } };
  const callModel = createCallModel(openAnswer, {
    targets: () => [createFakeTarget("p/m", () => assert.fail(), { endpoints })],
    facts: { ...FACTS, runId: testIds.next("run") },
    epoch: 1,
    tags: [],
    toWire: (name) => name,
  });
  const context = { signal: controller.signal, step: 0, stepAttempt: 0 };
  await assert.rejects(async () => {
    for await (const _ of callModel({ messages: [], tools: [] }, context)) assert.fail();
  });
  assert.deepEqual([begun, facts], [[], []]);
  http.close();
  deadlines.close();
});
