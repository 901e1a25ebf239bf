import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";

const user = (id: string, text: string) => ({
  id,
  role: "user",
  parts: [{ type: "text", text }],
});

Deno.test("chats of AI SDK clients: what is refused, and how it is told", async (t) => {
  const upstream = await startScriptedUpstream();
  upstream.script(() => chatStream({ text: "Hello" }));
  const config = { providers: { one: { baseUrl: upstream.url } }, defaultModel: "one/m" };
  try {
    await withHub(config, async (hub) => {
      const post = async (body: JsonObject, headers: Record<string, string> = {}) => {
        const answer = await hub.call("/api/chat", { body, headers });
        const type = answer.headers.get("content-type") ?? "";
        return { status: answer.status, type, text: await answer.text() };
      };
      const regenerate = (chat: string, messageId?: string) =>
        post({
          id: chat,
          messages: [],
          trigger: "regenerate-message",
          ...(messageId === undefined ? {} : { messageId }),
        });
      const answersOf = async (chat: string) => {
        const { data: messages } = await (await hub.call(`/api/chat/${chat}/messages`)).json();
        return messages.map(({ id }: { id: string }) => id) as string[];
      };

      await t.step("a failure is a sentence", async () => {
        for (const body of [{ id: "a", messages: [] }, { id: "a" }]) {
          const { status, type, text } = await post(body);
          assert.equal(status, 400);
          assert.equal(type, "text/plain; charset=utf-8");
          assert.match(text, /^[A-Za-z][^{}]+$/);
        }
        const denied = await post({ id: "a", messages: [user("u1", "Hi")] }, {
          authorization: "Bearer nobody",
        });
        assert.equal(denied.status, 401);
        assert.equal(denied.text, "Incorrect API key provided");
      });

      await t.step("regenerate wants something to answer", async () => {
        for (const chat of ["unknown", "empty"]) {
          if (chat === "empty") {
            const made = await hub.call("/v1/sessions", { body: { externalId: chat } });
            await made.body?.cancel();
          }
          const { status, text } = await regenerate(chat);
          assert.equal(status, 404);
          assert.equal(text, `The chat ${chat} has no message that could be answered again`);
        }
        const session = await hub.call("/v1/sessions/ext:unknown");
        await session.body?.cancel();
        assert.equal(session.status, 404);
        assert.equal(upstream.requests.length, 0);
      });

      await t.step("regenerate makes the last answer again, by any of its names", async () => {
        assert.equal((await post({ id: "c", messages: [user("u1", "One")] })).status, 200);
        assert.equal((await post({ id: "c", messages: [user("u2", "Two")] })).status, 200);
        const [, first = "", asked = "", last = ""] = await answersOf("c");
        const before = upstream.requests.length;
        for (const earlier of [first, "u1", "nobody"]) {
          const { status, text } = await regenerate("c", earlier);
          assert.equal(status, 400);
          assert.match(text, /is not the last answer of the chat/);
        }
        assert.equal(upstream.requests.length, before);
        assert.equal((await answersOf("c"))[3], last);

        let current = last;
        for (const name of [last, "u2", asked, undefined]) {
          assert.equal((await regenerate("c", name)).status, 200);
          const now = await answersOf("c");
          assert.equal(now.length, 4);
          assert.notEqual(now[3], current);
          current = now[3] ?? "";
        }
        assert.equal((await regenerate("c", last)).status, 400);
      });
    });
  } finally {
    await upstream.stop();
  }
});
