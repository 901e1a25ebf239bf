import assert from "node:assert/strict";
import fc from "fast-check";
import { HubError } from "../../src/core/error.ts";
import type { Json } from "../../src/core/json.ts";
import { requestFieldsOf } from "../../src/providers/request_fields.ts";
import { readFields } from "../../src/wire/read_fields.ts";
import { longestStretch } from "../support/loop_watch.ts";
import { property } from "../support/property.ts";
import { respell, SPELLINGS } from "../support/field_spellings.ts";
import { tookUnder } from "../support/test_hub.ts";

const encoder = new TextEncoder();
const STRICT = { isStrict: true, allowed: [] };
const ASSUMED = 4096;

function rulesOf(part: string, kind: Parameters<typeof requestFieldsOf>[1] = "openai-compatible") {
  const rules = requestFieldsOf(part, kind);
  assert.ok(rules !== null);
  return rules;
}

const read = (text: string, { part = "chat", kind, ...reading }: {
  part?: string;
  kind?: Parameters<typeof requestFieldsOf>[1];
  allowed?: string[];
  isStrict?: boolean;
} = {}) => readFields(encoder.encode(text), rulesOf(part, kind), { ...STRICT, ...reading });

async function refusalOf(
  text: string,
  options: Parameters<typeof read>[1] = {},
): Promise<HubError> {
  try {
    await read(text, options);
  } catch (error) {
    assert.ok(error instanceof HubError);
    assert.equal(error.clientCode, "field_not_allowed");
    return error;
  }
  assert.fail(`${text} passes`);
}

Deno.test("readFields: what a request asks for, the largest where it says it twice", async () => {
  assert.deepEqual(await read('{"model":"m","max_tokens":10,"max_completion_tokens":300,"n":3}'), {
    limit: 300,
    isLimited: true,
    added: 0,
    answers: 3,
  });
  assert.deepEqual((await read('{"n":2,"best_of":5}')).answers, 5);
  assert.deepEqual((await read('{"thinking_budget":5000,"max_tokens":10}')).added, 5000);
  assert.equal((await read('{"reasoning":{"max_tokens":9000},"max_tokens":10}')).limit, 9000);
  assert.equal((await read('{"prompt":["a","b"],"n":2}', { part: "completions" })).answers, 4);
  assert.equal((await read('{"prompt":[1,2,3]}', { part: "completions" })).answers, 1);
});

Deno.test("readFields: a bound that the provider may ignore, or read as none, is none", async () => {
  assert.equal((await read('{"max_completion_tokens":10}')).isLimited, false);
  assert.equal((await read('{"max_completion_tokens":10}', { kind: "openai" })).isLimited, true);
  assert.equal((await read('{"max_tokens":0}')).isLimited, false);
  assert.equal((await read('{"max_tokens":10,"max_completion_tokens":-1}')).isLimited, false);
  assert.equal(
    (await read('{"options":{"num_predict":-1},"max_tokens":5}', { kind: "ollama" })).limit,
    5,
  );
});

Deno.test("readFields: a strict reading names the field that it refuses", async () => {
  const refused: [text: string, param: string, words: RegExp][] = [
    ['{"n":"128"}', "n", /whole number, but "128" came/],
    ['{"max_tokens":[5]}', "max_tokens", /whole number/],
    ['{"max_tokens":1.5}', "max_tokens", /whole number/],
    ['{"max_tokens":1e400}', "max_tokens", /whole number/],
    ['{"MAX_TOKENS":null}', "MAX_TOKENS", /read as max_tokens/],
    ['{"Model":"big"}', "Model", /read as model/],
    ['{"mod\\u0065l":"m","model":"big"}', "model", /twice/],
    ['{"models":["big"]}', "models", /another model/],
    ['{"route":"fallback"}', "route", /another model/],
    ['{"n_predict":9}', "n_predict", /larger/],
    ['{"frobnicate":9}', "frobnicate", /not known.*allowedFields/],
    ['{"tools":[{"type":"image_generation","model":"big"}]}', "tools.model", /another model/],
    ['{"tools":[{"type":"x","parameters":{"model":"big"}}]}', "tools.parameters.model", /another/],
    [
      '{"tools":[{"type":"x","parameters":{"a":[{"analysis_models":["big"]}]}}]}',
      "tools.parameters.a.analysis_models",
      /another model/,
    ],
    ['{"reasoning":{"Max_Tokens":9}}', "reasoning.Max_Tokens", /read as reasoning.max_tokens/],
    ['{"service_tier":"priority"}', "service_tier", /costs more/],
    ['{"extra_body":{"model":"big"}}', "extra_body", /another model/],
  ];
  for (const [text, param, words] of refused) {
    const error = await refusalOf(text);
    assert.equal(error.status, 400);
    assert.equal(error.param, param, text);
    assert.match(error.message, words);
  }
  const fallbacks = await refusalOf('{"fallbacks":[{"model":"big"}]}', { part: "messages" });
  assert.equal(fallbacks.param, "fallbacks");
});

Deno.test("readFields: texts and schemas may say what they like, and null says nothing", async () => {
  await read('{"messages":[{"role":"user","content":"hi","model":"x"}],"models":null,"n":null}');
  await read(
    '{"tools":[{"type":"function","function":{"parameters":{"properties":{"model":{}}}}}]}',
  );
  await read(
    `{"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"model":{}},
      "anyOf":[{"properties":{"n":{}}}],"$defs":{"model":{}},"additionalProperties":{"maxLength":5}}}]}`,
  );
  await read('{"frobnicate":[1]}', { allowed: ["frobnicate"] });
});

Deno.test("readFields: a gateway's tools that call models of their own are refused", async () => {
  const tools = (...types: string[]) =>
    JSON.stringify({ tools: types.map((type) => ({ type, function: { name: "f" } })) });
  const kind = "openrouter";
  await read(tools("function", "function", "openrouter:web_search"), { kind });
  for (const name of ["advisor", "fusion", "subagent", "image_generation"]) {
    const error = await refusalOf(tools("function", `openrouter:${name}`), { kind });
    assert.deepEqual([error.param, error.status], ["tools.type", 400]);
  }
  const twice = '{"tools":[{"type":"function","type":"openrouter:fusion"}]}';
  assert.equal((await refusalOf(twice, { kind })).param, "tools.type");
});

Deno.test("readFields: what an operator writes is read at its worst and never refused", async () => {
  const lenient = { isStrict: false };
  assert.equal((await read('{"extra":{"num_predict":"7000"}}', lenient)).limit, 7000);
  assert.equal((await read('{"num_return_sequences":12,"max_tokens":4}', lenient)).answers, 12);
  assert.equal((await read('{"max_tokens":4,"max_tokens":9000}', lenient)).limit, 9000);
});

const many = (count: number, item: (at: number) => string) =>
  Array.from({ length: count }, (_, at) => item(at)).join();

/** Bodies within the bounds of JSON whose names are the most work: what a strict reading makes of each. */
const HOSTILE: readonly [name: string, body: () => string, refusal: RegExp | null][] = [
  [
    "a long name",
    () => `{"${"A_".repeat(4_000_000)}":1}`,
    /begins with "A_A_.* more than 256 bytes/,
  ],
  [
    "a long name inside",
    () => `{"tools":[{"${"A_".repeat(4_000_000)}":1}]}`,
    /more than 256 bytes/,
  ],
  [
    "long paths",
    () => `{"tools":[{${many(300, (at) => `"${"A_".repeat(10_000)}${at}":{"a":{"b":1}}`)}}]}`,
    /more than 256 bytes/,
  ],
  [
    "many names",
    () =>
      `{"tools":[${many(9, (list) => `{${many(19_900, (at) => `"\u00c4${list}_${at}":1`)}}`)}]}`,
    /more than 1000 different names/,
  ],
  ["a long text", () => `{"messages":"${"\\n".repeat(8_000_000)}"}`, null],
  [
    "deep objects",
    () => `{"tools":[${many(3000, () => '{"abcdefgh":'.repeat(58) + "1" + "}".repeat(58))}]}`,
    null,
  ],
  [
    "many members",
    () => `{"tools":[${many(60_000, () => '{"type":"function","function":{"name":"f"}}')}]}`,
    null,
  ],
];

async function rejectionOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "";
  } catch (error) {
    return String(error);
  }
}

Deno.test("readFields: no body keeps the hub from others for seconds, whatever its names are", async (t) => {
  for (const [name, body, refusal] of HOSTILE) {
    await t.step(name, async () => {
      const bytes = encoder.encode(body());
      const ways = [STRICT, { ...STRICT, isStrict: false }].map((reading) => () =>
        longestStretch(async () => {
          const said = await rejectionOf(readFields(bytes, rulesOf("chat"), reading));
          assert.match(said, reading.isStrict && refusal !== null ? refusal : /^$/);
        })
      );
      for (const measure of ways) await tookUnder(200, measure);
    });
  }
});

Deno.test("readFields: a lenient reading goes on with known fields behind names that it leaves out", async () => {
  const names = many(2000, (at) => `"x${at}":{}`);
  const { limit } = await read(`{"options":{${names}},${names},"max_tokens":7000}`, {
    isStrict: false,
    kind: "ollama",
  });
  assert.equal(limit, 7000);
});

/** A member as its text, with what a reader makes of it. */
const member = fc.record({
  name: fc.constantFrom(...SPELLINGS),
  spelling: fc.nat(7),
  value: fc.constantFrom<Json>(
    1,
    50,
    1_000_000,
    "1000000",
    -1,
    null,
    true,
    "big",
    ["big"],
    [1_000_000],
    { model: "big", num_predict: 1_000_000, max_tokens: 1_000_000 },
  ),
});

/** How much and what servers may make of a request, by how they read names and names that come twice. */
function worstReading(members: [string, Json][]): { models: Set<string>; tokens: number } {
  const fold = (name: string) =>
    name.split("\0")[0]?.normalize("NFKC").toLowerCase().replaceAll(/[^a-z]/g, "") ?? "";
  const models = new Set<string>();
  let limit = 0;
  let answers = 1;
  const number = (value: Json) => Number(Array.isArray(value) ? value[0] : value ?? 0) || 0;
  const visit = (name: string, value: Json) => {
    if (value === null) return;
    const folded = fold(name);
    if (/^(models?|engine|fallbacks|route|provider|plugins|preset|extrabody)$/.test(folded)) {
      models.add(JSON.stringify(value));
    } else if (/^(n|bestof|numreturnsequences|candidatecount)$/.test(folded)) {
      answers = Math.max(answers, number(value));
    } else if (/token|predict|length/.test(folded)) limit = Math.max(limit, number(value));
    if (typeof value === "object" && !Array.isArray(value)) {
      for (const [key, inner] of Object.entries(value)) visit(key, inner ?? null);
    }
  };
  for (const [name, value] of members) visit(name, value);
  return { models, tokens: limit * answers };
}

property(
  "readFields: no spelling passes that a server might read as another model or more tokens",
  fc.tuple(
    fc.array(member, { minLength: 1, maxLength: 4 }),
    fc.constantFrom("chat", "completions"),
  ),
  async ([members, part]) => {
    const parts = members.map(({ name, spelling, value }) =>
      `${respell(name, spelling)}:${JSON.stringify(value)}`
    );
    const text = `{"model":"m",${parts.join(",")}}`;
    let asked: Awaited<ReturnType<typeof readFields>>;
    try {
      asked = await read(text, { part });
    } catch (error) {
      assert.ok(error instanceof HubError && error.code === "invalid_request", String(error));
      return;
    }
    const pairs = parts.map((one): [string, Json] => {
      const [pair] = Object.entries(JSON.parse(`{${one}}`)) as [string, Json][];
      assert.ok(pair !== undefined);
      return pair;
    });
    const worst = worstReading([["model", "m"], ...pairs]);
    assert.deepEqual([...worst.models], ['"m"'], text);
    const reserved = (asked.isLimited ? asked.limit : Math.max(asked.limit, ASSUMED)) + asked.added;
    assert.ok(worst.tokens <= reserved * asked.answers, `${text}: ${worst.tokens}`);
  },
  { runs: 3000 },
);
