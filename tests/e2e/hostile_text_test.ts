import assert from "node:assert/strict";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";

const HOSTILE = "a\0b\ud800c";
const MENDED = "a\ufffdb\ufffdc";

async function ask(hub: TestHub, path: string, options: Parameters<TestHub["call"]>[1] = {}) {
  const answer = await hub.call(path, options);
  return { status: answer.status, value: await answer.json() };
}

Deno.test("text and cursors that Postgres refuses never end as an internal error", async (t) => {
  const upstream = await startScriptedUpstream(() => chatStream({ text: "Hi" }));
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-up" } },
    defaultModel: "up/m",
  };
  try {
    await withHub(config, async (hub) => {
      const body = { title: HOSTILE, metadata: { [HOSTILE]: HOSTILE }, externalId: HOSTILE };
      const created = await ask(hub, "/v1/sessions", { body });
      const { id } = created.value;

      await t.step("a session's title, metadata and external id", async () => {
        assert.equal(created.status, 201);
        assert.equal(created.value.title, MENDED);
        assert.equal(created.value.externalId, MENDED);
        assert.deepEqual(created.value.metadata, { [MENDED]: MENDED });
        const again = await ask(hub, "/v1/sessions", { body });
        assert.equal(again.value.id, id);
        const changed = await ask(hub, `/v1/sessions/${id}`, {
          method: "PATCH",
          body: { title: HOSTILE },
        });
        assert.equal(changed.value.title, MENDED);
      });

      await t.step("a message's id, text and file; the same again is the same run", async () => {
        const parts = [
          { type: "text", text: HOSTILE },
          { type: "file", mediaType: "text/plain", url: "data:,x", filename: HOSTILE },
        ];
        const message = { id: HOSTILE, parts, stream: false };
        const path = `/v1/sessions/${id}/messages`;
        const first = await ask(hub, path, { body: message });
        assert.equal(first.status, 200);
        const again = await ask(hub, path, { body: message });
        assert.equal(again.value.run.id, first.value.run.id);
        const { messages } = (await ask(hub, path)).value;
        assert.equal(messages[0].clientId, MENDED);
        assert.equal(messages[0].parts[0].text, MENDED);
        assert.equal(messages[0].parts[1].filename, MENDED);
      });

      await t.step("an AI SDK chat", async () => {
        const chat = {
          id: `chat${HOSTILE}`,
          messages: [{ id: HOSTILE, role: "user", parts: [{ type: "text", text: HOSTILE }] }],
        };
        const answer = await hub.call("/api/chat", { body: chat });
        assert.equal(answer.status, 200);
        assert.match(await answer.text(), /\[DONE\]\n\n$/);
      });

      await t.step("paths, queries and cursors", async () => {
        const forged = btoa(JSON.stringify(["x"])).replaceAll("=", "");
        for (
          const path of [
            "/v1/sessions/ext:a%00b",
            "/v1/sessions?agent=a%00b",
            "/v1/sessions?after=a%00b",
            "/api/chat/a%00b/messages",
            `/v1/sessions?after=${forged}`,
            `/v1/sessions/${id}/messages?after=${forged}`,
            "/v1/sessions?createdAfter=2026-13-45T00:00:00Z",
          ]
        ) {
          const { status, value } = await ask(hub, path);
          assert.equal(status, 400, path);
          assert.equal(value.error.code, "invalid_request", path);
        }
        const since = await ask(hub, "/v1/sessions?createdAfter=2026-01-01T00:00:00Z");
        assert.equal(since.status, 200);
        assert.equal(since.value.sessions.length, 2);
      });
    });
  } finally {
    await upstream.stop();
  }
});
