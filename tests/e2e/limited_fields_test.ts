import assert from "node:assert/strict";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { respell, SPELLINGS } from "../support/field_spellings.ts";
import { createRandom } from "../support/random.ts";
import {
  chatCompletion,
  chatStream,
  type Reply,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";

const pricing = { inputPerMillion: 1, outputPerMillion: 2 };
const models = { m: { pricing, maxOutputTokens: 100 }, big: { pricing } };
const messages = [{ role: "user", content: "Hi" }];
const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
/** Room for the requests as they are, and for none that asks for a thousand answers or a million tokens. */
const HARD = { models: ["*/m"], budgets: { total: { hardMicros: 50_000 } } };

/** Everywhere a model is named: a request that is fine, and the path at which its provider answers. */
const DOORS: readonly { path: string; body: JsonObject & { model: string } }[] = [
  ...["up", "oa", "ant", "goo", "oll", "router"].map((provider) => ({
    path: "/v1/chat/completions",
    body: { model: `${provider}/m`, messages },
  })),
  { path: "/v1/completions", body: { model: "up/m", prompt: "Hi" } },
  { path: "/v1/embeddings", body: { model: "up/m", input: "Hi" } },
  { path: "/v1/responses", body: { model: "oa/m", input: "Hi", store: false } },
  { path: "/v1/responses", body: { model: "up/m", input: "Hi", store: false } },
  { path: "/v1/messages", body: { model: "ant/m", max_tokens: 50, messages } },
  { path: "/v1/messages", body: { model: "up/m", max_tokens: 50, messages } },
  { path: "/v1/messages/count_tokens", body: { model: "ant/m", messages } },
  { path: "/v1/images/generations", body: { model: "oa/m", prompt: "a cat" } },
  { path: "/v1/audio/speech", body: { model: "oa/m", input: "Hi", voice: "alloy" } },
  { path: "/v1/moderations", body: { model: "oa/m", input: "Hi" } },
  { path: "/v1/rerank", body: { model: "up/m", query: "a", documents: ["a", "b"] } },
];

/** What each of them would do, were it obeyed. */
const VALUES: readonly Json[] = [
  1_000_000,
  "1000000",
  [1_000_000],
  "up/big",
  ["up/big"],
  { model: "up/big", num_predict: 1_000_000, max_tokens: 1_000_000, maxOutputTokens: 1_000_000 },
];
const HARMLESS = new Set(["temperature", "seed", "model"]);

const ANSWERS: readonly [path: RegExp, body: JsonObject][] = [
  [/\/responses$/, {
    id: "resp_1",
    object: "response",
    status: "completed",
    model: "m",
    output: [],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
  }],
  [/count_tokens$/, { input_tokens: 1 }],
  [/\/messages$/, {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [{ type: "text", text: "Hello" }],
    stop_reason: "end_turn",
    usage: { input_tokens: 1, output_tokens: 1 },
  }],
  [/generateContent/, {
    candidates: [{ content: { parts: [{ text: "Hello" }] }, finishReason: "STOP" }],
    usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
  }],
  [/\/chat$/, {
    model: "m",
    message: { role: "assistant", content: "Hello" },
    done: true,
    done_reason: "stop",
    prompt_eval_count: 1,
    eval_count: 1,
  }],
  [/embeddings$/, { data: [{ index: 0, embedding: [1] }], usage }],
  [/\/completions$/, { choices: [{ index: 0, text: "Hello", finish_reason: "stop" }], usage }],
];

function answer({ path, text }: { path: string; text: string }): Reply {
  if (path.endsWith("/chat/completions")) {
    const said = { text: "Hello", usage: { promptTokens: 1, completionTokens: 1 } };
    return text.includes('"stream":true') ? chatStream(said) : chatCompletion(said);
  }
  const [, body] = ANSWERS.find(([pattern]) => pattern.test(path)) ?? [null, { usage }];
  return { headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

const provider = (kind: string, baseUrl: string) => ({
  kind,
  baseUrl,
  apiKey: "sk-up",
  maxRetries: 0,
  models,
});

async function withDoors(
  body: (parts: {
    hub: TestHub;
    upstream: Awaited<ReturnType<typeof startScriptedUpstream>>;
    makeKey(policy: JsonObject): Promise<string>;
    /** Sends bytes with a key, and gives the status and the error. */
    send(path: string, request: { token: string; body: string | FormData }): Promise<Sent>;
  }) => Promise<void>,
): Promise<void> {
  const upstream = await startScriptedUpstream(answer);
  try {
    await withHub({
      providers: {
        up: { ...provider("openai-compatible", upstream.url), allowedFields: ["house_field"] },
        oa: provider("openai", upstream.url),
        ant: provider("anthropic", upstream.url),
        goo: provider("google", upstream.url),
        oll: provider("ollama", upstream.url),
        router: provider("openrouter", upstream.url),
      },
      defaultModel: "up/m",
      agents: {
        long: { models: ["up/m"], extra: { n_predict: "1000000" } },
        many: { models: ["up/m"], extra: { best_of: 1000 } },
        plain: { models: ["up/m"], extra: { house_field: 1, seed: 5 } },
      },
    }, async (hub) => {
      await body({
        hub,
        upstream,
        async makeKey(policy) {
          const made = await hub.call("/v1/admin/keys", { body: { name: "k", policy } });
          return (await made.json()).token;
        },
        async send(path, { token, body }) {
          const sent = await fetch(hub.url + path, {
            method: "POST",
            headers: {
              authorization: `Bearer ${token}`,
              ...(typeof body === "string" ? { "content-type": "application/json" } : {}),
            },
            body,
          });
          const text = await sent.text();
          const error = sent.ok ? null : JSON.parse(text).error;
          return { status: sent.status, error };
        },
      });
    });
  } finally {
    await upstream.stop();
  }
}

interface Sent {
  status: number;
  error: JsonObject | null;
}

Deno.test("fields of keys with limits, over every door", async (t) => {
  const seed = Number(Deno.env.get("FC_SEED") ?? Math.floor(Math.random() * 2 ** 31));
  const random = createRandom(seed);
  const oneOf = <T>(values: readonly T[]) => values[Math.floor(random() * values.length)] as T;
  await withDoors(async ({ upstream, makeKey, send }) => {
    const free = await makeKey({});

    for (const { path, body } of DOORS) {
      await t.step(`${path} of ${body.model} (FC_SEED=${seed})`, async () => {
        const token = await makeKey(HARD);
        const plain = JSON.stringify(body);
        assert.deepEqual(await send(path, { token, body: plain }), { status: 200, error: null });
        for (let round = 0; round < 25; round++) {
          const name = oneOf(SPELLINGS.filter((one) => !HARMLESS.has(one)));
          const key = respell(name, Math.floor(random() * 8));
          const member = `${key}:${JSON.stringify(oneOf(VALUES))}`;
          const text = random() < 0.5
            ? plain.replace("{", `{${member},`)
            : plain.replace(/\}$/, `,${member}}`);
          const before = upstream.requests.length;
          const { status, error } = await send(path, { token, body: text });
          const sent = upstream.requests.slice(before).map((request) => request.text).join();
          // What the hub writes itself may be read from the last of two fields: only what arrives counts.
          assert.ok(!/1000000|up\/big/.test(sent), `${text} became ${sent} (FC_SEED=${seed})`);
          if (sent !== "") continue;
          assert.ok([400, 403, 429].includes(status), `${status} for ${text} (FC_SEED=${seed})`);
          if (error?.["code"] === "field_not_allowed") assert.ok(error["param"]);
        }
      });
    }

    await t.step("a key without limits passes all of it, byte for byte", async () => {
      const odd =
        '"Model":"big", "MAX_TOKENS":1,"n_predict": 7,"x y":[1],"ä":"\\u00e4","models":["z"]';
      for (const { path, body } of DOORS) {
        const isNative = /^(up|router)/.test(body.model)
          ? !/responses|messages/.test(path)
          : /^oa/.test(body.model) || (/^ant/.test(body.model) && /messages$/.test(path));
        if (!isNative) continue;
        const text = JSON.stringify(body).replace(/\}$/, ` ,${odd} }`);
        assert.equal((await send(path, { token: free, body: text })).status, 200, path);
        const sent = upstream.requests.at(-1)?.text;
        assert.equal(sent, text.replace(JSON.stringify(body.model), '"m"'), path);
      }
    });

    await t.step("what the operator allows for a provider passes there", async () => {
      const token = await makeKey(HARD);
      const body = (model: string) => JSON.stringify({ model, messages, house_field: 1 });
      const path = "/v1/chat/completions";
      assert.equal((await send(path, { token, body: body("up/m") })).status, 200);
      const { error } = await send(path, { token, body: body("oa/m") });
      assert.deepEqual([error?.["code"], error?.["param"]], ["field_not_allowed", "house_field"]);
    });

    await t.step(
      "each limit alone is enough: models, a rate of tokens, a soft budget",
      async () => {
        const body = JSON.stringify({ model: "up/m", messages, models: ["up/big"] });
        const policies: JsonObject[] = [
          { models: ["up/m"] },
          { tokensPerMinute: 1e6 },
          { budgets: { daily: { softMicros: 1e6 } } },
        ];
        for (const policy of policies) {
          const token = await makeKey(policy);
          const { status, error } = await send("/v1/chat/completions", { token, body });
          assert.deepEqual([status, error?.["param"]], [400, "models"], JSON.stringify(policy));
        }
        for (
          const policy of [{ models: ["*"] }, { requestsPerMinute: 100 }, { agents: ["plain"] }]
        ) {
          const token = await makeKey(policy);
          assert.equal((await send("/v1/chat/completions", { token, body })).status, 200);
        }
      },
    );

    await t.step("a rate of tokens counts what odd fields ask for", async () => {
      const token = await makeKey({ tokensPerMinute: 10_000 });
      for (const more of [{ n: 1000 }, { best_of: 1000 }, { max_completion_tokens: 1e6 }]) {
        const body = JSON.stringify({ model: "up/m", messages, max_tokens: 50, ...more });
        assert.equal((await send("/v1/chat/completions", { token, body })).status, 429);
      }
    });

    await t.step("forms and queries name no other model either", async () => {
      const token = await makeKey({ models: ["oa/m"] });
      const path = "/v1/images/edits";
      const form = (more: Record<string, string>) => {
        const made = new FormData();
        made.set("model", "oa/m");
        made.set("image", new Blob([new Uint8Array(300_000)]), "a.png");
        for (const [name, value] of Object.entries(more)) made.set(name, value);
        return made;
      };
      assert.equal((await send(path, { token, body: form({ prompt: "a" }) })).status, 200);
      const before = upstream.requests.length;
      for (const name of ["Model", "models", "model[]", "engine", "MODEL ", "extra_body"]) {
        const { status, error } = await send(path, { token, body: form({ [name]: "big" }) });
        assert.deepEqual([status, error?.["code"]], [400, "field_not_allowed"], name);
      }
      const body = JSON.stringify({ model: "oa/m", prompt: "a" });
      for (const query of ["model=big", "n=50", "%6dodel=big"]) {
        const { status } = await send(`/v1/images/generations?${query}`, { token, body });
        assert.equal(status, 400, query);
      }
      assert.equal(upstream.requests.length, before);
    });

    await t.step(
      "fields of an agent count at their worst; those of its clients never arrive",
      async () => {
        const token = await makeKey({ budgets: HARD.budgets });
        const path = "/v1/chat/completions";
        const ask = (agent: string, more: JsonObject = {}) =>
          send(path, {
            token,
            body: JSON.stringify({ model: `agent/${agent}`, messages, ...more }),
          });
        for (const agent of ["long", "many"]) {
          const before = upstream.requests.length;
          const { status } = await ask(agent);
          assert.ok(status >= 400, `${agent}: ${status}`);
          assert.equal(upstream.requests.length, before, agent);
        }
        const odd = { models: ["up/big"], n_predict: 1e6, Model: "up/big" };
        assert.equal((await ask("plain", odd)).error?.["param"], "models");
        assert.deepEqual(await ask("plain"), { status: 200, error: null });
        const sent = upstream.requests.at(-1)?.json ?? {};
        assert.equal(sent["house_field"], 1);
      },
    );
  });
});
