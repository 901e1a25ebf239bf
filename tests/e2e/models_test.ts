import assert from "node:assert/strict";
import OpenAI from "openai";
import type { JsonObject } from "../../src/core/json.ts";
import { withMoney } from "./money_rig.ts";

Deno.test("a key sees the models that it may call, and no others", async (t) => {
  const models = { fast: "up/m", slow: "up/free", quiet: "up/m" };
  await withMoney({ models }, async ({ hub, makeKey, ask, admin }) => {
    const get = async (token: string, path: string) => {
      const headers = { authorization: `Bearer ${token}` };
      const answer = await hub.call(`/v1/models${path}`, { headers });
      return { status: answer.status, value: await answer.json() as JsonObject };
    };
    const listed = async (token: string) =>
      ((await get(token, "")).value["data"] as JsonObject[]).map(({ id }) => String(id))
        .filter((id) => !id.startsWith("agent/")).sort();
    const all = await listed(hub.key);
    for (const name of ["fast", "slow", "quiet", "up/m"]) assert.ok(all.includes(name), name);

    await t.step("whoever has no list sees all", async () => {
      const { token } = await makeKey({});
      assert.deepEqual(await listed(token), all);
      assert.equal((await get(token, "/slow")).status, 200);
    });

    await t.step("names and patterns", async () => {
      const { token } = await makeKey({ models: ["fast", "up/*"] });
      assert.deepEqual(await listed(token), all.filter((id) => /^(fast$|up\/)/.test(id)));
      for (const id of ["fast", "up/m", "up%2Fm"]) {
        assert.equal((await get(token, `/${id}`)).status, 200, id);
      }
      assert.equal((await ask(token, { model: "fast" })).status, 200);
      assert.equal((await ask(token, { model: "slow" })).status, 403);
    });

    await t.step("another model is as one that does not exist, word for word", async () => {
      const { token } = await makeKey({ models: ["fast", "quie*"] });
      const hidden = await get(token, "/slow");
      assert.equal(hidden.status, 404);
      assert.equal((hidden.value["error"] as JsonObject)["code"], "model_not_found");
      // One that the list would have, if it existed, and whose neighbour it may not know.
      for (
        const [id, known] of [["slox", "slow"], ["quietly", "slow"], ["quies", "slow"]] as const
      ) {
        const missing = await get(token, `/${id}`);
        assert.equal(missing.status, 404);
        assert.equal(
          JSON.stringify(missing.value).replaceAll(id, known),
          JSON.stringify(hidden.value),
        );
      }
    });

    await t.step("an empty list shows nothing, also to the SDK", async () => {
      const { token } = await makeKey({ models: [], agents: [] });
      const client = new OpenAI({ apiKey: token, baseURL: `${hub.url}/v1`, maxRetries: 0 });
      assert.deepEqual((await client.models.list()).data, []);
      await assert.rejects(client.models.retrieve("fast"), { status: 404 });
    });

    await t.step("a changed list holds at once", async () => {
      const { id, token } = await makeKey({ models: ["fast"] });
      assert.deepEqual(await listed(token), ["fast"]);
      const policy = { models: ["slow"] };
      await admin(`keys/${id}`, { method: "PATCH", body: { policy } });
      assert.deepEqual(await listed(token), ["slow"]);
    });
  });
});
