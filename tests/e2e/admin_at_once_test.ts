import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { chat, createAdmin } from "../support/providers_rig.ts";
import { chatCompletion, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";

Deno.test("what an admin was told is done holds here, however many others change something", async (t) => {
  const upstream = await startScriptedUpstream(() => chatCompletion({ text: "ok" }));
  const config = { providers: { file: { baseUrl: upstream.url } }, defaultModel: "file/m" };
  const together = (count: number, body: (index: number) => Promise<void>) =>
    Promise.all(Array.from({ length: count }, (_, index) => body(index)));
  try {
    await withHub(config, async (hub) => {
      const admin = createAdmin(hub);

      await t.step("providers", async () => {
        await together(20, async (index) => {
          const name = `p${index}`;
          const made = await admin("providers", { body: { name, baseUrl: upstream.url } });
          assert.equal(made.status, 201);
          assert.equal(await chat(hub, `${name}/m`), "ok");
          const gone = await admin(`providers/${made.value["id"]}`, { method: "DELETE" });
          assert.equal(gone.status, 204);
          assert.equal(await chat(hub, `${name}/m`), "404");
        });
      });

      await t.step("keys", async () => {
        await together(20, async (index) => {
          const { value } = await admin("keys", { body: { name: `k${index}`, role: "user" } });
          const models = () =>
            hub.call("/v1/models", { headers: { authorization: `Bearer ${value["token"]}` } });
          const before = await models();
          assert.equal(before.status, 200);
          await before.body?.cancel();
          const revoked = await admin(`keys/${(value["key"] as JsonObject)["id"]}/revoke`, {
            method: "POST",
          });
          assert.equal(revoked.status, 200);
          const after = await models();
          assert.equal(after.status, 401);
          await after.body?.cancel();
        });
      });
    });
  } finally {
    await upstream.stop();
  }
});
