import assert from "node:assert/strict";
import { makeToken } from "../../support/browser_tokens.ts";
import { hasChromium, openPage } from "../../support/chromium.ts";
import { chatStream, startScriptedUpstream } from "../../support/scripted_upstream.ts";
import { systemClock } from "../../support/system_clock.ts";
import { startTestHub, withHub } from "../../support/test_hub.ts";
import { startWebPage } from "../../support/web_page.ts";

/** What the page's own server tells it. */
interface Facts {
  hub: string;
  token: string;
  expired: string;
}

/** What a page finds out in a real browser; runs there, and sees nothing of this file. */
async function look({ hub, token, expired }: Facts) {
  const ask = async (
    path: string,
    { token: as = token, ...init }: RequestInit & { token?: string } = {},
  ) => {
    const headers = {
      authorization: `Bearer ${as}`,
      "content-type": "application/json",
      "hub-stream-level": "6",
    };
    try {
      const answer = await fetch(hub + path, { headers, ...init });
      const pieces: string[] = [];
      const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
      for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
        pieces.push(read.value);
      }
      const code = answer.headers.get("x-loophub-error-code");
      return { status: answer.status, code, text: pieces.join("") };
    } catch (error) {
      return { failed: (error as Error).name };
    }
  };
  const say = (id: string, more: Parameters<typeof ask>[1] = {}) =>
    ask("/api/chat", {
      method: "POST",
      body: JSON.stringify({
        id,
        messages: [{ id: "u1", role: "user", parts: [{ type: "text", text: "Hi" }] }],
      }),
      ...more,
    });
  return {
    chat: await say("c"),
    history: await ask("/api/chat/c/messages"),
    stop: await ask("/api/chat/c/stop", { method: "POST" }),
    otherChat: await say("other"),
    otherHistory: await ask("/api/chat/other/messages"),
    otherRoute: await ask("/v1/models"),
    anotherToken: await ask("/v1/browser-tokens", {
      method: "POST",
      body: JSON.stringify({ agent: "default", chatId: "other" }),
    }),
    expired: await say("c", { token: expired }),
    forged: await say("c", { token: `${token.slice(0, -1)}_` }),
    withCookies: await say("c", { credentials: "include" }),
  };
}

Deno.test("a page of another origin chats with a browser token, in Chromium", {
  ignore: !hasChromium,
}, async (t) => {
  const upstream = await startScriptedUpstream();
  upstream.script(() => chatStream({ text: "Hello from afar" }));
  const provider = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
  };
  const facts = Promise.withResolvers<Facts>();
  const listed = startWebPage(look, () => facts.promise);
  const unlisted = startWebPage(look, () => facts.promise);
  const config = { ...provider, server: { cors: { origins: [listed.origin] } } };
  try {
    await withHub(config, async (hub) => {
      const { databaseUrl, dataDir, key } = hub;
      const clock = { ...systemClock, now: () => systemClock.now() - 3_600_000 };
      const late = await startTestHub(config, { databaseUrl, dataDir, key, clock });
      const { key: expired } = await makeToken(late, { chatId: "c" });
      await late.close();
      const { key: token } = await makeToken(hub, { chatId: "c" });
      facts.resolve({ hub: hub.url, token, expired });
      const visit = async (page: typeof listed) => {
        const browser = await openPage(`${page.origin}/`);
        try {
          return await browser.until(page.report) as Awaited<ReturnType<typeof look>>;
        } finally {
          await browser.close();
        }
      };

      await t.step(
        "the browser keeps every answer from a page of an origin that is not listed",
        async () => {
          const found = await visit(unlisted);
          for (const [what, outcome] of Object.entries(found)) {
            assert.deepEqual(outcome, { failed: "TypeError" }, what);
          }
          assert.equal(upstream.requests.length, 0);
        },
      );

      await t.step("a page of a listed one reads its stream to the end, and its chat", async () => {
        const found = await visit(listed);
        const { chat, history, stop, ...refused } = found;
        assert.equal(chat.status, 200);
        assert.match(chat.text ?? "", /"delta":"Hello/);
        assert.match(chat.text ?? "", /"finishReason":"stop".*\n\ndata: \[DONE\]\n\n$/);
        assert.equal(history.status, 200);
        assert.match(history.text ?? "", /Hello from afar/);
        assert.deepEqual([stop.status, JSON.parse(stop.text ?? "")], [
          202,
          { runId: null, stopping: false },
        ]);
        const outcomes = Object.entries(refused).map(([what, { status, code, failed }]) =>
          [what, status ?? failed, code ?? null] as const
        );
        assert.deepEqual(outcomes, [
          ["otherChat", 404, "not_found"],
          ["otherHistory", 404, "not_found"],
          // These are JSON, with the code in it.
          ["otherRoute", 403, null],
          ["anotherToken", 403, null],
          ["expired", 401, "token_expired"],
          ["forged", 401, "invalid_api_key"],
          ["withCookies", "TypeError", null],
        ]);
        assert.equal(JSON.parse(found.otherRoute.text ?? "").error.code, "browser_token");
        assert.equal(upstream.requests.length, 1);
      });
    });
  } finally {
    await Promise.all([upstream.stop(), listed.stop(), unlisted.stop()]);
  }
});
