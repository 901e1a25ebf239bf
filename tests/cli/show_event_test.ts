import assert from "node:assert/strict";
import { createShow } from "../../src/cli/show_event.ts";
import type { HubEvent } from "../../src/core/event.ts";
import { steeringEvent } from "../../src/core/steering.ts";

const ESCAPES = "a\tb\n\x1b]0;title\x07\x9b2J\u202ec";
const ESCAPED = "a\tb\n\\u001b]0;title\\u0007\\u009b2J\\u202ec";
const said = { steeringId: "steer_1", kind: "steer", text: ESCAPES } as const;
const events: HubEvent[] = [
  { type: "text-delta", id: "p0", delta: ESCAPES },
  steeringEvent(said, "applied"),
  { type: "error", errorText: ESCAPES, code: "upstream_error", retryable: false },
];

function shown(isTerminal: boolean) {
  const out: string[] = [];
  const show = createShow({
    isTerminal,
    screen: { printRaw: (text) => out.push(text), printError: (line) => out.push(line) },
  });
  events.forEach(show);
  return out;
}

Deno.test("what models, users and providers say steers no terminal", () => {
  const lines = [`said (steer, applied): ${ESCAPED}`, `error upstream_error: ${ESCAPED}`];
  assert.deepEqual(shown(true), [ESCAPED, ...lines]);
  assert.deepEqual(shown(false), [ESCAPES, ...lines]);
});
