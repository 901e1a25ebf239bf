import assert from "node:assert/strict";
import fc from "fast-check";
import { createIdSource, fromUuid, isId, parseId, toUuid } from "../../src/core/id.ts";
import { property } from "../support/property.ts";

const START_MS = 1_800_000_000_000;
const randomBytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));

/** Ids whose clock a test sets. */
function setup(bytes = randomBytes) {
  const time = { ms: START_MS };
  return { time, ids: createIdSource(() => time.ms, bytes) };
}

Deno.test("an id is its prefix and a UUIDv7 of the time and the random bytes", () => {
  const { ids } = setup((length) => new Uint8Array(length).fill(0xff));
  const id = ids.next("ses");
  assert.equal(id, "ses_01a3185c50007000bfffffffffffffff");
  assert.equal(toUuid(id), "01a3185c-5000-7000-bfff-ffffffffffff");
  assert.match(toUuid(setup().ids.next("run")), /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/);
});

Deno.test("ids of one millisecond come in order and differ, past the counter too", () => {
  const { ids } = setup(() => new Uint8Array(8));
  const made = Array.from({ length: 10_000 }, () => ids.next("msg"));
  assert.equal(new Set(made).size, made.length);
  assert.deepEqual(made.toSorted(), made);
});

Deno.test("ids made after the counter ran over still come before those of later times", () => {
  const { ids, time } = setup();
  const made = Array.from({ length: 5000 }, () => ids.next("msg"));
  for (let step = 0; step < 5; step++) {
    time.ms++;
    made.push(ids.next("msg"));
  }
  assert.deepEqual(made.toSorted(), made);
});

Deno.test("ids of two sources at one time differ by their random bytes", () => {
  assert.notEqual(setup().ids.next("run"), setup().ids.next("run"));
});

property(
  "ids sort as they were made, whatever the clock does",
  fc.array(fc.integer({ min: -5000, max: 5000 }), { maxLength: 50 }),
  (steps) => {
    const { ids, time } = setup();
    const made: string[] = [];
    for (const step of steps) {
      time.ms += step;
      made.push(ids.next("run"), ids.next("run"));
    }
    assert.deepEqual(made.toSorted(), made);
    assert.equal(new Set(made).size, made.length);
  },
);

property("an id goes into Postgres and comes back the same", fc.uuid(), (uuid) => {
  const id = fromUuid("call", uuid);
  assert.ok(isId("call", id));
  assert.equal(toUuid(id), uuid);
  assert.equal(parseId("call", id), id);
});

const GOOD = `run_${"0123456789abcdef".repeat(2)}`;

Deno.test("an id of the right form is taken as it is", () => {
  assert.equal(parseId("run", GOOD), GOOD);
});

for (
  const [name, text] of [
    ["of another kind", GOOD.replace("run", "ses")],
    ["without a prefix", GOOD.slice(4)],
    ["in capitals", GOOD.toUpperCase()],
    ["that is too short", GOOD.slice(0, -1)],
    ["that is too long", `${GOOD}0`],
    ["with a line end", `${GOOD}\n`],
    ["with dashes", "run_01a2fa17-5000-7000-bfff-ffffffffffff"],
    ["with SQL in it", `${GOOD.slice(0, -3)}'--`],
    ["that is empty", ""],
  ] as const
) {
  Deno.test(`an id ${name} names nothing`, () => {
    assert.equal(isId("run", text), false);
    assert.throws(() => parseId("run", text), { code: "not_found", status: 404 });
  });
}

Deno.test("a long text is not repeated whole", () => {
  assert.throws(
    () => parseId("run", "x".repeat(10_000)),
    (error: Error) => error.message.length < 200,
  );
});
