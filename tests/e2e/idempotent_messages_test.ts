import assert from "node:assert/strict";
import type { Json } from "../../src/core/json.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { type TestHub, withReplicas } from "../support/test_hub.ts";

const framesOf = (text: string) => text.replaceAll(/^:.*\n\n/gm, "");
const isReplayed = (answer: Response) => answer.headers.get("idempotent-replayed") === "true";

Deno.test("a message with a key is said once", async (t) => {
  const upstream = await startScriptedUpstream();
  const config = { providers: { one: { baseUrl: upstream.url } }, defaultModel: "one/m" };
  const newSession = async (hub: TestHub): Promise<string> =>
    (await (await hub.call("/v1/sessions", { body: {} })).json()).id;
  const say = (hub: TestHub, session: string, body: Json, key = "k") =>
    hub.call(`/v1/sessions/${session}/messages`, { body, headers: { "idempotency-key": key } });
  const messagesOf = async (hub: TestHub, session: string) =>
    (await (await hub.call(`/v1/sessions/${session}/messages`)).json()).data;
  try {
    await withReplicas([config, config], async (first, second) => {
      await t.step("fifty at once on two replicas are one run and one stream", async () => {
        upstream.script(() => chatStream({ text: "One two three four five", delayMs: 30 }));
        const session = await newSession(first);
        const asked = upstream.requests.length;
        const answers = await Promise.all(
          Array.from(
            { length: 50 },
            (_, at) => say(at % 2 === 0 ? first : second, session, { text: "Go" }),
          ),
        );
        assert.deepEqual(answers.map(({ status }) => status), answers.map(() => 200));
        assert.equal(answers.filter((answer) => !isReplayed(answer)).length, 1);
        assert.equal(new Set(answers.map(({ headers }) => headers.get("x-loophub-run"))).size, 1);
        const texts = await Promise.all(answers.map((answer) => answer.text()));
        assert.equal(new Set(texts.map(framesOf)).size, 1);
        assert.match(texts[0] ?? "", /"finish"[\s\S]*\[DONE\]/);
        assert.equal(upstream.requests.length, asked + 1);
        const again = await say(second, session, { text: "Go" });
        assert.equal(framesOf(await again.text()), framesOf(texts[0] ?? ""));
        assert.equal((await messagesOf(first, session)).length, 2);

        const other = await say(second, session, { text: "Stop" });
        assert.equal(other.status, 422);
        assert.match((await other.json()).error.message, /Idempotency-Key/);
        const shape = await say(second, session, { text: "Go", stream: false });
        assert.equal(shape.status, 422);
        await shape.body?.cancel();
      });

      await t.step("without a stream the same message comes again", async () => {
        const session = await newSession(first);
        const body = { text: "Go", stream: false };
        const own = await say(first, session, body);
        const text = await own.text();
        const again = await say(second, session, body);
        assert.deepEqual([again.status, await again.text()], [200, text]);
        assert.deepEqual([isReplayed(own), isReplayed(again)], [false, true]);
      });

      await t.step("each session has keys of its own, and a key its day", async () => {
        const sessions = [await newSession(first), await newSession(second)];
        const body = { text: "Go", stream: false };
        for (const session of sessions) {
          assert.equal(isReplayed(await say(first, session, body)), false);
        }
        const [session = ""] = sessions;
        await first.hub.start.db
          .control`update hub.runs set created_at = now() - interval '25 hours'`;
        const next = await say(second, session, { text: "Else", stream: false });
        assert.deepEqual([next.status, isReplayed(next)], [200, false]);
        assert.equal((await messagesOf(first, session)).length, 4);
        const again = await say(first, session, { text: "Else", stream: false });
        assert.equal(await again.text(), await next.text());
      });

      await t.step("a key that is none is refused before anything is said", async () => {
        const session = await newSession(first);
        const answer = await say(first, session, { text: "Go" }, "a b");
        assert.equal(answer.status, 400);
        await answer.body?.cancel();
        assert.equal((await messagesOf(first, session)).length, 0);
      });

      await t.step("an answer is made again once", async () => {
        const chat = (body: Record<string, Json>, key: string, hub: TestHub) =>
          hub.call("/api/chat", {
            body: { id: "chat-1", ...body },
            headers: { "idempotency-key": key },
          });
        const messages = [{ id: "u1", role: "user", parts: [{ type: "text", text: "Hi" }] }];
        const asked = upstream.requests.length;
        const said = await chat({ messages }, "a", first);
        const text = await said.text();
        const [, answerId] = /"messageId":"(\w+)"/.exec(text) ?? [];
        const again = { messages, trigger: "regenerate-message", messageId: answerId ?? null };
        const own = await chat(again, "b", first);
        const once = await own.text();
        const replay = await chat(again, "b", second);
        assert.deepEqual([isReplayed(own), isReplayed(replay)], [false, true]);
        assert.equal(framesOf(await replay.text()), framesOf(once));
        assert.notEqual(framesOf(once), framesOf(text));
        assert.equal(upstream.requests.length, asked + 2);
      });
    });
  } finally {
    await upstream.stop();
  }
});
