import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import type { JsonObject } from "../../src/core/json.ts";
import { derivePepper, hashApiKey, makeApiKey } from "../../src/policy/api_key.ts";
import { createKey } from "../../src/store/keys.ts";
import { loadMasterKey } from "../../src/store/master_key.ts";
import { ask, counted, framesOf, kept, outcomeOf } from "../support/cache_rig.ts";
import { testIds } from "../support/postgres.ts";
import { nativeReply } from "../support/responses.ts";
import { chatCompletion, chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";
import { MONEY_CONFIG, withMoney } from "./money_rig.ts";

const randomBytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));
const OTHER_TENANT = "00000000-0000-7000-8000-00000000000b";
const CACHE = { lookupTimeoutMs: 5000 };
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** Makes a key of another tenant, which no route does. */
async function foreignKey(hub: TestHub & { dataDir: string }): Promise<string> {
  const master = await loadMasterKey({ given: undefined, dataDir: hub.dataDir, randomBytes });
  const { token, lookupId } = makeApiKey(randomBytes);
  await createKey(hub.hub.start.db, {
    tenantId: OTHER_TENANT,
    keyId: testIds.next("key"),
    name: "foreign",
    role: "user",
    lookupId,
    hash: hashApiKey(token, derivePepper(master.bytes)),
  });
  return token;
}

Deno.test("the keys of a tenant share it, those of others never", async (t) => {
  await withMoney({ cache: CACHE }, async ({ hub, upstream, makeKey }) => {
    upstream.script((_, index) => chatCompletion({ text: `${index}` }));
    const send = async (token: string, question: string, cache: string | null = "600") => {
      const answer = await ask(hub, question, {
        headers: bearer(token),
        cache,
        body: { model: "up/m" },
      });
      return { outcome: outcomeOf(answer), status: answer.status, text: await answer.text() };
    };
    const own = await send(hub.key, "shared");
    await kept(hub, 1);

    await t.step("another key of the tenant is answered from it", async () => {
      const { token } = await makeKey({});
      assert.deepEqual(await send(token, "shared"), { ...own, outcome: "hit" });
    });

    await t.step("another tenant is not, and has its own", async () => {
      const token = await foreignKey(hub);
      const theirs = await send(token, "shared");
      assert.deepEqual([theirs.status, theirs.outcome], [200, "miss"]);
      assert.notEqual(theirs.text, own.text);
      await kept(hub, 2);
      assert.deepEqual(await send(token, "shared"), { ...theirs, outcome: "hit" });
      assert.deepEqual(await send(hub.key, "shared"), { ...own, outcome: "hit" });
      const rows = await hub.hub.start.db.read`select tenant_id, encode(cache_key, 'hex') as key
        from hub.cached_answers`;
      assert.equal(new Set(rows.map((row) => row["tenant_id"])).size, 2);
      assert.equal(new Set(rows.map((row) => row["key"])).size, 2);
      // Even a key that was copied over finds nothing there.
      await hub.hub.start.db.control`update hub.cached_answers c set cache_key = o.cache_key
        from hub.cached_answers o where c.tenant_id = ${OTHER_TENANT} and o.tenant_id <> c.tenant_id`;
      assert.equal((await send(token, "shared")).outcome, "miss");
    });

    await t.step("a key that may not call the model gets nothing from it", async () => {
      const { token } = await makeKey({ models: ["other*"] });
      const refused = await send(token, "shared");
      assert.equal(refused.status, 403);
      assert.match(refused.text, /permission_denied/);
    });

    await t.step("a revoked or expired key neither", async () => {
      const { id, token } = await makeKey({});
      assert.equal((await send(token, "shared")).outcome, "hit");
      await hub.call(`/v1/admin/keys/${id}/revoke`, { method: "POST" });
      assert.equal((await send(token, "shared")).status, 401);
    });

    await t.step("tags may lead elsewhere: they are part of what is asked", async () => {
      const { token } = await makeKey({}, { tags: ["eu", "b"] });
      assert.equal((await send(token, "shared")).outcome, "miss");
      const same = await makeKey({}, { tags: ["b", "eu"] });
      await eventually(async () =>
        (await send(same.token, "shared")).outcome === "hit" ? true : null
      );
    });

    await t.step("a key asks for all its requests, and a request for itself", async () => {
      const { token } = await makeKey({ cacheSeconds: 60 });
      assert.equal((await send(token, "by key", null)).outcome, "miss");
      await eventually(async () =>
        (await send(token, "by key", null)).outcome === "hit" ? true : null
      );
      assert.equal((await send(token, "by key", "off")).outcome, null);
      assert.equal((await send(token, "by key", "600")).outcome, "hit");
      const rows = await hub.hub.start.db.read`
        select extract(epoch from expires_at - created_at)::int as seconds from hub.cached_answers
        order by created_at desc limit 1`;
      assert.equal(rows[0]?.["seconds"], 60);
    });

    await t.step("a key may forbid it", async () => {
      const { token } = await makeKey({ cacheSeconds: 0 });
      assert.equal((await send(token, "shared")).outcome, "bypass");
      assert.equal((await send(token, "shared", null)).outcome, null);
    });
  });
});

Deno.test("a hit takes no budget and no place in the minute", async () => {
  await withMoney({ cache: CACHE }, async ({ hub, upstream, makeKey, admin }) => {
    const policy = { budgets: { total: { hardMicros: 1000 } }, requestsPerMinute: 1 };
    const { id, token } = await makeKey(policy);
    const send = async (question: string) => {
      const body = { model: "up/m", max_tokens: 50 };
      const answer = await ask(hub, question, { headers: bearer(token), body });
      const text = await answer.text();
      return { outcome: outcomeOf(answer), status: answer.status, text };
    };
    const own = await send("paid");
    assert.equal(own.status, 200);
    await kept(hub, 1);
    for (let time = 0; time < 5; time++) {
      assert.deepEqual(await send("paid"), { ...own, outcome: "hit" });
    }
    assert.equal((await send("new")).status, 429);
    await admin(`keys/${id}`, {
      method: "PATCH",
      body: { policy: { budgets: { total: { hardMicros: 10 } } } },
    });
    assert.equal((await send("new")).status, 429);
    assert.equal((await send("paid")).outcome, "hit");
    const { db } = hub.hub.start;
    await eventually(async () =>
      (await db.read`select 1 from hub.usage where from_cache`).length === 6 ? true : null
    );
    const spend = async () => (await admin(`keys/${id}`))["spend"] as JsonObject[];
    await eventually(async () =>
      (await spend()).every(({ spentMicros }) => spentMicros === 200) ? true : null
    );
    assert.ok((await spend()).every(({ reservedMicros }) => reservedMicros === 0));
    assert.equal((await db.read`select 1 from hub.reservations`).length, 1);
    assert.equal(upstream.requests.length, 1);
  });
});

Deno.test("messages and responses come from it in their own dialect", async (t) => {
  const upstream = await startScriptedUpstream();
  const native = await startScriptedUpstream((request) =>
    nativeReply(request as { json: JsonObject }, { text: `n${native.requests.length}` })
  );
  const config = MONEY_CONFIG(upstream.url);
  config["providers"] = {
    ...config["providers"] as JsonObject,
    openai: { baseUrl: native.url, apiKey: "sk-native-and-long" },
  };
  try {
    await withHub({ ...config, cache: CACHE }, async (hub) => {
      upstream.script((request, index) =>
        (request.json as { stream?: boolean }).stream
          ? chatStream({ text: `${index}` })
          : chatCompletion({ text: `${index}` })
      );
      let entries = 0;
      const twice = async (path: string, body: JsonObject) => {
        for (const stream of [false, true]) {
          const send = async () => {
            const answer = await hub.call(path, {
              body: { ...body, stream },
              headers: { "x-loophub-cache": "600" },
            });
            return { outcome: outcomeOf(answer), text: framesOf(await answer.text()) };
          };
          const own = await send();
          assert.equal(own.outcome, "miss");
          await kept(hub, ++entries);
          assert.deepEqual(await send(), { ...own, outcome: "hit" });
        }
      };
      await t.step("messages, by way of a chat", async () => {
        const messages = [{ role: "user", content: "Hi" }];
        await twice("/v1/messages", { model: "up/m", max_tokens: 9, messages });
        const client = new Anthropic({ apiKey: hub.key, baseURL: hub.url });
        const ask = async () =>
          await client.messages.create({
            model: "up/m",
            max_tokens: 10,
            messages: [{ role: "user", content: "Hello" }],
          }, { headers: { "x-loophub-cache": "60" } }).withResponse();
        const own = await ask();
        await kept(hub, ++entries);
        const again = await ask();
        assert.equal(outcomeOf(again.response as unknown as Response), "hit");
        assert.deepEqual(again.data, own.data);
      });

      for (const model of ["up/m", "openai/m"]) {
        await t.step(
          `responses of ${model} that nobody keeps`,
          () => twice("/v1/responses", { model, input: "Hi", store: false }),
        );
      }

      await t.step("legacy completions and embeddings, each as its own kind", async () => {
        const { db } = hub.hub.start;
        const choices = [{ text: "on", index: 0, finish_reason: "stop" }];
        const data = [{ object: "embedding", index: 0, embedding: [0.5, -0.25] }];
        const frame = `data: ${JSON.stringify({ choices })}\n\n`;
        upstream.script((request) => {
          if (request.path.endsWith("/embeddings")) {
            return {
              headers: { "content-type": "application/json" },
              body: { object: "list", data, usage: { prompt_tokens: 2, total_tokens: 2 } },
            };
          }
          return (request.json as { stream?: boolean }).stream === true
            ? {
              headers: { "content-type": "text/event-stream" },
              frames: [frame, "data: [DONE]\n\n"],
            }
            : { headers: { "content-type": "application/json" }, body: { choices } };
        });
        await twice("/v1/completions", { model: "up/m", prompt: "Go" });
        const embed = (encoding: string) =>
          hub.call("/v1/embeddings", {
            body: { model: "up/m", input: "Hi", encoding_format: encoding },
            headers: { "x-loophub-cache": "600" },
          });
        for (const encoding of ["float", "base64"]) {
          const own = await embed(encoding);
          const text = await own.text();
          await kept(hub, ++entries);
          const again = await embed(encoding);
          assert.deepEqual([outcomeOf(again), await again.text()], ["hit", text]);
        }
        const kinds = async () =>
          (await db
            .read`select kind from hub.usage where from_cache and kind <> 'proxy' order by 1`)
            .map((row) => row["kind"]);
        const wanted = ["completions", "completions", "embeddings", "embeddings"];
        await eventually(async () => (await kinds()).length === wanted.length ? true : null);
        assert.deepEqual(await kinds(), wanted);
      });

      await t.step("what is to be found again is not", async () => {
        upstream.script(() => chatCompletion({ text: "Hi" }));
        const stored = [
          ["/v1/responses", { model: "up/m", input: "Hi" }],
          ["/v1/responses", { model: "up/m", input: "Hi", store: true }],
          ["/v1/chat/completions", { model: "up/m", messages: [], store: true }],
        ] as const;
        for (const [path, body] of stored) {
          for (let time = 0; time < 2; time++) {
            const answer = await hub.call(path, {
              body: body as unknown as JsonObject,
              headers: { "x-loophub-cache": "600" },
            });
            assert.deepEqual([answer.status, outcomeOf(answer)], [200, "bypass"]);
            await answer.text();
          }
        }
        const first = await (await hub.call("/v1/responses", {
          body: { model: "up/m", input: "Hi" },
        })).json();
        const next = await hub.call("/v1/responses", {
          body: { model: "up/m", input: "Go on", previous_response_id: first.id, store: false },
          headers: { "x-loophub-cache": "600" },
        });
        assert.deepEqual([next.status, outcomeOf(next)], [200, "bypass"]);
        await next.text();
        assert.equal(await counted(hub, "bypass"), 7);
        await kept(hub, entries);
      });
    });
  } finally {
    await upstream.stop();
    await native.stop();
  }
});
