import assert from "node:assert/strict";
import fc from "fast-check";
import { createRedactor, REDACTED } from "../../src/telemetry/redact.ts";
import { isSecretName } from "../../src/telemetry/secret_shapes.ts";
import { property } from "../support/property.ts";

const blind = createRedactor({ secrets: [] });

Deno.test("known secrets go, wherever and however they are written", () => {
  const secret = 'pass "word" \\ 100% ünïcode';
  const { redact } = createRedactor({ secrets: [secret] });
  const writings = [
    secret,
    JSON.stringify({ a: secret }),
    JSON.stringify({ body: JSON.stringify({ a: secret }) }),
    `https://x.example/?q=${encodeURIComponent(secret)}`,
    ...["", "u", "us"].map((user) => new TextEncoder().encode(`${user}${secret}`).toBase64()),
  ];
  for (const text of writings) {
    const redacted = redact(text);
    assert.ok(redacted.includes(REDACTED), text);
    assert.ok(!redacted.includes("word"), redacted);
    assert.ok(!redacted.includes("code"), redacted);
  }
});

Deno.test("secrets learned later count too; short ones are left alone", () => {
  const redactor = createRedactor({ secrets: ["short12"] });
  assert.equal(redactor.redact("short12 later-secret"), "short12 later-secret");
  redactor.add("later-secret");
  redactor.add("");
  assert.equal(redactor.redact("short12 later-secret"), `short12 ${REDACTED}`);
});

Deno.test("secrets that overlap or contain each other leave nothing", () => {
  const { redact } = createRedactor({ secrets: ["abcdefgh1234", "1234zyxwvut", "abcdefgh"] });
  assert.equal(redact("<abcdefgh1234zyxwvut>"), `<${REDACTED}>`);
  assert.equal(redact("<abcdefghabcdefgh>"), `<${REDACTED}>`);
  assert.equal(redact("<abcdefgh-abcdefgh>"), `<${REDACTED}-${REDACTED}>`);
});

Deno.test("credentials are known by their form", () => {
  const cases: [string, string][] = [
    ["key sk-proj-abcdef0123456789", `key sk-${REDACTED}`],
    ["lh_0123456789abcdef.", `lh_${REDACTED}.`],
    ["hub_live_0123456789abcdef", `hub_live_${REDACTED}`],
    ["gsk_0123456789abcdef", `gsk_${REDACTED}`],
    ["AIzaSyA0123456789abcdef", `AIza${REDACTED}`],
    ["Bearer abcdef.123456", `Bearer ${REDACTED}`],
    ["bearer ABCDEFGHIJKLMNOPQRST", `bearer ${REDACTED}`],
    ["Basic dXNlcjpwYXNzd29yZA==", `Basic ${REDACTED}`],
    ["postgres://hub:pa55@db/hub", `postgres://hub:${REDACTED}@db/hub`],
    ["redis://:p@ss@db", `redis://:${REDACTED}@db`],
    ["jwt eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", `jwt eyJ${REDACTED}`],
    [String.raw`{"m":"line\nsk-proj-abcdef0123456789"}`, String.raw`{"m":"line\nsk-${REDACTED}"}`],
  ];
  for (const [text, wanted] of cases) assert.equal(blind.redact(text), wanted);
});

Deno.test("values behind a name go, in JSON, headers, URLs and connection strings", () => {
  const cases: [string, string][] = [
    [`{"apiKey":"abc","n":1}`, `{"apiKey":"${REDACTED}","n":1}`],
    [`{"x-api-key" : "a\\"b"}`, `{"x-api-key" : "${REDACTED}"}`],
    [`{"openai_api_key":""}`, `{"openai_api_key":"${REDACTED}"}`],
    [`{"client_secret":"abc","next":"x"}`, `{"client_secret":"${REDACTED}","next":"x"}`],
    [
      String.raw`{"body":"{\"password\":\"a\\\"b\",\"n\":1}"}`,
      String
        .raw`{"body":"{\"password\":\"${REDACTED}\",\"n\":1}"}`,
    ],
    [
      `[["authorization","abc"],["accept","x"]]`,
      `[["authorization","${REDACTED}"],["accept","x"]]`,
    ],
    ["authorization: Digest user, response=1", `authorization: ${REDACTED}`],
    ["Set-Cookie: a=b; Path=/\r\nx: y", `Set-Cookie: ${REDACTED}\r\nx: y`],
    ["GET /v1?api_key=abc&x=1", `GET /v1?api_key=${REDACTED}&x=1`],
    ["host=db password='a b' user=u", `host=db password=${REDACTED} user=u`],
    ["access_token=abc;", `access_token=${REDACTED};`],
    [`token="abcd" x`, `token=${REDACTED} x`],
    [String.raw`{"m":"a\npassword=abc\nb"}`, String.raw`{"m":"a\npassword=${REDACTED}\nb"}`],
    ["password: hunter22 and", `password: ${REDACTED} and`],
  ];
  for (const [text, wanted] of cases) assert.equal(blind.redact(text), wanted);
});

Deno.test("innocent text stays as it is", () => {
  for (
    const text of [
      `{"time":"2027-01-15T08:00:00.000Z","level":"info","message":"Request answered","status":200}`,
      `{"usage":{"promptTokens":12,"completionTokens":3,"totalTokens":15},"firstTokenMs":120}`,
      `{"requestId":"req_0197f2c4a8b07d3e9c1b2a3f4d5e6f70","keyId":"key_0197f2c4a8b07d3e9c1b2a3f4d5e6f70"}`,
      "Wrong token: expected a comma",
      "Basic authentication is not supported, use bearer authentication",
      "http://127.0.0.1:4141/v1/models and user@example.org",
      "Provider openai has no key here; set OPENAI_API_KEY or providers.openai.apiKey",
      "task-force-alpha-bravo-charlie sk-",
      "openai/gpt-oss-120b, accounts/fireworks/models/gpt-oss-120b",
    ]
  ) assert.equal(blind.redact(text), text);
});

Deno.test("names of credentials are known, names that count tokens are not", () => {
  for (
    const name of [
      "authorization",
      "Proxy-Authorization",
      "x-api-key",
      "apiKey",
      "OPENAI_API_KEY",
      "set-cookie",
      "clientSecret",
      "refresh_token",
      "db.password",
      "credentials",
    ]
  ) assert.ok(isSecretName(name), name);
  for (
    const name of [
      "promptTokens",
      "firstTokenMs",
      "keyId",
      "keyName",
      "tokenizer",
      "secretary",
      "author",
      "key",
      "passed",
    ]
  ) assert.ok(!isSecretName(name), name);
});

const anyText = fc.string({ unit: "binary", maxLength: 30 });
const awkward = fc.string({
  unit: fc.constantFrom("\\", '"', "n", "u", "0", "a", "\n", "=", ":", "\u0001"),
});
const piece = fc.oneof(
  anyText,
  awkward,
  fc.constantFrom(
    "password=",
    "token",
    '"apiKey":"',
    "Bearer ",
    "sk-",
    "https://a:",
    "@",
    "authorization: ",
    "eyJ",
    "\\",
    REDACTED,
  ),
);
const line = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(""));
const secret = fc.oneof(
  fc.string({ minLength: 8, maxLength: 20 }),
  fc.string({
    unit: fc.constantFrom("\\", '"', "n", "a", "b", "\n", "é", "😀"),
    minLength: 8,
    maxLength: 12,
  }),
);

property(
  "JSON stays JSON, whatever the secrets and the texts are",
  fc.tuple(fc.array(secret, { maxLength: 3 }), fc.jsonValue(), fc.array(line, { maxLength: 4 })),
  ([secrets, value, lines]) => {
    const { redact } = createRedactor({ secrets });
    const planted = lines.map((text, index) => text + (secrets[index] ?? "") + text);
    JSON.parse(redact(JSON.stringify({ value, planted, nested: JSON.stringify(planted) })));
  },
  { runs: 1500 },
);

property(
  "no secret comes out of a line of JSON",
  fc.tuple(fc.array(secret, { minLength: 1, maxLength: 3 }), line, line),
  ([secrets, before, after]) => {
    const { redact } = createRedactor({ secrets });
    const line = JSON.stringify({ values: secrets.map((secret) => before + secret + after) });
    const { values } = JSON.parse(redact(line)) as { values: string[] };
    for (const secret of secrets) {
      // A secret may be a piece of the very text that stands in for it.
      if (REDACTED.includes(secret)) continue;
      for (const value of values) assert.ok(!value.includes(secret), value);
    }
  },
  { runs: 1000 },
);

property(
  "what was redacted is not changed again",
  fc.tuple(fc.array(secret, { maxLength: 2 }), line),
  ([secrets, text]) => {
    const { redact } = createRedactor({ secrets });
    const once = redact(text + secrets.join(" "));
    assert.equal(redact(once), once);
  },
  { runs: 1000 },
);

Deno.test("hostile text takes no longer than other text", () => {
  const size = 64 * 1024;
  const texts = [
    "a",
    "-",
    "\\",
    '"',
    "a.",
    "token",
    "token=",
    '"token":"',
    '\\"token\\":\\"',
    "authorization:",
    "a://",
    "http://a:",
    "eyJaaaaaaaa.",
    "eyJaaaaaaaa",
    "bearer ",
    "bearer aaaaaaaaa+",
    "sk-",
    "password=' ",
    "password : ",
  ].map((unit) => unit.repeat(Math.ceil(size / unit.length)) + " token=@");
  const start = performance.now();
  for (const text of texts) blind.redact(text);
  // Quadratic patterns take minutes here; the bound leaves room for a busy machine.
  assert.ok(performance.now() - start < 20_000, `${performance.now() - start} ms`);
});
