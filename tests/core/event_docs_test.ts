import assert from "node:assert/strict";
import { FINISH_REASONS, type HubEventType, isTransition } from "../../src/core/event.ts";
import { steeringEvent } from "../../src/core/steering.ts";

/** Every event type; the compiler complains when one is missing. */
const TYPES: Record<HubEventType, true> = {
  "start": true,
  "step-start": true,
  "text-start": true,
  "text-delta": true,
  "text-end": true,
  "reasoning-start": true,
  "reasoning-delta": true,
  "reasoning-end": true,
  "tool-input-start": true,
  "tool-input-delta": true,
  "tool-input-available": true,
  "tool-input-error": true,
  "tool-approval-request": true,
  "tool-approval-response": true,
  "tool-output-available": true,
  "tool-output-error": true,
  "tool-output-denied": true,
  "step-finish": true,
  "step-reset": true,
  "source-url": true,
  "file": true,
  "data": true,
  "error": true,
  "abort": true,
  "finish": true,
};

const docs = await Deno.readTextFile(new URL("../../docs/events.md", import.meta.url));
const vocabulary = docs.slice(docs.indexOf("## Vocabulary"), docs.indexOf("## Frames"));

Deno.test("docs/events.md names every event with its class, and no other", () => {
  const rows = [...vocabulary.matchAll(/^\| `([a-z-]+)`\s*\| (\w+)/gm)];
  const documented = Object.fromEntries(rows.map(([, type, kind]) => [type, kind]));
  const actual = Object.keys(TYPES).map((type) => {
    const event = { type } as Parameters<typeof isTransition>[0];
    return [type, isTransition(event) ? "transition" : "delta"];
  });
  assert.deepEqual(documented, Object.fromEntries(actual));
});

Deno.test("docs/events.md names every finish reason and every rule", () => {
  for (const reason of FINISH_REASONS) assert.ok(vocabulary.includes(`\`${reason}\``), reason);
  const rules = [...docs.matchAll(/^\| (I\d+)\s*\|/gm)].map(([, rule]) => rule);
  assert.deepEqual(rules, Array.from({ length: 16 }, (_, at) => `I${at + 1}`));
});

Deno.test("what users say is a transition, other data is not", () => {
  const said = steeringEvent({ steeringId: "steer_1", kind: "steer", text: "so" }, "applied");
  assert.equal(isTransition(said), true);
  assert.equal(isTransition({ type: "data", name: "todo", data: 1 }), false);
});
