import assert from "node:assert/strict";
import OpenAI from "openai";
import { at, listAt } from "../support/at.ts";
import { chatError, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";
import { usageOf } from "../support/usage_of.ts";

const VECTOR = [0.25, -1.5, 3];
const BASE64 = "AACAPgAAwL8AAEBA";

const listOf = (...embeddings: unknown[]) => ({
  object: "list",
  data: embeddings.map((embedding, index) => ({ object: "embedding", index, embedding })),
  model: "m",
  usage: { prompt_tokens: 7, total_tokens: 7 },
});

Deno.test("embeddings", async (t) => {
  const upstream = await startScriptedUpstream();
  const base = upstream.url.slice(0, -"/v1".length);
  const config = {
    providers: {
      up: { baseUrl: upstream.url, apiKey: "sk-own", maxRetries: 0 },
      gem: { kind: "google", baseUrl: `${base}/v1beta`, apiKey: "sk-gem", maxRetries: 0 },
      oll: { kind: "ollama", baseUrl: base, maxRetries: 0 },
      demo: { kind: "demo" },
    },
    models: { mixed: { targets: ["demo/talk", "up/m"] } },
    defaultModel: "up/m",
  };
  try {
    await withHub(config, async (hub) => {
      const client = new OpenAI({ apiKey: hub.key, baseURL: `${hub.url}/v1`, maxRetries: 0 });
      const embed = (model: string, more: object = {}) =>
        client.embeddings.create({ model, input: "Hi", ...more });
      const lastUsage = (kind: string) => eventually(async () => (await usageOf(hub, kind)).at(-1));

      await t.step("the client's default is base64, and comes back as numbers", async () => {
        upstream.script({ body: listOf(BASE64) });
        const { data, usage } = await embed("up/m");
        assert.deepEqual(data[0]?.embedding, VECTOR);
        assert.equal(usage.prompt_tokens, 7);
        const sent = upstream.requests.at(-1);
        assert.equal(sent?.path, "/v1/embeddings");
        assert.equal(sent?.header("authorization"), "Bearer sk-own");
        assert.deepEqual(sent?.json, { model: "m", input: "Hi", encoding_format: "base64" });
        const row = await lastUsage("embeddings");
        assert.deepEqual(
          [row.provider, row.model, row.public_model, row.outcome, row.prompt_tokens],
          ["up", "m", "up/m", "ok", "7"],
        );
        assert.deepEqual([row.completion_tokens, row.estimated], ["0", false]);
      });

      await t.step("an answer written as it was asked for passes byte for byte", async () => {
        for (const [format, vector] of [["float", VECTOR], ["base64", BASE64]]) {
          const text = `{ "x": 1, "data":[{"embedding" : ${JSON.stringify(vector)}, "index":0}]}`;
          upstream.script({ body: text, headers: { "content-type": "application/json" } });
          const body = `{"input":["é"],  "encoding_format":"${format}","model":"up/m" ,"y":[]}`;
          const raw = await fetch(`${hub.url}/v1/embeddings`, {
            method: "POST",
            headers: { authorization: `Bearer ${hub.key}` },
            body: new TextEncoder().encode(body),
          });
          assert.equal(await raw.text(), text);
          assert.equal(upstream.requests.at(-1)?.text, body.replace("up/m", "m"));
        }
      });

      await t.step("a provider that ignores the format is put right, both ways", async () => {
        upstream.script({ body: listOf(VECTOR, VECTOR) });
        const { data } = await embed("up/m", { input: ["a", "b"] });
        assert.deepEqual(data.map(({ embedding }) => embedding), [VECTOR, VECTOR]);
        upstream.script({ body: listOf(BASE64) });
        const floats = await hub.call("/v1/embeddings", { body: { model: "up/m", input: "a" } });
        assert.deepEqual((await floats.json()).data[0].embedding, VECTOR);
      });

      await t.step("a format of the provider's own passes", async () => {
        upstream.script({ body: listOf([1, 2]) });
        const body = { model: "up/m", input: "a", encoding_format: "int8" };
        const answer = await hub.call("/v1/embeddings", { body });
        assert.deepEqual((await answer.json()).data[0].embedding, [1, 2]);
      });

      await t.step("Gemini: one text, many, and more than a batch takes", async () => {
        upstream.script({ body: { embedding: { values: VECTOR } } });
        const one = await embed("gem/gemini-embedding-001", { dimensions: 3 });
        assert.deepEqual(one.data[0]?.embedding, VECTOR);
        let sent = upstream.requests.at(-1);
        assert.equal(sent?.path, "/v1beta/models/gemini-embedding-001:embedContent");
        assert.equal(sent?.header("x-goog-api-key"), "sk-gem");
        assert.deepEqual(sent?.json, {
          model: "models/gemini-embedding-001",
          content: { parts: [{ text: "Hi" }] },
          outputDimensionality: 3,
        });
        const row = await eventually(async () =>
          (await usageOf(hub, "embeddings")).find(({ provider }) => provider === "gem")
        );
        assert.deepEqual([row.estimated, row.completion_tokens], [true, "0"], "Gemini counts none");

        const before = upstream.requests.length;
        upstream.script((request) => ({
          body: { embeddings: listAt(request.json, "requests").map(() => ({ values: VECTOR })) },
        }));
        const input = Array.from({ length: 230 }, (_, index) => `text ${index}`);
        const many = await embed("gem/e", { input });
        assert.deepEqual(many.data.map(({ index }) => index), input.map((_, index) => index));
        const sizes = upstream.requests.slice(before).map(({ json }) =>
          listAt(json, "requests").length
        );
        assert.deepEqual(sizes, [100, 100, 30]);
        sent = upstream.requests.at(-1);
        assert.equal(sent?.path, "/v1beta/models/e:batchEmbedContents");
        assert.equal(at(sent?.json, "requests", -1, "content", "parts", 0, "text"), "text 229");
      });

      await t.step("Ollama: what is too long is refused, not cut", async () => {
        upstream.script({ body: { embeddings: [VECTOR], prompt_eval_count: 4 } });
        const answer = await embed("oll/nomic", { dimensions: 64 });
        assert.deepEqual(answer.data[0]?.embedding, VECTOR);
        assert.deepEqual(answer.usage, { prompt_tokens: 4, total_tokens: 4 });
        assert.equal(upstream.requests.at(-1)?.path, "/api/embed");
        assert.deepEqual(upstream.requests.at(-1)?.json, {
          model: "nomic",
          input: ["Hi"],
          dimensions: 64,
          truncate: false,
        });
        upstream.script({ status: 400, body: { error: "the input exceeds the context length" } });
        await assert.rejects(embed("oll/nomic"), (error) => {
          assert.ok(error instanceof OpenAI.BadRequestError);
          assert.equal(error.code, "context_length_exceeded");
          return true;
        });
      });

      await t.step("what a dialect cannot carry is a clear 400, and nobody is asked", async () => {
        const before = upstream.requests.length;
        const bad = async (body: object, param: string, model = "gem/e") => {
          await assert.rejects(embed(model, body), (error) => {
            assert.ok(error instanceof OpenAI.BadRequestError, String(error));
            assert.equal(error.param, param);
            return true;
          });
        };
        await bad({ input: [1, 2] }, "input[0]");
        await bad({ input: "" }, "input");
        await bad({ input: [] }, "input");
        await bad({ input_type: "query" }, "input_type");
        await bad({ dimensions: -1 }, "dimensions", "oll/e");
        await bad({}, "model", "demo/talk");
        const twice = await fetch(`${hub.url}/v1/embeddings`, {
          method: "POST",
          headers: { authorization: `Bearer ${hub.key}` },
          body: '{"model":"up/m","input":"a","model":"up/n"}',
        });
        assert.equal(twice.status, 400);
        await twice.body?.cancel();
        assert.equal(upstream.requests.length, before);
      });

      await t.step("of a model's targets those are asked that have embeddings", async () => {
        upstream.script({ body: listOf(BASE64) });
        await embed("mixed");
        assert.equal(upstream.requests.at(-1)?.json.model, "m");
      });

      await t.step("faults are the client's own errors", async () => {
        upstream.script(chatError(429, { headers: { "retry-after": "120" } }));
        await assert.rejects(embed("up/m"), OpenAI.RateLimitError);
        upstream.script({ body: "{", end: "cut", contentLength: 10 });
        await assert.rejects(embed("up/m"), OpenAI.InternalServerError);
        upstream.script({ body: "<html>", headers: { "content-type": "text/html" } });
        await assert.rejects(embed("up/m"), OpenAI.InternalServerError);
        upstream.script({ body: { embeddings: [] } });
        await assert.rejects(embed("oll/e"), OpenAI.InternalServerError);
        upstream.script({ status: 500, body: { error: { message: "x", status: "INTERNAL" } } });
        await assert.rejects(embed("gem/e"), OpenAI.InternalServerError);
      });

      await t.step("a client that leaves stops the provider", async () => {
        await leaves(hub);
      });
      async function leaves({ url, key }: TestHub) {
        upstream.script({ before: [{ wait: new Promise(() => {}) }] });
        const closed = upstream.closedByClient.length;
        const before = upstream.requests.length;
        const leave = new AbortController();
        const asked = fetch(`${url}/v1/embeddings`, {
          method: "POST",
          headers: { authorization: `Bearer ${key}` },
          body: JSON.stringify({ model: "oll/e", input: "a" }),
          signal: leave.signal,
        });
        await upstream.until(() => upstream.requests.length > before);
        const leftMs = performance.now();
        leave.abort();
        await assert.rejects(asked);
        await upstream.until(() => upstream.closedByClient.length > closed);
        const tookMs = (upstream.closedByClient.at(-1)?.atMs ?? Infinity) - leftMs;
        assert.ok(tookMs <= 250, `${tookMs} ms`);
      }
    });
  } finally {
    await upstream.stop();
  }
});
