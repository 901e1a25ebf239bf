import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { ask, kept, outcomeOf } from "../support/cache_rig.ts";
import { createAdmin } from "../support/providers_rig.ts";
import { chatCompletion, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { loadTestConfig, withHub } from "../support/test_hub.ts";

Deno.test("a cached answer is not found once its request would go another way", async (t) => {
  const here = await startScriptedUpstream(() => chatCompletion({ text: "here" }));
  const there = await startScriptedUpstream(() => chatCompletion({ text: "there" }));
  const providers = { here: { baseUrl: here.url }, there: { baseUrl: there.url } };
  const targets = ["here/m", "there/m"];
  const onlyHere = { strategy: "weights", weights: { "here/m": 1, "there/m": 0 }, targets };
  const onlyThere = { ...onlyHere, weights: { "here/m": 0, "there/m": 1 } };
  const rule = (stream: boolean) => ({
    targets,
    rules: [{ when: { stream }, targets: ["there/m"] }],
  });
  const config = {
    providers,
    defaultModel: "here/m",
    models: { weighted: onlyHere, ruled: rule(true), named: "weighted" },
    cache: { lookupTimeoutMs: 5000 },
  };
  try {
    await withHub(config, async (hub) => {
      let rows = 0;
      const send = async (model: string) => {
        const answer = await ask(hub, "Hi", { body: { model } });
        const { choices } = await answer.json();
        const outcome = outcomeOf(answer);
        if (outcome === "miss") await kept(hub, ++rows);
        return `${outcome} ${choices[0].message.content}`;
      };
      const reload = async (changed: JsonObject) => {
        await hub.hub.reload(await loadTestConfig({ ...config, ...changed }, hub));
      };

      for (
        const [name, model, next] of [
          ["weights", "weighted", onlyThere],
          ["a rule", "ruled", rule(false)],
          ["an alias", "named", "there/m"],
        ] as const
      ) {
        await t.step(`${name}: another target, and back`, async () => {
          assert.deepEqual([await send(model), await send(model)], ["miss here", "hit here"]);
          await reload({ models: { ...config.models, [model]: next } });
          assert.deepEqual([await send(model), await send(model)], ["miss there", "hit there"]);
          await reload({});
          assert.equal(await send(model), "hit here");
        });
      }

      await t.step("headers and settings of a provider, but not its key", async () => {
        const admin = createAdmin(hub);
        const body = {
          name: "db",
          baseUrl: here.url,
          apiKey: "key-0001",
          headers: { "x-route-to": "one" },
          models: { m: { maxOutputTokens: 10 } },
        };
        const { id } = (await admin("providers", { body })).value;
        const patch = (body: JsonObject) => admin(`providers/${id}`, { method: "PATCH", body });
        assert.deepEqual([await send("db/m"), await send("db/m")], ["miss here", "hit here"]);
        await patch({ apiKey: "key-0002" });
        assert.equal(await send("db/m"), "hit here");
        await admin(`providers/${id}/rotate`, { body: { apiKey: "key-0003" } });
        await patch({ models: { m: { maxOutputTokens: 10, maxConcurrent: 3 } } });
        assert.equal(await send("db/m"), "hit here");
        await patch({ headers: { "x-route-to": "two" } });
        assert.equal(await send("db/m"), "miss here");
        await patch({ models: { m: { maxOutputTokens: 20 } } });
        assert.equal(await send("db/m"), "miss here");
        await patch({ baseUrl: there.url, apiKey: "key-0004", headers: { "x-route-to": "two" } });
        assert.equal(await send("db/m"), "miss there");
      });
    });
  } finally {
    await here.stop();
    await there.stop();
  }
});
