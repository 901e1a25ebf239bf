import assert from "node:assert/strict";
import { userSays } from "../../support/ai_sdk_page.ts";
import { chatStream, startScriptedUpstream } from "../../support/scripted_upstream.ts";
import { withHub } from "../../support/test_hub.ts";

const PAGE = "https://app.example.com";

Deno.test("pages of configured origins call the hub, and no others do", async (t) => {
  const upstream = await startScriptedUpstream();
  upstream.script(() => chatStream({ text: "Hello" }));
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    server: {
      cors: { origins: [PAGE] },
      publicUrl: "https://hub.example.com/base",
      trustedHosts: ["hub.internal:8443"],
    },
  };
  try {
    await withHub(config, async (hub) => {
      const post = (origin: string) =>
        hub.call("/api/chat", {
          headers: { origin },
          body: { id: "c", messages: [userSays("u1", "Hi")] },
        });

      await t.step("a preflight names what may be sent", async () => {
        const asked =
          "authorization,content-type,hub-stream-level,x-stainless-os,idempotency-key,x-unknown";
        const answer = await fetch(`${hub.url}/api/chat`, {
          method: "OPTIONS",
          headers: {
            origin: PAGE,
            "access-control-request-method": "POST",
            "access-control-request-headers": asked,
          },
        });
        await answer.body?.cancel();
        assert.equal(answer.status, 204);
        assert.equal(answer.headers.get("access-control-allow-origin"), PAGE);
        assert.equal(answer.headers.get("access-control-allow-credentials"), null);
        assert.match(answer.headers.get("access-control-allow-methods") ?? "", /POST.*DELETE/);
        assert.equal(
          answer.headers.get("access-control-allow-headers"),
          "authorization, content-type, hub-stream-level, x-stainless-os, idempotency-key",
        );
        assert.match(answer.headers.get("vary") ?? "", /origin/i);
      });

      await t.step("an answer may be read", async () => {
        const answer = await post(PAGE);
        await answer.text();
        assert.equal(answer.status, 200);
        assert.equal(answer.headers.get("access-control-allow-origin"), PAGE);
        assert.match(answer.headers.get("vary") ?? "", /origin/i);
        assert.match(answer.headers.get("access-control-expose-headers") ?? "", /x-request-id/);
      });

      await t.step("so may an error", async () => {
        const answer = await hub.call("/api/chat", {
          headers: { origin: PAGE, authorization: "Bearer wrong" },
          body: { id: "c", messages: [] },
        });
        await answer.text();
        assert.equal(answer.status, 401);
        assert.equal(answer.headers.get("access-control-allow-origin"), PAGE);
      });

      await t.step(
        "the hub's own pages, by its address, its public one and trusted names",
        async () => {
          const own = [hub.url, "https://hub.example.com", "https://hub.internal:8443"];
          for (const origin of own) {
            const answer = await post(origin);
            await answer.text();
            assert.equal(answer.status, 200, origin);
            assert.equal(answer.headers.get("access-control-allow-origin"), null);
            assert.match(answer.headers.get("vary") ?? "", /origin/i);
          }
        },
      );

      await t.step("other pages", async () => {
        const others = ["https://evil.example", `${PAGE}.evil.example`, `${PAGE}:8443`, "null"];
        for (const origin of [...others, "http://app.example.com", "http://hub.example.com"]) {
          const answer = await post(origin);
          assert.equal(answer.status, 403, origin);
          assert.match(await answer.text(), /server\.cors\.origins/);
          assert.equal(answer.headers.get("access-control-allow-origin"), null);
        }
      });

      await t.step("answers to programs differ from those to pages", async () => {
        const answer = await hub.call("/healthz");
        await answer.text();
        assert.match(answer.headers.get("vary") ?? "", /origin/i);
      });
    });
  } finally {
    await upstream.stop();
  }
});
