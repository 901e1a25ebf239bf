import assert from "node:assert/strict";
import type { JsonObject } from "../../../src/core/json.ts";
import { chunksOf, userSays } from "../../support/ai_sdk_page.ts";
import { chatStream, startScriptedUpstream } from "../../support/scripted_upstream.ts";
import { type TestHub, withHub } from "../../support/test_hub.ts";

interface Shown {
  id: string;
  role: string;
  parts: { text?: string }[];
}

const historyOf = async (hub: TestHub, chat = "c"): Promise<Shown[]> =>
  (await (await hub.call(`/api/chat/${chat}/messages`)).json()).data;

const textsOf = (messages: readonly Shown[]) =>
  messages.map(({ parts }) => parts.map(({ text = "" }) => text).join(""));

Deno.test("messages of users keep their clients' ids, and an edited one takes the place of what it was", async (t) => {
  const upstream = await startScriptedUpstream();
  upstream.script((_, index) => chatStream({ text: `answer ${index}` }));
  const config = { providers: { one: { baseUrl: upstream.url } }, defaultModel: "one/m" };
  try {
    await withHub(config, async (hub) => {
      const say = (messages: readonly unknown[], rest: JsonObject = {}) =>
        hub.call("/api/chat", {
          body: { id: "c", messages: messages as JsonObject[], trigger: "submit-message", ...rest },
        });
      const lastRequest = () =>
        (upstream.requests.at(-1)?.json.messages as { content: unknown }[]).map(({ content }) =>
          content
        );
      /** What `sendMessage({ text, messageId })` posts: the page's messages up to the edited one. */
      const edit = (page: readonly Shown[], messageId: string, text: string) => {
        const at = page.findIndex(({ id }) => id === messageId);
        const messages = [...page.slice(0, at), userSays(messageId, text)];
        return say(messages, { messageId });
      };
      for (const id of ["u1", "u2", "u3"]) await chunksOf(await say([userSays(id, `say ${id}`)]));

      await t.step("a page that is loaded again has its own ids", async () => {
        const page = await historyOf(hub);
        assert.deepEqual(
          page.filter(({ role }) => role === "user").map(({ id }) => id),
          ["u1", "u2", "u3"],
        );
      });

      await t.step("the history is cut there, and nothing is lost", async () => {
        const page = await historyOf(hub);
        await chunksOf(await edit(page, "u2", "say it better"));
        const now = await historyOf(hub);
        assert.deepEqual(textsOf(now), ["say u1", "answer 0", "say it better", "answer 3"]);
        assert.equal(now[2]?.id, "u2");
        const request = JSON.stringify(lastRequest());
        assert.match(request, /say u1.*answer 0.*say it better/);
        assert.doesNotMatch(request, /say u2|answer 1|say u3|answer 2/);
        const path = "/v1/sessions/ext:c/messages";
        const all = await (await hub.call(`${path}?superseded=true`)).json();
        assert.deepEqual(textsOf(all.messages), [
          ...["say u1", "answer 0", "say u2", "answer 1", "say u3", "answer 2"],
          ...["say it better", "answer 3"],
        ]);
        const counted = await (await hub.call(path)).json();
        assert.equal(counted.messages.length, 4);
      });

      await t.step("the same edit again gives the same run", async () => {
        const requests = upstream.requests.length;
        const page = await historyOf(hub);
        const again = await edit(page, "u2", "say it better");
        assert.equal(again.headers.get("idempotent-replayed"), "true");
        await chunksOf(again);
        assert.equal(upstream.requests.length, requests);
        assert.deepEqual(await historyOf(hub), page);
      });

      await t.step(
        "the first message, the last one, and one that says the same as before",
        async () => {
          await chunksOf(await say([userSays("u4", "say u4")]));
          await chunksOf(await edit(await historyOf(hub), "u4", "the last one"));
          assert.equal((await historyOf(hub)).length, 6);
          // Later turns are gone from the page, so they leave the history too.
          await chunksOf(await edit(await historyOf(hub), "u2", "say it better"));
          const page = await historyOf(hub);
          assert.equal(page.length, 4);
          await chunksOf(await edit(page, "u1", "from the start"));
          const [text] = textsOf(await historyOf(hub));
          assert.deepEqual([text, (await historyOf(hub)).length], ["from the start", 2]);
          assert.equal(lastRequest().filter((content) => content === "from the start").length, 1);
        },
      );

      await t.step("the hub's own id of a message is as good", async () => {
        const { data: messages } = await (await hub.call("/v1/sessions/ext:c/messages")).json();
        const [{ id }] = messages;
        assert.match(id, /^msg_/);
        await chunksOf(await say([userSays(id, "by its other name")], { messageId: id }));
        assert.equal(textsOf(await historyOf(hub))[0], "by its other name");
        assert.equal((await historyOf(hub))[0]?.id, id);
      });

      await t.step("what the hub does not know is refused, and changes nothing", async () => {
        const page = await historyOf(hub);
        const requests = upstream.requests.length;
        for (const messageId of ["unknown", page[1]?.id ?? "", `msg_${"0".repeat(32)}`]) {
          const answer = await say([userSays(messageId, "other")], { messageId });
          assert.equal(answer.status, 400);
          assert.match(await answer.text(), /There is no message .* load the conversation again/);
        }
        const other = await say([...page, userSays("x", "other")], { id: "new", messageId: "x" });
        assert.equal(other.status, 400);
        await other.body?.cancel();
        assert.equal((await hub.call("/v1/sessions/ext:new")).status, 404);
        assert.equal(upstream.requests.length, requests);
        assert.deepEqual(await historyOf(hub), page);
      });

      await t.step("a message that never came is said where the page has it", async () => {
        const page = await historyOf(hub);
        // `sendMessage()` after a failure: the page's last message, by its id.
        await chunksOf(await say([...page, userSays("lost", "again")], { messageId: "lost" }));
        assert.deepEqual(textsOf(await historyOf(hub)).slice(2, 3), ["again"]);
        const first = { id: "other", messageId: "lost" };
        await chunksOf(await say([userSays("lost", "hello")], first));
        assert.equal((await historyOf(hub, "other")).length, 2);
      });

      await t.step("an answer is made again behind an edit", async () => {
        const body = { id: "c", messages: [], trigger: "regenerate-message" };
        const before = await historyOf(hub);
        await chunksOf(await hub.call("/api/chat", { body }));
        const after = await historyOf(hub);
        assert.deepEqual(
          after.slice(0, -1).map(({ id }) => id),
          before.slice(0, -1).map(({ id }) => id),
        );
        assert.notEqual(after.at(-1)?.id, before.at(-1)?.id);
      });
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("an edit while the answer comes stops that answer", async () => {
  const upstream = await startScriptedUpstream();
  const asked = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  upstream.script(async (_, index) => {
    if (index > 0) return chatStream({ text: "To the point" });
    asked.resolve();
    await held.promise;
    return chatStream({ text: "void" });
  });
  const config = { providers: { one: { baseUrl: upstream.url } }, defaultModel: "one/m" };
  try {
    await withHub(config, async (hub) => {
      const say = (text: string, rest: JsonObject = {}) =>
        hub.call("/api/chat", { body: { id: "c", messages: [userSays("u1", text)], ...rest } });
      const first = say("A typo");
      await asked.promise;
      const refused = await say("No typo", { messageId: "u1", whenBusy: "refuse" });
      assert.equal(refused.status, 409);
      await refused.body?.cancel();
      const second = say("No typo", { messageId: "u1" });
      assert.ok((await chunksOf(await first)).some(({ type }) => type === "abort"));
      held.resolve();
      await chunksOf(await second);
      assert.deepEqual(textsOf(await historyOf(hub)), ["No typo", "To the point"]);
    });
  } finally {
    held.resolve();
    await upstream.stop();
  }
});
