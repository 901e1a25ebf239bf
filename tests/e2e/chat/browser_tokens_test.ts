import assert from "node:assert/strict";
import { fromUuid } from "../../../src/core/id.ts";
import type { JsonObject } from "../../../src/core/json.ts";
import { answeredMessage, chunkOf, chunksOf, userSays } from "../../support/ai_sdk_page.ts";
import { pathOf, routesOf } from "../../support/api_routes.ts";
import { withTwo } from "../../support/approvals_rig.ts";
import { makeToken, refusalOf } from "../../support/browser_tokens.ts";
import { withKey } from "../../support/owned_things.ts";
import { chatStream, type Reply, startScriptedUpstream } from "../../support/scripted_upstream.ts";
import { systemClock } from "../../support/system_clock.ts";
import { eventually, startTestHub, type TestHub, withHub } from "../../support/test_hub.ts";

/** All routes that a browser token opens. */
const OPEN = [
  "DELETE /api/chat/{id}/stop",
  "GET /api/chat/{id}/messages",
  "GET /api/chat/{id}/stream",
  "POST /api/chat",
  "POST /api/chat/{id}/stop",
];
const AGENTS = {
  default: {},
  brief: { systemPrompt: "You are brief.", models: ["one/m"] },
};

const say = (hub: TestHub, id: string, text: string, rest: JsonObject = {}, query = "") =>
  hub.call(`/api/chat${query}`, { body: { id, messages: [userSays(text, text)], ...rest } });

const newKey = async (hub: TestHub, body: JsonObject) => {
  const made = await (await hub.call("/v1/admin/keys", { body: { name: "k", ...body } })).json();
  return { keyId: String(made.key.id), hub: withKey(hub, made.token) };
};

const count = async (hub: TestHub, table: "sessions" | "messages") => {
  const { read } = hub.hub.start.db;
  const [row] = await read<{ n: number }[]>`select count(*)::int as n from ${read(`hub.${table}`)}`;
  return row?.n ?? -1;
};

async function withUpstream(
  body: (
    hub: Parameters<Parameters<typeof withHub>[1]>[0],
    upstream: Awaited<ReturnType<typeof startScriptedUpstream>> & { config: JsonObject },
  ) => Promise<void>,
) {
  const upstream = await startScriptedUpstream();
  upstream.script(() => chatStream({ text: "Hello" }));
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    agents: AGENTS,
  };
  try {
    await withHub(config, (hub) => body(hub, { ...upstream, config }));
  } finally {
    await upstream.stop();
  }
}

Deno.test("every route but those of its chat refuses a browser token, of an admin's key too", async () => {
  await withUpstream(async (hub, { requests }) => {
    const page = await makeToken(hub, { chatId: "c" });
    const closed: string[] = [];
    const open: string[] = [];
    for (const { method, pattern, operation } of await routesOf(hub)) {
      if ((operation.security ?? []).length === 0) continue;
      const path = pathOf(pattern, (name) => name === "id" ? "c" : "default");
      for (const headers of [{}, { authorization: "", "x-api-key": page.key }]) {
        const sent = Object.entries({ authorization: `Bearer ${page.key}`, ...headers })
          .filter(([, value]) => value !== "");
        const answer = await fetch(hub.url + path, { method, headers: Object.fromEntries(sent) });
        const name = `${method} ${pattern}`;
        if (OPEN.includes(name)) {
          await answer.body?.cancel();
          assert.notEqual(answer.status, 403, name);
          open.push(name);
        } else {
          const text = await answer.text();
          assert.equal(answer.status, 403, `${name}: ${text}`);
          assert.match(text, /browser token/, name);
          closed.push(name);
        }
      }
    }
    assert.deepEqual([...new Set(open)].sort(), OPEN);
    assert.ok(closed.length > 2 * 60, String(closed.length));
    assert.ok(closed.includes("POST /v1/browser-tokens"), "none is made with another");
    assert.equal(requests.length, 0);
    assert.equal(await count(hub, "sessions"), 0);
  });
});

Deno.test("a page with a browser token uses its chat and agent, and nothing of the key's beside", async (t) => {
  await withUpstream(async (hub, { requests }) => {
    const { hub: back, keyId } = await newKey(hub, { owner: "site" });
    const page = await makeToken(back, { agent: "brief", chatId: "c", ttlSeconds: 60 });

    await t.step("it says when it expires", () => {
      const inMs = Date.parse(page.expiresAt) - Date.now();
      assert.ok(inMs > 30_000 && inMs <= 60_000, String(inMs));
    });

    await t.step(
      "its agent answers, on the account of its key, in a chat of its key's",
      async () => {
        await chunksOf(await say(page, "c", "one"));
        assert.match(JSON.stringify(requests.at(-1)?.json), /You are brief/);
        const session = await (await back.call("/v1/sessions/ext:c")).json();
        assert.equal(session.agent, "brief");
        const { messages } = await (await page.call("/api/chat/c/messages")).json();
        assert.deepEqual(messages.map(({ role }: JsonObject) => role), ["user", "assistant"]);
        const { read } = hub.hub.start.db;
        const [row] = await eventually(async () => {
          const rows = await read<{ key_id: string }[]>`select key_id from hub.usage`;
          return rows.length === 0 ? null : rows;
        });
        assert.equal(fromUuid("key", row?.key_id ?? ""), keyId);
      },
    );

    await t.step("its agent answers in a chat that another has answered before", async () => {
      await chunksOf(await say(back, "mixed", "one", { agent: "default" }));
      assert.doesNotMatch(JSON.stringify(requests.at(-1)?.json), /You are brief/);
      const mixed = await makeToken(back, { agent: "brief", chatId: "mixed" });
      await chunksOf(await say(mixed, "mixed", "two"));
      assert.match(JSON.stringify(requests.at(-1)?.json), /You are brief/);
    });

    await t.step("its own agent and model may be named", async () => {
      await chunksOf(await say(page, "c", "two", { agent: "brief", model: "one/m" }));
      await chunksOf(await say(page, "c", "three", {}, "?agent=brief"));
    });

    await t.step(
      "another agent, model or credential is refused before anything is stored",
      async () => {
        const fresh = await makeToken(back, { agent: "brief", chatId: "fresh" });
        const before = [
          await count(hub, "sessions"),
          await count(hub, "messages"),
          requests.length,
        ];
        const refused: [JsonObject, string?][] = [
          [{ agent: "default" }],
          [{}, "?agent=default"],
          [{ agent: "unknown" }],
          [{ model: "one/other" }],
          [{ agent: "brief", model: "nothing/at-all" }],
          [{ mcpAuth: { peer: "Bearer x" } }],
          [{ mcpAuth: "x" }],
        ];
        for (const [rest, query] of refused) {
          const answer = await say(fresh, "fresh", "Hi", rest, query);
          assert.equal(await refusalOf(answer), "403 permission_denied", JSON.stringify(rest));
        }
        const handing = await fresh.call("/api/chat", {
          body: { id: "fresh", messages: [userSays("u", "Hi")] },
          headers: { "x-mcp-auth-peer": "Bearer x" },
        });
        assert.equal(await refusalOf(handing), "403 permission_denied");
        const after = [await count(hub, "sessions"), await count(hub, "messages"), requests.length];
        assert.deepEqual(after, before);
      },
    );

    await t.step("another chat of the same owner does not exist for it, by any name", async () => {
      await chunksOf(await say(back, "other", "secret"));
      const { id } = await (await back.call("/v1/sessions/ext:other")).json();
      const asked = requests.length;
      for (const chat of ["other", id, "ext:other", "C", "c ", "new"]) {
        assert.equal(await refusalOf(await say(page, chat, "Hi")), "404 not_found", chat);
        const path = `/api/chat/${encodeURIComponent(chat)}`;
        for (const [method, end] of [["GET", "messages"], ["GET", "stream"], ["POST", "stop"]]) {
          const answer = await page.call(`${path}/${end}`, { method: method ?? "" });
          const text = await answer.text();
          assert.equal(answer.status, 404, `${method} ${chat}/${end}`);
          assert.doesNotMatch(text, /secret/);
        }
      }
      assert.equal(requests.length, asked);
      const stays = await (await back.call("/v1/sessions/ext:other")).json();
      assert.equal(stays.id, id);
    });

    await t.step("what a key may not run or name makes no token", async () => {
      const few = (await newKey(hub, { policy: { agents: ["brief"] } })).hub;
      const make = (one: TestHub, body: JsonObject) => one.call("/v1/browser-tokens", { body });
      const wishes: [TestHub, JsonObject, string][] = [
        [few, { agent: "default", chatId: "c" }, "403 permission_denied"],
        [back, { agent: "nobody", chatId: "c" }, "404 agent_not_found"],
        [back, { agent: "brief" }, "400 invalid_request"],
        [back, { chatId: "c" }, "400 invalid_request"],
        [back, { agent: "brief", chatId: "" }, "400 invalid_request"],
        [back, { agent: "brief", chatId: "x".repeat(201) }, "400 invalid_request"],
        [back, { agent: "brief", chatId: "c", ttlSeconds: 3601 }, "400 invalid_request"],
        [back, { agent: "brief", chatId: "c", ttlSeconds: 29 }, "400 invalid_request"],
        [back, { agent: "brief", chatId: "c", model: "one/m" }, "400 invalid_request"],
      ];
      for (const [one, body, wanted] of wishes) {
        assert.equal(await refusalOf(await make(one, body)), wanted, JSON.stringify(body));
      }
    });

    await t.step("a policy that changes counts at once", async () => {
      const { hub: many, keyId: id } = await newKey(hub, {});
      const token = await makeToken(many, { agent: "brief", chatId: "policy" });
      await chunksOf(await say(token, "policy", "one"));
      const changed = await hub.call(`/v1/admin/keys/${id}`, {
        method: "PATCH",
        body: { policy: { agents: ["default"] } },
      });
      assert.equal(changed.status, 200);
      await changed.body?.cancel();
      const answer = await say(token, "policy", "two");
      assert.equal(await refusalOf(answer), "403 permission_denied");
    });
  });
});

Deno.test("pages of one key with tokens share its concurrency, and lose their streams with it", async () => {
  await withUpstream(async (hub, { script, requests }) => {
    const held: ((reply: Reply) => void)[] = [];
    script(() => new Promise<Reply>((resolve) => held.push(resolve)));
    const { hub: back, keyId } = await newKey(hub, { policy: { maxConcurrent: 1 } });
    const pages = await Promise.all(
      ["a", "b"].map(async (chatId) => ({ chatId, hub: await makeToken(back, { chatId }) })),
    );
    const [first, second] = pages;
    assert.ok(first && second);
    const streaming = await say(first.hub, first.chatId, "one");
    const text = streaming.text().catch(String);
    await eventually(() => requests.length === 1 || null);
    assert.equal(
      await refusalOf(await say(second.hub, second.chatId, "one")),
      "429 rate_limit_exceeded",
    );

    const revoked = await hub.call(`/v1/admin/keys/${keyId}/revoke`, { method: "POST" });
    assert.equal(revoked.status, 200);
    await revoked.body?.cancel();
    assert.doesNotMatch(await text, /"type":"finish"/);
    assert.equal(await refusalOf(await say(second.hub, "b", "two")), "401 invalid_api_key");
    held[0]?.(chatStream({ text: "Late" }));
  });
});

Deno.test("a stream that is open outlives its browser token; what is asked then is 401 token_expired", async () => {
  await withUpstream(async (hub, { script, requests, config }) => {
    const held = Promise.withResolvers<Reply>();
    script(() => held.promise);
    let aheadMs = 0;
    const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
    const { databaseUrl, dataDir, key } = hub;
    const other = await startTestHub(config, { databaseUrl, dataDir, key, clock });
    try {
      const page = await makeToken(other, { chatId: "c", ttlSeconds: 30 });
      const streaming = await say(page, "c", "one");
      await eventually(() => requests.length === 1 || null);
      aheadMs = 31_000;
      for (const [method, path] of [["GET", "/messages"], ["GET", "/stream"], ["POST", "/stop"]]) {
        const answer = await page.call(`/api/chat/c${path}`, { method: method ?? "" });
        assert.equal(answer.headers.get("x-should-retry"), "false");
        assert.equal(await refusalOf(answer), "401 token_expired", path);
      }
      assert.equal(await refusalOf(await page.call("/v1/models")), "401 token_expired");
      held.resolve(chatStream({ text: "To the end" }));
      const chunks = await chunksOf(streaming);
      assert.equal(chunks.at(-1)?.["finishReason"], "stop");
      const next = await makeToken(other, { chatId: "c" });
      const { messages } = await (await next.call("/api/chat/c/messages")).json();
      assert.equal(messages.length, 2);
    } finally {
      await other.close();
    }
  });
});

Deno.test("a browser token for one agent says nothing to a run of another, and answers none of its approvals", async (t) => {
  await withTwo({ approvalTimeoutMs: 600_000 }, async ({ first, second, paid, script }) => {
    const level = { "hub-stream-level": "6" };
    const post = (hub: TestHub, body: JsonObject) =>
      hub.call("/api/chat", { body, headers: level });
    const ask = async (hub: TestHub, id: string, agent?: string) => {
      const go = { id, messages: [userSays("u1", "Go")], ...agent === undefined ? {} : { agent } };
      const asked = await chunksOf(await post(hub, go));
      return {
        asked,
        body: {
          id,
          trigger: "submit-message",
          messageId: chunkOf(asked, "start")["messageId"] ?? "",
          messages: [userSays("u1", "Go"), answeredMessage(asked, { approved: true })],
        },
      };
    };

    await t.step("a run of its own agent, on a replica that has not seen its key", async () => {
      script(1);
      const { hub: back } = await newKey(first, {});
      const page = await makeToken(back, { chatId: "own" });
      const { body } = await ask(page, "own");
      const rest = await chunksOf(await post(withKey(second, page.key), body));
      assert.equal(rest.at(-1)?.["finishReason"], "stop");
      assert.ok(paid.includes("1"));
    });

    await t.step("not where the key's policy leaves answers to others", async () => {
      script(2);
      const { hub: back } = await newKey(first, { policy: { answers: "none" } });
      const page = await makeToken(back, { chatId: "none" });
      const { body } = await ask(page, "none");
      assert.equal(await refusalOf(await post(page, body)), "403 may_not_answer");
      assert.ok(!paid.includes("2"));
    });

    await t.step("not a run of another agent in its chat, which goes on unheard", async () => {
      script(3);
      const { asked, body } = await ask(first, "others", "other");
      const page = await makeToken(first, { chatId: "others" });
      assert.equal(await refusalOf(await post(page, body)), "403 permission_denied");
      const said = await post(page, {
        id: "others",
        messages: [userSays("u2", "Pay more")],
        whenBusy: "steer",
      });
      assert.equal(said.status, 200);
      const { runId } = chunkOf(asked, "start")["messageMetadata"] as { runId: string };
      const { status, steering } = await (await first.call(`/v1/runs/${runId}`)).json();
      assert.deepEqual({ status, steering }, { status: "waiting", steering: [] });
      // It was queued: once the other run is over, the token's own agent answers.
      await (await page.call("/api/chat/others/stop", { method: "POST" })).body?.cancel();
      const own = chunkOf(await chunksOf(said), "start")["messageMetadata"] as { runId: string };
      const { agent } = await (await first.call(`/v1/runs/${own.runId}`)).json();
      assert.equal(agent, "default");
      assert.ok(!paid.includes("3"));
    });
  }, { other: {} });
});
