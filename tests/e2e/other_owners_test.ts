import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { pathOf, routesOf } from "../support/api_routes.ts";
import { connectMcp, MCP_CLIENTS } from "../support/mcp_clients.ts";
import { INITIALIZE } from "../support/mcp_messages.ts";
import { askOwned, CANARY, fill, isShared, withKey, withMaker } from "../support/owned_things.ts";
import type { TestHub } from "../support/test_hub.ts";

/** Answers to keys of other owners that are not 404, for any id: by the beginning of a route. */
const OTHERWISE: readonly [route: RegExp, status: number, why: string][] = [
  [/^GET \/api\/chat\/\{id\}\/messages/, 200, "a chat that its owner has not begun is empty"],
  [/^GET \/api\/chat\/\{id\}\/stream/, 204, "and nothing runs in it"],
  [/ \/v1\/admin\//, 403, "for admin keys only"],
];
/** Without an end. */
const STREAMS = ["/mcp", "/mcp/sse"];

const newKey = async (hub: TestHub, body: JsonObject) => {
  const made = await (await hub.call("/v1/admin/keys", { body: { name: "k", ...body } })).json();
  return withKey(hub, made.token);
};

Deno.test("ownership: what a key makes is reached by its owner's keys and by all-reaching ones, on every route", async (t) => {
  await withMaker(async (hub, { requests, paid }) => {
    const maker = await newKey(hub, { owner: "alice" });
    const sibling = await newKey(hub, { owner: "alice" });
    const strangers = {
      "another owner": await newKey(hub, { owner: "bob" }),
      "no owner": await newKey(hub, {}),
      "the same owner, but sessions: own": await newKey(hub, {
        owner: "alice",
        policy: { sessions: "own" },
      }),
      "an owner that is the maker's key id": await newKey(hub, {
        owner: (await (await hub.call("/v1/admin/keys")).json()).data[1].id,
      }),
    };
    const backEnd = await newKey(hub, { owner: "bob", policy: { sessions: "all" } });
    const owned = await fill(hub, maker);
    const ids = Object.entries(owned).filter(([pattern]) => !pattern.startsWith("/v1/admin/"))
      .flatMap(([, values]) => Object.values(values));
    const routes = await routesOf(hub);
    const byId = routes.filter((route) => route.pattern.includes("{") && !isShared(route));
    assert.ok(byId.length >= 30, String(byId.length));
    const gets = byId.filter(({ method, pattern }) =>
      method === "GET" && !pattern.endsWith("/stream") && !pattern.startsWith("/v1/admin/")
    );
    const seenBy = async (one: TestHub) => {
      const seen: Record<string, { status: number; text: string }> = {};
      for (const route of gets) seen[route.pattern] = await askOwned(one, owned, route);
      return seen;
    };
    const before = await seenBy(maker);
    for (const [pattern, { status, text }] of Object.entries(before)) {
      assert.equal(status, 200, `${pattern}: ${text}`);
    }
    const asked = requests.length;
    const assertBlind = (text: string, where: string) => {
      for (const word of [CANARY, ...ids]) assert.ok(!text.includes(word), `${where}: ${word}`);
    };

    for (const [who, stranger] of Object.entries(strangers)) {
      await t.step(`${who}: each route by id is as for an id that does not exist`, async () => {
        for (const route of byId) {
          const { status, text } = await askOwned(stranger, owned, route);
          const name = `${route.method} ${route.pattern}`;
          const [, wanted = 404] = OTHERWISE.find(([one]) => one.test(name)) ?? [];
          assert.equal(status, wanted, `${name}: ${text}`);
          assert.ok(!text.includes(CANARY), `${name}: ${text}`);
        }
      });

      await t.step(`${who}: lists are empty`, async () => {
        for (const { method, pattern } of routes) {
          if (method !== "GET" || STREAMS.includes(pattern) || pattern.includes("{id}")) continue;
          const path = pathOf(pattern, (name) => name === "server" ? "peer" : "default");
          assertBlind(await (await stranger.call(path)).text(), pattern);
        }
        const { data: sessions } = await (await stranger.call("/v1/sessions")).json();
        assert.deepEqual(sessions, []);
      });

      await t.step(`${who}: names and ids in bodies lead nowhere`, async () => {
        const chat = owned["/api/chat/{id}"]?.["id"] ?? "";
        for (const path of [`/v1/sessions/ext:${chat}`, `/v1/sessions/ext:${chat}/messages`]) {
          assert.equal((await stranger.call(path)).status, 404, path);
        }
        const previous_response_id = owned["/v1/responses/{id}"]?.["id"] ?? "";
        const response = { model: "one/m", input: "Hi", previous_response_id };
        const answered = await stranger.call("/v1/responses", { body: response });
        assert.equal(answered.status, 400);
        assertBlind((await answered.text()).replaceAll(previous_response_id, ""), "responses");
        const item = { type: "item_reference", id: `msg_${previous_response_id.slice(5)}_0` };
        const referring = await stranger.call("/v1/responses", {
          body: { model: "one/m", input: [item] },
        });
        assert.equal(referring.status, 400);
      });

      await t.step(`${who}: MCP sessions and conversations of others are not found`, async () => {
        const session = owned["/v1/sessions/{id}"]?.["id"];
        for (const kind of MCP_CLIENTS) {
          const client = await connectMcp(kind, stranger);
          try {
            const input = { prompt: "Hi", session };
            const result = await client.call("agent_default", input).catch(String);
            const text = typeof result === "string" ? result : JSON.stringify(result);
            assert.match(text, /no session/, `${kind}: ${text}`);
          } finally {
            await client.close();
          }
        }
        const headers = { accept: "application/json, text/event-stream" };
        const begun = await maker.call("/mcp", { body: INITIALIZE, headers });
        await begun.body?.cancel();
        const id = begun.headers.get("mcp-session-id") ?? "";
        assert.notEqual(id, "");
        const taken = await stranger.call("/mcp", {
          body: { jsonrpc: "2.0", id: 2, method: "tools/list" },
          headers: { ...headers, "mcp-session-id": id },
        });
        assert.equal(taken.status, 404, await taken.text());
      });
    }

    await t.step("nothing was changed, and nothing asked of a model", async () => {
      assert.equal(requests.length, asked);
      assert.deepEqual(paid, ["1"]);
      assert.deepEqual(await seenBy(maker), before);
    });

    await t.step("a key of the same owner, one that reaches all, and admins see it", async () => {
      for (const one of [sibling, backEnd, hub]) assert.deepEqual(await seenBy(one), before);
      for (const one of [sibling, backEnd, hub]) {
        const listed = await (await one.call("/v1/sessions?limit=100")).text();
        assert.ok(listed.includes(owned["/v1/sessions/{id}"]?.["id"] ?? "-"), listed);
        const grants = await (await one.call("/v1/approvals/grants")).text();
        assert.ok(grants.includes(owned["/v1/approvals/grants/{id}"]?.["id"] ?? "-"), grants);
      }
    });

    await t.step("the same chat id is another chat for another owner", async () => {
      const chat = owned["/api/chat/{id}"]?.["id"] ?? "";
      const message = { id: "m1", role: "user", parts: [{ type: "text", text: "mine" }] };
      for (const one of [...Object.values(strangers), backEnd]) {
        const said = await one.call("/api/chat", { body: { id: chat, messages: [message] } });
        assert.equal(said.status, 200);
        await said.text();
        const { data: messages } = await (await one.call(`/api/chat/${chat}/messages`)).json();
        assert.deepEqual(messages.map(({ role }: { role: string }) => role), ["user", "assistant"]);
        assert.equal(messages[0].parts[0].text, "mine");
        const again = await one.call("/v1/sessions", { body: { externalId: chat } });
        const { id } = await again.json();
        assert.equal((await (await one.call(`/v1/sessions/ext:${chat}`)).json()).id, id);
      }
      assert.deepEqual(await seenBy(maker), before);
      const many = await hub.call(`/v1/sessions/ext:${chat}`);
      assert.equal(many.status, 409);
      assert.equal((await many.json()).error.code, "external_id_ambiguous");
    });

    await t.step("a change of owner or policy counts from the next request", async () => {
      const moving = await (await hub.call("/v1/admin/keys", { body: { name: "m" } })).json();
      const one = withKey(hub, moving.token);
      const path = `/v1/sessions/${owned["/v1/sessions/{id}"]?.["id"]}`;
      const change = async (body: JsonObject) => {
        const done = await hub.call(`/v1/admin/keys/${moving.key.id}`, { method: "PATCH", body });
        assert.equal(done.status, 200);
        return (await one.call(path)).status;
      };
      assert.equal((await one.call(path)).status, 404);
      assert.equal(await change({ owner: "alice" }), 200);
      assert.equal(await change({ policy: { sessions: "own" } }), 404);
      assert.equal(await change({ owner: "bob", policy: { sessions: "all" } }), 200);
      assert.equal(await change({ policy: {} }), 404);
    });
  });
});
