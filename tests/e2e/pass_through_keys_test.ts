import assert from "node:assert/strict";
import { startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";

Deno.test("policies of keys hold for all of OpenAI's API", async (t) => {
  const answer = { data: [{ embedding: [1] }], choices: [], usage: { prompt_tokens: 1000 } };
  const upstream = await startScriptedUpstream({ body: answer });
  const config = {
    providers: {
      pool: { baseUrl: upstream.url, apiKeys: ["sk-a", "sk-b"] },
      openai: {
        baseUrl: upstream.url,
        apiKey: "sk-own",
        models: { priced: { pricing: { inputPerMillion: 1, outputPerMillion: 1 } }, free: {} },
      },
    },
    defaultModel: "openai/free",
  };
  try {
    await withHub(config, async (hub) => {
      const keyWith = async (policy: object) => {
        const made = await hub.call("/v1/admin/keys", {
          body: { name: "k", policy: { ...policy } },
        });
        const { token } = await made.json();
        return (path: string, body?: { model?: string }) =>
          hub.call(path, {
            headers: { authorization: `Bearer ${token}` },
            ...(body === undefined ? {} : { body }),
          }).then(async (answer) => ({ status: answer.status, body: await answer.json() }));
      };

      await t.step("models that a key may call; `-` is none", async () => {
        const call = await keyWith({ models: ["openai/free"] });
        for (const path of ["/v1/embeddings", "/v1/completions", "/v1/images/generations"]) {
          assert.equal((await call(path, { model: "openai/free" })).status, 200, path);
          assert.equal((await call(path, { model: "openai/priced" })).status, 403, path);
        }
        const before = upstream.requests.length;
        for (
          const [path, body] of [["/v1/files"], ["/v1/moderations", {}], [
            "/v1/batches",
            {},
          ]] as const
        ) {
          assert.equal((await call(path, body)).status, 403, path);
        }
        assert.equal(upstream.requests.length, before);
        const refused = (await call("/v1/moderations", {})).body.error;
        assert.deepEqual([refused.type, refused.code, refused.param], [
          "permission_error",
          "permission_denied",
          "model",
        ]);
        assert.match(refused.message, /names no model: its policy must list "-"/);
        for (const models of [["-"], ["openai/free", "-"], ["*"]]) {
          const wider = await keyWith({ models });
          assert.equal((await wider("/v1/files")).status, 200);
        }
        for (const models of [["*-*"], ["-*"], []]) {
          const narrow = await keyWith({ models });
          assert.equal((await narrow("/v1/files")).status, 403, String(models));
        }
      });

      await t.step("a model that is only mentioned opens nothing", async () => {
        const call = await keyWith({ models: ["openai/free"] });
        const before = upstream.requests.length;
        for (
          const path of [
            "/v1/batches",
            "/v1/uploads",
            "/v1/vector_stores",
            "/v1/vector_stores/vs_1/search",
            "/v1/videos/v_1/remix",
          ]
        ) {
          assert.equal((await call(path, { model: "openai/free" })).status, 403, path);
        }
        assert.equal(upstream.requests.length, before);
        assert.equal((await call("/v1/videos", { model: "openai/free" })).status, 200);
        assert.equal((await call("/v1/fine_tuning/jobs", { model: "openai/free" })).status, 200);
        const body = { model: "openai/free" };
        await (await hub.call("/v1/batches", { body })).body?.cancel();
        assert.deepEqual(upstream.requests.at(-1)?.json, body, "it is nothing to the hub");
      });

      await t.step("what is kept at a provider goes with the first key of its pool", async () => {
        const keysFor = async (path: string) => {
          const from = upstream.requests.length;
          for (let turn = 0; turn < 4; turn++) {
            await (await hub.call(path, { body: { model: "pool/m" } })).body?.cancel();
          }
          const sent = upstream.requests.slice(from).map((one) => one.header("authorization"));
          return [...new Set(sent)].sort();
        };
        assert.deepEqual(await keysFor("/v1/videos"), ["Bearer sk-a"]);
        assert.deepEqual(await keysFor("/v1/images/generations"), ["Bearer sk-a", "Bearer sk-b"]);
        await (await hub.call("/v1/files?provider=pool")).body?.cancel();
        assert.equal(upstream.requests.at(-1)?.header("authorization"), "Bearer sk-a");
      });

      await t.step("requests in a minute", async () => {
        const call = await keyWith({ requestsPerMinute: 2 });
        const statuses = [];
        for (
          const path of ["/v1/files", "/v1/embeddings", "/v1/completions", "/v1/files", "/v1/files"]
        ) {
          const body = path === "/v1/files" ? undefined : { model: "openai/free" };
          statuses.push((await call(path, body)).status);
        }
        // Two minutes at most, of two requests each.
        assert.equal(statuses[0], 200);
        assert.ok(statuses.includes(429), String(statuses));
      });
    });
  } finally {
    await upstream.stop();
  }
});
