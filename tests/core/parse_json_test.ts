import assert from "node:assert/strict";
import fc from "fast-check";
import type { HubError } from "../../src/core/error.ts";
import { parseJsonBody } from "../../src/core/parse_json.ts";
import { property } from "../support/property.ts";
import { tookUnder } from "../support/test_hub.ts";

const parse = (text: string) => parseJsonBody(new TextEncoder().encode(text));

function refuses(text: string, code: string, message: RegExp): void {
  assert.throws(() => parse(text), (error: HubError) => {
    assert.equal(error.code, code);
    assert.match(error.message, message);
    return true;
  });
}

property("every harmless value is read as JSON.parse reads it", fc.jsonValue(), (value) => {
  const text = JSON.stringify(value);
  const hasForbidden = /"(?:__proto__|constructor|prototype)":/.test(text);
  const isBroken = /\\u(?:0000|d[89a-f])/.test(text);
  if (!hasForbidden && !isBroken) assert.deepEqual(parse(text), JSON.parse(text));
});

Deno.test("NUL and lone surrogates are replaced, in keys too; whole pairs stay", () => {
  assert.deepEqual(
    parse('{"a\\u0000":["\\ud83d","\\ud83d\\ude00","\\\\u0000","x\\uDE00"]}'),
    { "a\ufffd": ["\ufffd", "😀", "\\u0000", "x\ufffd"] },
  );
});

Deno.test("depth and keys are bounded before anything is built", async () => {
  assert.ok(parse("[".repeat(64) + "]".repeat(64)));
  refuses("[".repeat(65) + "]".repeat(65), "invalid_request", /more than 64 levels deep/);
  await tookUnder(500, () => {
    const startMs = performance.now();
    refuses("[".repeat(5_000_000), "invalid_request", /more than 64 levels deep/);
    refuses('{"a":'.repeat(1_000_000), "invalid_request", /more than 64 levels deep/);
    return Promise.resolve(performance.now() - startMs);
  });
  const keys = Array.from({ length: 200_001 }, (_, n) => `"${n}":0`).join(",");
  refuses(`{${keys}}`, "invalid_request", /an object with more than 20000 members/);
  refuses(`[${'{"a":0},'.repeat(200_001)}0]`, "invalid_request", /more than 200000 keys/);
});

Deno.test("brackets and colons inside strings do not count", () => {
  const text = `{"a":"${"[{:".repeat(1000)}","b":"\\"[[[\\\\","c":"\\\\\\"{"}`;
  assert.deepEqual(parse(text), JSON.parse(text));
  assert.throws(() => parseJsonBody(new TextEncoder().encode('"\\\\"[[['), { maxDepth: 2 }));
});

Deno.test("keys that pollute prototypes are refused, however they are written", () => {
  for (
    const key of ["__proto__", "constructor", "prototype", "__proto\\u005f_", "\\u0063onstructor"]
  ) {
    refuses(`{"a":[{"${key}":1}]}`, "invalid_request", /has a key named/);
  }
  assert.deepEqual(parse('{"a":"__proto__","b":["constructor"]}'), {
    a: "__proto__",
    b: ["constructor"],
  });
});

Deno.test("what is no JSON is told without quoting it", () => {
  refuses("", "invalid_json", /empty/);
  refuses('{"key":"sk-secret"', "invalid_json", /^(?!.*secret)/);
  refuses("{'a':1}", "invalid_json", /not valid JSON/);
  refuses("NaN", "invalid_json", /not valid JSON/);
  assert.throws(() => parseJsonBody(new Uint8Array([0x22, 0xff, 0x22])), /not UTF-8/);
});
