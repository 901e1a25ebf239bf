import assert from "node:assert/strict";
import fc from "fast-check";
import { encodeJsonInSteps, stringifyInSteps } from "../../../src/core/large_json/encode_json.ts";
import type { Json } from "../../../src/core/json.ts";
import { longestStretch } from "../../support/loop_watch.ts";
import { property } from "../../support/property.ts";
import { tookUnder } from "../../support/test_hub.ts";

const MIB = 1024 * 1024;

property(
  "encodeJsonInSteps writes what JSON.stringify writes, wherever the pieces end",
  fc.tuple(
    fc.jsonValue({ maxDepth: 5, stringUnit: "binary" }),
    fc.integer({ min: 0, max: 60 }),
    fc.integer({ min: 1, max: 40 }),
  ),
  async ([value, wholeUnits, pieceUnits]) => {
    const json = value as Json;
    const wanted = JSON.stringify(json);
    const sizes = { wholeUnits, pieceUnits };
    assert.equal(new TextDecoder().decode(await encodeJsonInSteps(json, sizes)), wanted);
    assert.equal(await stringifyInSteps(json, sizes), wanted);
  },
  { runs: 1000 },
);

Deno.test("encodeJsonInSteps keeps halves of characters apart, and leaves out what is undefined", async () => {
  const sizes = { wholeUnits: 0, pieceUnits: 1 };
  for (
    const value of ["a\ud83d\ude00b\ud83d", "\ude00\ud83d\ud83d\ude00", {
      a: undefined,
      b: [undefined],
    }]
  ) {
    const json = value as unknown as Json;
    assert.equal(await stringifyInSteps(json, sizes), JSON.stringify(json));
  }
});

const HOSTILE: Record<string, () => Json> = {
  "one text": () => "x".repeat(30 * MIB),
  "quotes": () => ({ a: ['"'.repeat(15 * MIB)] }),
  "lone halves": () => "\ud800".repeat(5 * MIB),
  "many names": () =>
    Array.from(
      { length: 10 },
      () => Object.fromEntries(Array.from({ length: 19_000 }, (_, at) => [`k${at}`, at])),
    ),
  "many items": () => Array.from({ length: 900_000 }, (_, at) => at),
};

for (const [name, make] of Object.entries(HOSTILE)) {
  Deno.test(`encodeJsonInSteps lets others have their turn: ${name}`, async () => {
    const value = make();
    await tookUnder(50, () => longestStretch(() => encodeJsonInSteps(value)));
  });
}
