import assert from "node:assert/strict";
import { KeyGates } from "../../src/policy/key_gates.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { createTestGate } from "../support/gates.ts";

function setup() {
  const clock = createFakeClock();
  return new KeyGates({
    limitOf: (keyId) => keyId.startsWith("free") ? null : 1,
    create: (_, max) => createTestGate(clock, { max }),
  });
}

Deno.test("each key has a gate of its own, and one without a limit has none", () => {
  const gates = setup();
  assert.equal(gates.gateOf("free"), null);
  assert.equal(gates.gateOf("a"), gates.gateOf("a"));
  assert.ok(gates.gateOf("a")?.tryEnter());
  assert.ok(gates.gateOf("b")?.tryEnter());
  assert.equal(gates.gateOf("a")?.tryEnter(), false);
  assert.equal(gates.size, 2);
});

Deno.test("a limit that changes holds for those who come next; who is inside leaves by the old gate", () => {
  const clock = createFakeClock();
  let limit: number | null = 1;
  const gates = new KeyGates({
    limitOf: () => limit,
    create: (_, max) => createTestGate(clock, { max }),
  });
  const old = gates.gateOf("a");
  assert.ok(old?.tryEnter());
  limit = 2;
  const next = gates.gateOf("a");
  assert.ok(next !== old && next?.tryEnter() && next.tryEnter() && !next.tryEnter());
  old?.leave();
  limit = null;
  assert.equal(gates.gateOf("a"), null);
});

Deno.test("gates that stand empty are forgotten in time, those in use never", () => {
  const gates = setup();
  for (let key = 0; key < 10; key++) assert.ok(gates.gateOf(`busy-${key}`)?.tryEnter());
  for (let key = 0; key < 5000; key++) gates.gateOf(`idle-${key}`);
  assert.ok(gates.size <= 1010, `${gates.size} gates`);
  for (let key = 0; key < 10; key++) {
    assert.equal(gates.gateOf(`busy-${key}`)?.tryEnter(), false);
  }
});
