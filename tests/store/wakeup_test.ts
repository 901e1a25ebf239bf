import assert from "node:assert/strict";
import fc from "fast-check";
import { MAX_PAYLOAD_BYTES, parseWakeup, toPayloads, type Wakeup } from "../../src/store/wakeup.ts";

const ids = fc.array(
  fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }).map((id) =>
    `run_${id.toString(16).padStart(32, "0")}`
  ),
  { maxLength: 600, size: "max" },
);

Deno.test("payloads fit into a notification, and carry together what was told, in order", () => {
  fc.assert(
    fc.property(ids, ids, fc.boolean(), (runs, stops, keys) => {
      const payloads = toPayloads({ runs, stops, ...(keys ? { keys } : {}) });
      for (const payload of payloads) {
        assert.ok(new TextEncoder().encode(payload).length <= MAX_PAYLOAD_BYTES);
      }
      const read = payloads.map((payload) => parseWakeup(payload) ?? assert.fail(payload));
      assert.deepEqual(read.flatMap((wakeup) => wakeup.runs ?? []), runs);
      assert.deepEqual(read.flatMap((wakeup) => wakeup.stops ?? []), stops);
      assert.equal(read.filter((wakeup) => wakeup.keys === true).length, keys ? 1 : 0);
      assert.ok(payloads.length <= Math.ceil((runs.length + stops.length) / 200) + 1);
    }),
    { numRuns: 50 },
  );
});

Deno.test("nothing to tell is no payload", () => {
  assert.deepEqual(toPayloads({}), []);
  assert.deepEqual(toPayloads({ runs: [], stops: [] }), []);
  assert.deepEqual(toPayloads({ beat: true }), ['{"beat":true}']);
});

Deno.test("what no hub sends is no wakeup; members of newer hubs are let through", () => {
  const id = `run_${"0".repeat(32)}`;
  for (
    const payload of [
      "",
      "null",
      "1",
      "[]",
      "{",
      '{"runs":1}',
      '{"runs":["run_1"]}',
      `{"runs":["${id}x"]}`,
      '{"stops":[null]}',
      '{"keys":"yes"}',
      '{"granted":{"tenantId":"t","server":"s","owner":"nobody"}}',
    ]
  ) assert.equal(parseWakeup(payload), null, payload);
  const wakeup: Wakeup & { more: number } = { runs: [id], more: 1 };
  assert.deepEqual(parseWakeup(JSON.stringify(wakeup)), wakeup);
});
