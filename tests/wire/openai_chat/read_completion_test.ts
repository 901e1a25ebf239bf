import fc from "fast-check";
import assert from "node:assert/strict";
import { HubError } from "../../../src/core/error.ts";
import { isJsonObject } from "../../../src/core/json.ts";
import { hasError, readProviderError } from "../../../src/wire/errors/read_error.ts";
import { toAnswerError } from "../../../src/wire/upstream_error.ts";
import { readUsage } from "../../../src/wire/openai_chat/chat_usage.ts";
import { MemberScan } from "../../../src/wire/member_scan.ts";
import { readCompletionUsage } from "../../../src/wire/openai_chat/read_completion.ts";
import { property } from "../../support/property.ts";

const redact = (text: string) => text;
const encode = (text: string) => new TextEncoder().encode(text);

/** What the scan must agree with: the whole answer parsed. */
function byParsing(bytes: Uint8Array): unknown {
  let answer: unknown;
  try {
    answer = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return "upstream_malformed";
  }
  if (!isJsonObject(answer)) return "upstream_malformed";
  if (hasError(answer) && !("choices" in answer)) {
    const members = ["usage", "error", "object", "message", "code", "type"];
    const known = Object.fromEntries(members.map((key) => [key, answer[key] ?? null]));
    const { code, message } = toAnswerError(readProviderError(known, redact), { wire: "chat" });
    return `${code} ${message}`;
  }
  return readUsage(answer["usage"]);
}

async function byScanning(bytes: Uint8Array): Promise<unknown> {
  try {
    return await readCompletionUsage(bytes, redact);
  } catch (error) {
    assert.ok(error instanceof HubError, String(error));
    return error.code === "upstream_malformed" ? error.code : `${error.code} ${error.message}`;
  }
}

const agree = async (bytes: Uint8Array) =>
  assert.deepEqual(await byScanning(bytes), byParsing(bytes));

/** The text of a string with some of its characters as escapes. */
const name = fc.tuple(
  fc.constantFrom("usage", "error", "choices", "id", "__proto__", "", "usag\u00e9", "\u{1f600}"),
  fc.array(fc.boolean(), { minLength: 7, maxLength: 7 }),
).map(([text, escaped]) =>
  `"${
    [...text].map((character, at) =>
      escaped[at] && character.length === 1
        ? `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`
        : character
    ).join("")
  }"`
);
const number = fc.oneof(
  fc.constantFrom("0", "-0", "1", "1e3", "1E-2", "12.5", "-7", "1e400", "1e15", "01", "1.", ".5"),
  fc.constantFrom("+1", "0x1", "1e", "-", "NaN", "Infinity", "9007199254740993"),
);
const space = fc.constantFrom("", "", "", " ", "\n\t\r ", "\u00a0", "\ufeff", "\x0b");
const value = fc.letrec((tie) => ({
  usage: fc.array(
    fc.tuple(
      fc.constantFrom('"prompt_tokens"', '"completion_tokens"', '"total_tokens"', '"x"'),
      fc.oneof({ weight: 4, arbitrary: number }, tie("value")),
    ),
    { maxLength: 4 },
  ).map((members) => `{${members.map(([key, text]) => `${key}:${text}`).join(",")}}`),
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    number,
    fc.constantFrom("null", "true", "false", "nul", "undefined", "", '"', '"a', "'a'"),
    fc.string({ unit: "binary", maxLength: 6 }).map((text) => JSON.stringify(text)),
    fc.string({ unit: "binary-ascii", maxLength: 6 }).map((text) => `"${text}"`),
    fc.constantFrom('"\\u12g4"', '"\\x"', '"\\ud800"', '"\\/"', '"\x7f"', '"\u2028"'),
    fc.array(tie("value"), { maxLength: 3 }).map((items) => `[${items.join(",")}]`),
    tie("usage"),
    tie("object"),
  ),
  object: fc.array(fc.tuple(space, name, space, tie("value"), space), { maxLength: 5 }).map(
    (members) =>
      `{${members.map(([a, key, b, text, c]) => `${a}${key}${b}:${b}${text}${c}`).join(",")}}`,
  ),
}));
const document = fc.tuple(space, value.object, space, fc.constantFrom("", "", "", "{}", "x", ","))
  .map((parts) => parts.join(""));

property("an answer is scanned as it would be parsed", document, (text) => agree(encode(text)), {
  runs: 5000,
});

property(
  "an answer with any byte changed, put in or taken out is scanned as it would be parsed",
  fc.tuple(document, fc.nat(), fc.nat(255), fc.constantFrom("change", "insert", "remove", "cut")),
  async ([text, place, byte, how]) => {
    const bytes = [...encode(text)];
    const at = place % Math.max(1, bytes.length);
    if (how === "change") bytes[at] = byte;
    else if (how === "insert") bytes.splice(at, 0, byte);
    else if (how === "remove") bytes.splice(at, 1);
    else bytes.length = at;
    await agree(Uint8Array.from(bytes));
  },
  { runs: 5000 },
);

property(
  "JSON is valid to the scanner exactly when it is to the parser",
  fc.oneof(document, value.value.map(String)),
  (text) => {
    const scans = () => new MemberScan(encode(`{"a":${text}}`), () => {}).scan();
    let valid = true;
    try {
      // Not through a decoder, which would take a byte order mark away.
      JSON.parse(text.toWellFormed());
    } catch {
      valid = false;
    }
    if (valid) scans();
    else assert.throws(scans, HubError);
  },
  { runs: 5000 },
);

Deno.test("answers at the edges are scanned as they would be parsed", async () => {
  const usage = '"usage":{"prompt_tokens":1,"completion_tokens":2}';
  const bomb = "[".repeat(100_000);
  for (
    const text of [
      "",
      " ",
      "{",
      "{}",
      "[]",
      "null",
      `\ufeff{${usage}}`,
      `\ufeff\ufeff{${usage}}`,
      `{${usage},"usage":null}`,
      `{"usage":null,${usage}}`,
      `{"usage":{},"\\u0075sage":{"prompt_tokens":5}}`,
      `{"error":{"message":"no"},"error":null,${usage}}`,
      `{"error":null,"error":{"message":"no"}}`,
      `{"error":"no","choices":[]}`,
      `{"error":"no","__proto__":{"choices":[]}}`,
      `{"__proto__":{"usage":{"prompt_tokens":1}}}`,
      `{"error":0}`,
      `{"error":false}`,
      `{"error":""}`,
      `{${usage},"deep":${"[".repeat(63)}${"]".repeat(63)}}`,
      `{${usage},"deep":${"[".repeat(64)}${"]".repeat(64)}}`,
      `{${usage},"deep":${"[".repeat(500)}${"]".repeat(500)}}`,
      `{"usage":{"prompt_tokens":1,"d":${"[".repeat(100)}${"]".repeat(100)}}}`,
      `{${usage},"deep":${bomb}`,
      `{${usage},"many":{${'"a":1,'.repeat(200_001)}"b":2}}`,
      `{${usage},"large":${"9".repeat(100_000)}}`,
      `{"usage":{"prompt_tokens":1e400,"completion_tokens":-0}}`,
      `{"usage":{"prompt_tokens":"1"}}`,
      `{${usage}}\0`,
      `{${usage},}`,
      `{,${usage}}`,
      `{${usage}`,
    ]
  ) await agree(encode(text));
  // Bytes that are no UTF-8, inside strings and between them.
  const bytes = encode(`{"a":"??",${usage} }`);
  for (const pair of [[0xff, 0xfe], [0xc3, 0x28], [0xe2, 0x82], [0xf0, 0x9f], [0xc0, 0xa2]]) {
    for (const at of [1, 2, 6, 7, 8, bytes.length - 3]) {
      const broken = bytes.slice();
      broken.set(pair, at);
      await agree(broken);
    }
  }
});
