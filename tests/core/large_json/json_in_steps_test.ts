import assert from "node:assert/strict";
import fc from "fast-check";
import { HubError, toHubError } from "../../../src/core/error.ts";
import { parseJsonInSteps, parsePlainJson } from "../../../src/core/large_json/json_in_steps.ts";
import { JsonShape } from "../../../src/core/large_json/json_shape.ts";
import { parseJsonBody } from "../../../src/core/parse_json.ts";
import { longestStretch } from "../../support/loop_watch.ts";
import { property } from "../../support/property.ts";
import { tookUnder } from "../../support/test_hub.ts";

const MIB = 1024 * 1024;
const bytesOf = (text: string) => new TextEncoder().encode(text);

async function outcomeOf(read: () => unknown): Promise<unknown> {
  try {
    return { value: await read() };
  } catch (error) {
    return { code: toHubError(error).code };
  }
}

/** JSON text with space in odd places, strings with escapes, and names that come twice. */
const text = fc.tuple(
  fc.jsonValue({ maxDepth: 5, stringUnit: "binary" }),
  fc.constantFrom(undefined, 1, "\t", " \r\n"),
).map(([value, space]) => JSON.stringify(value, null, space));

property(
  "parseJsonInSteps reads what parseJsonBody reads, wherever the pieces end",
  fc.tuple(text, fc.integer({ min: 1, max: 40 })),
  async ([json, pieceBytes]) => {
    const bytes = bytesOf(json);
    assert.deepEqual(
      await outcomeOf(() => parseJsonInSteps(bytes, {}, { wholeBytes: 0, pieceBytes })),
      await outcomeOf(() => parseJsonBody(bytes)),
    );
  },
  { runs: 1000 },
);

property(
  "parsePlainJson reads what JSON.parse reads, wherever the pieces end",
  fc.tuple(text, fc.integer({ min: 1, max: 40 })),
  async ([json, pieceBytes]) => {
    const read = await parsePlainJson(bytesOf(json), { wholeBytes: 0, pieceBytes });
    assert.equal(JSON.stringify(read), JSON.stringify(JSON.parse(json)));
  },
  { runs: 1000 },
);

Deno.test("parsePlainJson takes names that are no members of plain objects", async () => {
  const long = "x".repeat(50);
  const json = `{"__proto__":{"a":["${long}"]},"constructor":"${long}","prototype":1}`;
  const read = await parsePlainJson(bytesOf(json), { wholeBytes: 0, pieceBytes: 10 });
  assert.equal(JSON.stringify(read), json);
});

property(
  "parseJsonInSteps refuses what parseJsonBody refuses",
  fc.tuple(
    text,
    fc.nat(),
    fc.constantFrom("", ",", ":", "]", "}", "[", "{", '"', "0", "\\", " ", "null", "\u0001"),
    fc.nat({ max: 2 }),
    fc.integer({ min: 1, max: 40 }),
  ),
  async ([json, place, put, dropped, pieceBytes]) => {
    const at = place % (json.length + 1);
    const bytes = bytesOf(json.slice(0, at) + put + json.slice(at + dropped));
    assert.deepEqual(
      await outcomeOf(() => parseJsonInSteps(bytes, {}, { wholeBytes: 0, pieceBytes })),
      await outcomeOf(() => parseJsonBody(bytes)),
    );
  },
  { runs: 2000 },
);

Deno.test("parseJsonInSteps refuses broken JSON as such, whatever names came before", async () => {
  for (const end of ["", "}", ",}", ',"b":\u0001}', ',"b":"\\x"}']) {
    const bytes = bytesOf(`{"__proto__":{"a":"${"x".repeat(50)}"},"constructor":[1,2,3]${end}`);
    assert.deepEqual(
      await outcomeOf(() => parseJsonInSteps(bytes, {}, { wholeBytes: 0, pieceBytes: 5 })),
      { code: end === "}" ? "invalid_request" : "invalid_json" },
    );
  }
});

property(
  "JsonShape counts the same, wherever its bytes are cut",
  fc.tuple(text, fc.integer({ min: 1, max: 7 })),
  ([json, size]) => {
    const bytes = bytesOf(json);
    const bounds = { maxDepth: 3, maxKeys: 4, maxValues: 9 };
    const problemOf = (step: number) => {
      const shape = new JsonShape(bounds);
      try {
        for (let at = 0; at < bytes.length; at += step) shape.push(bytes.subarray(at, at + step));
        return null;
      } catch (error) {
        return error instanceof HubError ? error.message : error;
      }
    };
    assert.equal(problemOf(size), problemOf(bytes.length + 1));
  },
);

const list = (count: number, item: (at: number) => string) =>
  `[${Array.from({ length: count }, (_, at) => item(at)).join(",")}]`;

/** Documents of some 30 MB that are the most work for their size, and their results. */
const HOSTILE: Record<string, { json: () => string; code?: string }> = {
  "one string": { json: () => JSON.stringify({ a: "x".repeat(30 * MIB) }) },
  "one string of escapes": { json: () => `["${"\\n".repeat(15 * MIB)}"]` },
  "one string of backslashes": { json: () => `["${"\\\\".repeat(15 * MIB)}"]` },
  "one string of escaped quotes": { json: () => `["${'\\"'.repeat(15 * MIB)}"]` },
  "one string of escaped halves": { json: () => `["${"\\ud83d\\ude00".repeat(2 * MIB)}"]` },
  "one string of two-byte characters": { json: () => `["${"ä".repeat(15 * MIB)}"]` },
  "a million numbers": { json: () => list(999_000, (at) => `1${at}00000000000000000000`) },
  "a million lists": { json: () => list(999_000 / 2, () => "[]") },
  "200,000 names": {
    json: () =>
      list(10, () => `{${Array.from({ length: 19_900 }, (_, at) => `"k${at}":${at}`).join(",")}}`),
  },
  "many objects": { json: () => list(190_000, (at) => `{"k${at % 1000}":"${"v".repeat(100)}"}`) },
  "nested lists of long strings": {
    json: () => `${"[".repeat(60)}${list(60, () => `"${"y".repeat(MIB / 2)}"`)}${"]".repeat(60)}`,
  },
  "three million levels": {
    json: () => "[".repeat(3_000_000) + "]".repeat(3_000_000),
    code: "invalid_request",
  },
  "ten million values": { json: () => list(10_000_000, () => "1"), code: "invalid_request" },
  "space alone": { json: () => " ".repeat(30 * MIB), code: "invalid_json" },
  "a number without an end": { json: () => "1".repeat(30 * MIB), code: "invalid_json" },
  "a string without an end": { json: () => `"${"x".repeat(30 * MIB)}`, code: "invalid_json" },
};

for (const [name, { json, code }] of Object.entries(HOSTILE)) {
  Deno.test(`parseJsonInSteps lets others have their turn: ${name}`, async () => {
    const bytes = bytesOf(json());
    await tookUnder(50, () =>
      longestStretch(async () => {
        const outcome = await outcomeOf(() => parseJsonInSteps(bytes));
        assert.deepEqual(
          Object.hasOwn(outcome as object, "value") ? undefined : outcome,
          code === undefined ? undefined : { code },
        );
      }));
  });
}
