import assert from "node:assert/strict";
import type { JsonObject } from "../../../src/core/json.ts";
import { chunkOf, chunksOf, typesOf, userSays } from "../../support/ai_sdk_page.ts";
import { chatStream, type Reply, startScriptedUpstream } from "../../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub, withReplicas } from "../../support/test_hub.ts";

/** An upstream whose answers come when the test gives them, in the order of the requests. */
async function startHeldUpstream() {
  const upstream = await startScriptedUpstream();
  const held: ((reply: Reply) => void)[] = [];
  upstream.script(() => new Promise<Reply>((resolve) => held.push(resolve)));
  return {
    ...upstream,
    /** Answers the oldest request that waits, as soon as there is one. */
    async answer(reply: Reply) {
      const give = await eventually(() => held.shift());
      give(reply);
    },
    asked: (count: number) => eventually(() => upstream.requests.length >= count ? true : null),
  };
}

const textOf = (chunks: readonly JsonObject[]) =>
  chunks.map(({ type, delta }) => type === "text-delta" ? delta : "").join("");

async function historyOf(hub: TestHub, chat: string): Promise<[string, string][]> {
  const { data: messages } = await (await hub.call(`/api/chat/${chat}/messages`)).json();
  return messages.map(({ id, role }: { id: string; role: string }) => [role, id]);
}

async function withHeld(
  body: (
    rig: {
      first: TestHub;
      second: TestHub;
      upstream: Awaited<ReturnType<typeof startHeldUpstream>>;
    },
  ) => Promise<void>,
  agents: JsonObject = {},
) {
  const upstream = await startHeldUpstream();
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    agents: { default: {}, ...agents },
  };
  try {
    await withReplicas([config, config], (first, second) => body({ first, second, upstream }));
  } finally {
    await upstream.stop();
  }
}

const say = (hub: TestHub, id: string, text: string, rest: JsonObject = {}, query = "") =>
  hub.call(`/api/chat${query}`, { body: { id, messages: [userSays(text, text)], ...rest } });

Deno.test("messages to a busy chat are queued: each is answered behind the one before, on any replica", async () => {
  await withHeld(async ({ first, second, upstream }) => {
    const one = say(first, "c", "one");
    await upstream.asked(1);
    const two = say(second, "c", "two");
    // Its stream begins at once, though its run has not.
    assert.equal((await two).status, 200);
    const three = say(second, "c", "three");
    assert.equal((await three).status, 200);
    assert.equal(upstream.requests.length, 1);
    await upstream.answer(chatStream({ text: "first" }));
    assert.equal(textOf(await chunksOf(await one)), "first");
    await upstream.answer(chatStream({ text: "second" }));
    assert.equal(textOf(await chunksOf(await two)), "second");
    await upstream.answer(chatStream({ text: "third" }));
    assert.equal(textOf(await chunksOf(await three)), "third");
    const said = upstream.requests.map(({ json }) => JSON.stringify(json.messages));
    assert.match(said[1] ?? "", /one.*first.*two/);
    assert.match(said[2] ?? "", /two.*second.*three/);
    const roles = (await historyOf(first, "c")).map(([role]) => role);
    assert.deepEqual(roles, ["user", "assistant", "user", "assistant", "user", "assistant"]);
  });
});

Deno.test("a queued message is said though its client has left, and its failure is told in its stream", async (t) => {
  await withHeld(async ({ first, upstream }) => {
    const one = say(first, "c", "one");
    await upstream.asked(1);

    await t.step("the client leaves", async () => {
      const leaving = new AbortController();
      const two = await first.call("/api/chat", {
        body: { id: "c", messages: [userSays("two", "two")] },
        signal: leaving.signal,
      });
      assert.equal(two.status, 200);
      leaving.abort();
      await two.text().catch(() => {});
      await upstream.answer(chatStream({ text: "first" }));
      assert.equal(textOf(await chunksOf(await one)), "first");
      await upstream.answer(chatStream({ text: "second" }));
      await eventually(async () => (await historyOf(first, "c")).length === 4 ? true : null);
    });

    await t.step("the same id with other content", async () => {
      const three = say(first, "c", "three");
      await upstream.asked(3);
      const other = await first.call("/api/chat", {
        body: { id: "c", messages: [userSays("four", "four")] },
      });
      const mistaken = await first.call("/api/chat", {
        body: { id: "c", messages: [userSays("four", "something else")] },
      });
      await upstream.answer(chatStream({ text: "third" }));
      await upstream.answer(chatStream({ text: "fourth" }));
      await chunksOf(await three);
      assert.equal(textOf(await chunksOf(other)), "fourth");
      const { errorText } = chunkOf(await chunksOf(mistaken), "error");
      assert.match(String(errorText), /came before with other content/);
    });

    await t.step("too many are refused", async () => {
      const running = say(first, "full", "running");
      await upstream.asked(5);
      const queued = [];
      for (let at = 0; at < 20; at++) queued.push(await say(first, "full", `m${at}`));
      const refused = await say(first, "full", "too many");
      assert.equal(refused.status, 503);
      assert.match(await refused.text(), /20 messages wait for this chat/);
      for (const one of [await running, ...queued]) {
        await upstream.answer(chatStream({ text: "ok" }));
        await chunksOf(one);
      }
    });
  });
});

Deno.test("a message to a busy chat replaces, steers or is refused, as request, query or agent say", async (t) => {
  const agents = { hasty: { whenBusy: "replace" } };
  await withHeld(async ({ first, second, upstream }) => {
    await t.step("replace", async () => {
      for (
        const [at, [rest, query]] of ([
          [{ whenBusy: "replace" }, ""],
          [{}, "?whenBusy=replace"],
          [{ agent: "hasty" }, ""],
          [{ agent: "hasty", whenBusy: "replace" }, "?whenBusy=refuse"],
        ] as [JsonObject, string][]).entries()
      ) {
        const id = `replace-${at}`;
        const before = upstream.requests.length;
        const one = say(first, id, "one");
        await upstream.asked(before + 1);
        const two = say(second, id, "two", rest, query);
        const stopped = await chunksOf(await one);
        assert.ok(typesOf(stopped).includes("abort"));
        await upstream.asked(before + 2);
        await upstream.answer(chatStream({ text: "void" }));
        await upstream.answer(chatStream({ text: "second" }));
        assert.equal(textOf(await chunksOf(await two)), "second");
      }
    });

    await t.step("steer", async () => {
      const before = upstream.requests.length;
      const one = say(first, "steer", "one");
      await upstream.asked(before + 1);
      const two = await say(second, "steer", "two", { whenBusy: "steer" });
      assert.equal(two.status, 200);
      await upstream.answer(
        chatStream({ toolCalls: [{ name: "hub_current_time", arguments: {} }] }),
      );
      await upstream.asked(before + 2);
      assert.match(JSON.stringify(upstream.requests.at(-1)?.json.messages), /"two"/);
      await upstream.answer(chatStream({ text: "Both" }));
      const whole = await chunksOf(await one);
      const rest = await chunksOf(two);
      assert.equal(textOf(whole), "Both");
      assert.equal(textOf(rest), "Both");
      assert.ok(!typesOf(rest).includes("tool-input-available"), "what came before is not shown");
      const [a, b] = [whole, rest].map((chunks) => chunkOf(chunks, "start"));
      assert.notEqual(a?.["messageId"], b?.["messageId"]);
      assert.deepEqual(a?.["messageMetadata"], b?.["messageMetadata"]);
    });

    await t.step("refuse", async () => {
      const before = upstream.requests.length;
      const one = say(first, "refuse", "one");
      await upstream.asked(before + 1);
      const two = await say(second, "refuse", "two", { whenBusy: "refuse" });
      assert.equal(two.status, 409);
      assert.match(await two.text(), /is busy with run_/);
      const wrong = await say(second, "refuse", "two", { whenBusy: "later" });
      assert.equal(wrong.status, 400);
      await wrong.body?.cancel();
      await upstream.answer(chatStream({ text: "first" }));
      await chunksOf(await one);
    });
  }, agents);
});

Deno.test("chats are stopped and deleted by their own ids, and an answer is made again after a stop or a drop", async (t) => {
  await withHeld(async ({ first, second, upstream }) => {
    const stop = async (hub: TestHub, chat: string, method = "POST") => {
      const answer = await hub.call(`/api/chat/${chat}/stop`, { method });
      return { status: answer.status, body: answer.ok ? await answer.json() : await answer.text() };
    };
    const regenerate = (hub: TestHub, rest: JsonObject = {}) =>
      hub.call("/api/chat", {
        body: {
          id: "c",
          trigger: "regenerate-message",
          messages: [userSays("one", "one")],
          ...rest,
        },
      });

    await t.step("a stop by the chat's id", async () => {
      for (const method of ["POST", "DELETE"]) {
        const missing = await stop(first, "none", method);
        assert.deepEqual(missing, { status: 404, body: "There is no chat none" });
        const before = upstream.requests.length;
        const one = say(first, `stop-${method}`, "one");
        await upstream.asked(before + 1);
        const { status, body } = await stop(second, `stop-${method}`, method);
        assert.equal(status, 202);
        assert.equal(body.stopping, true);
        const chunks = await chunksOf(await one);
        assert.ok(typesOf(chunks).includes("abort"));
        const { runId } = chunkOf(chunks, "start")["messageMetadata"] as { runId: string };
        assert.equal(body.runId, runId);
        const again = await stop(second, `stop-${method}`, method);
        assert.deepEqual(again, { status: 202, body: { runId: null, stopping: false } });
        await upstream.answer(chatStream({ text: "void" }));
      }
    });

    await t.step("regenerate after a stop", async () => {
      const before = upstream.requests.length;
      const one = say(first, "c", "one");
      await upstream.asked(before + 1);
      await stop(first, "c");
      const { messageId = "" } = chunkOf(await chunksOf(await one), "start");
      await upstream.answer(chatStream({ text: "void" }));
      const again = regenerate(second, { messageId });
      await upstream.answer(chatStream({ text: "again" }));
      assert.equal(textOf(await chunksOf(await again)), "again");
      assert.deepEqual((await historyOf(first, "c")).map(([role]) => role), ["user", "assistant"]);
    });

    await t.step(
      "regenerate while the answer still comes, as after a lost connection",
      async () => {
        const before = upstream.requests.length;
        const again = regenerate(first);
        await upstream.asked(before + 1);
        const other = regenerate(second);
        assert.ok(typesOf(await chunksOf(await again)).includes("abort"));
        await upstream.asked(before + 2);
        await upstream.answer(chatStream({ text: "void" }));
        await upstream.answer(chatStream({ text: "once more" }));
        assert.equal(textOf(await chunksOf(await other)), "once more");
        const refused = regenerate(first);
        await upstream.asked(before + 3);
        assert.equal((await regenerate(second, { whenBusy: "refuse" })).status, 409);
        await upstream.answer(chatStream({ text: "at last" }));
        await chunksOf(await refused);
        assert.equal((await historyOf(first, "c")).length, 2);
      },
    );

    await t.step("regenerate of a message that never came says it", async () => {
      const messages = [userSays("one", "one"), userSays("lost", "lost words")];
      const lost = regenerate(first, { messages });
      await upstream.answer(chatStream({ text: "found" }));
      assert.equal(textOf(await chunksOf(await lost)), "found");
      assert.match(JSON.stringify(upstream.requests.at(-1)?.json.messages), /at last.*lost words/);
      assert.equal((await historyOf(first, "c")).length, 4);
      const fresh = regenerate(first, { id: "fresh" });
      await upstream.answer(chatStream({ text: "hello" }));
      assert.equal(textOf(await chunksOf(await fresh)), "hello");
    });

    await t.step("a chat is deleted, unless its run goes on", async () => {
      const remove = async (chat: string) => {
        const answer = await second.call(`/api/chat/${chat}`, { method: "DELETE" });
        return { status: answer.status, text: await answer.text() };
      };
      assert.equal((await remove("none")).status, 404);
      const before = upstream.requests.length;
      const one = say(first, "gone", "one");
      await upstream.asked(before + 1);
      const { status, text } = await remove("gone");
      assert.equal(status, 409);
      assert.match(text, /stop it first/);
      await upstream.answer(chatStream({ text: "first" }));
      await chunksOf(await one);
      assert.equal((await remove("gone")).status, 204);
      assert.deepEqual(await historyOf(first, "gone"), []);
      assert.equal((await first.call("/v1/sessions/ext:gone")).status, 404);
    });
  });
});

Deno.test("a queued message is not said by a replica that stops, and its client is told", async () => {
  const upstream = await startHeldUpstream();
  const config = { providers: { one: { baseUrl: upstream.url } }, defaultModel: "one/m" };
  try {
    await withHub(config, async (hub) => {
      const one = say(hub, "c", "one");
      await upstream.asked(1);
      const two = await say(hub, "c", "two");
      const told = two.text().catch((error: Error) => error.message);
      const restarted = hub.restart();
      void one.then((answer) => answer.text()).catch(() => {});
      assert.match(await told, /say the message again|error|closed/i);
      const after = await restarted;
      const { data: messages } = await (await after.call("/v1/sessions/ext:c/messages")).json();
      assert.ok(!JSON.stringify(messages).includes("two"));
    });
  } finally {
    await upstream.stop();
  }
});
