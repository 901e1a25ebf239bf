import assert from "node:assert/strict";
import { SILENT_LOG } from "../../src/core/log.ts";
import { QUIRKS } from "../../src/providers/quirks.ts";
import type { Target } from "../../src/providers/target.ts";
import type { UpstreamResponse } from "../../src/providers/transport.ts";
import { createOpenAnswer } from "../../src/router/open_answer.ts";
import { TargetHealth } from "../../src/router/target_health.ts";
import { createFakeClock } from "../support/fake_clock.ts";

const OPEN_MS = 5000;

/** Two targets, `p/a` and `p/b`, that answer with these statuses, and a way to ask some of them. */
function setup() {
  const clock = createFakeClock();
  const status: Record<string, number> = { a: 200, b: 200 };
  const tried: string[] = [];
  const targetOf = (model: string): Target => ({
    id: `p/${model}`,
    provider: "p",
    model,
    chatUrl: "http://up/v1/chat/completions",
    fixedHeaders: [],
    quirks: QUIRKS["openai-compatible"],
    timeouts: { connectMs: 1000, firstTokenMs: 1000, inactivityMs: 1000, totalMs: 1000 },
    maxRetries: 0,
    override: {},
    send() {
      tried.push(model);
      return Promise.resolve(responseOf(status[model] ?? 0));
    },
  });
  const openAnswer = createOpenAnswer({
    clock,
    random: () => 0,
    log: SILENT_LOG,
    health: new TargetHealth(clock),
    maxConcurrent: () => 8,
    recordUsage() {},
  });
  const facts = { requestId: "r", tenantId: "t", keyId: "k", kind: "proxy", publicModel: "m" };
  return {
    clock,
    status,
    /** Asks these targets in order; gives the ones that were tried. */
    async ask(...models: string[]): Promise<string> {
      tried.length = 0;
      const answer = await openAnswer({
        targets: models.map(targetOf),
        prepare: () => ({ body: new Uint8Array(2), hideUsage: false }),
        stream: false,
        signal: new AbortController().signal,
        facts: { ...facts, kind: "proxy" },
      }).catch(() => null);
      while (await answer?.read()) { /* to the end, so that its timers stop */ }
      return tried.join(" ");
    },
  };
}

function responseOf(status: number): UpstreamResponse {
  const pieces = [new TextEncoder().encode("{}")];
  return {
    status,
    header: () => null,
    headers: [],
    headersStartingWith: () => [],
    read: () => Promise.resolve(pieces.shift() ?? null),
    cancel() {},
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
