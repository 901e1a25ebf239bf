import assert from "node:assert/strict";
import type { Json, JsonObject } from "../../../src/core/json.ts";
import { connectMcp } from "../../support/mcp_clients.ts";
import { chatStream, startScriptedUpstream } from "../../support/scripted_upstream.ts";
import { type TestHub, withHub } from "../../support/test_hub.ts";

const AGENTS = {
  default: {},
  brief: { systemPrompt: "You are brief." },
  secret: { systemPrompt: "You are secret." },
};

const said = (id: string) => [{ id, role: "user", parts: [{ type: "text", text: "Hi" }] }];

async function sessionsOf(hub: TestHub): Promise<number> {
  const [row] = await hub.hub.start.db
    .read<{ count: number }[]>`select count(*)::int as count from hub.sessions`;
  return row?.count ?? -1;
}

Deno.test("chats of AI SDK clients run the agent and the model that the body names, by the key's policy", async (t) => {
  const upstream = await startScriptedUpstream();
  upstream.script(() => chatStream({ text: "Hello" }));
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    agents: AGENTS,
  };
  try {
    await withHub(config, async (hub) => {
      const policy = { agents: ["default", "brief"], models: ["one/m", "one/n"] };
      const { token } = await (await hub.call("/v1/admin/keys", {
        body: { name: "few", policy },
      })).json();
      const headers = { authorization: `Bearer ${token}` };
      const post = async (body: JsonObject, query = "") => {
        const answer = await hub.call(`/api/chat${query}`, { body, headers });
        return { status: answer.status, text: await answer.text() };
      };
      const last = () => JSON.stringify(upstream.requests.at(-1)?.json);

      await t.step("the agent of the body, then of the chat", async () => {
        const { status } = await post({ id: "a", messages: said("u1"), agent: "brief" });
        assert.equal(status, 200);
        assert.match(last(), /You are brief/);
        assert.equal((await post({ id: "a", messages: said("u2") })).status, 200);
        assert.match(last(), /You are brief/);
        const session = await (await hub.call("/v1/sessions/ext:a", { headers })).json();
        assert.equal(session.agent, "brief");
      });

      await t.step("the model of the body, for its run alone", async () => {
        const body = { id: "a", messages: said("u3"), model: "one/n" };
        assert.equal((await post(body)).status, 200);
        assert.equal(upstream.requests.at(-1)?.json.model, "n");
        assert.equal((await post({ id: "a", messages: said("u4"), model: null })).status, 200);
        assert.equal(upstream.requests.at(-1)?.json.model, "m");
      });

      await t.step("the query, unless the body names another agent", async () => {
        assert.equal((await post({ id: "q", messages: said("u1") }, "?agent=brief")).status, 200);
        assert.match(last(), /You are brief/);
        const both = { id: "q", messages: said("u2"), agent: "default" };
        const { status, text } = await post(both, "?agent=brief");
        assert.equal(status, 400);
        assert.match(text, /query names the agent "brief" and the body "default"/);
      });

      await t.step("a refusal leaves no session", async () => {
        const before = await sessionsOf(hub);
        const calls = upstream.requests.length;
        const refused: [number, JsonObject][] = [
          [403, { agent: "secret" }],
          [403, { agent: "unknown" }],
          [403, { model: "one/other" }],
          [403, { model: "nothing/at-all" }],
          [400, { agent: 7 as Json }],
          [400, { model: "" }],
          [400, { budget: { steps: -1 } }],
          [400, { format: "json", schema: { type: "object", unevaluatedProperties: false } }],
          [400, { mcpAuth: { unknown: { authorization: "Bearer x" } } }],
          [404, { trigger: "regenerate-message", messages: [] }],
        ];
        for (const [index, [status, rest]] of refused.entries()) {
          const answer = await post({ id: `refused-${index}`, messages: said("u1"), ...rest });
          assert.equal(answer.status, status, `${JSON.stringify(rest)}: ${answer.text}`);
        }
        const admin = await hub.call("/api/chat", {
          body: { id: "refused", messages: said("u1"), model: "nothing/at-all" },
        });
        await admin.body?.cancel();
        assert.equal(admin.status, 404);
        assert.equal(await sessionsOf(hub), before);
        assert.equal(upstream.requests.length, calls);
      });
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("a run that is refused leaves no session behind, whichever door it came by", async (t) => {
  const upstream = await startScriptedUpstream();
  upstream.script(() => chatStream({ text: "Hello" }));
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    agents: AGENTS,
  };
  const schema = { type: "object", unevaluatedProperties: false };
  try {
    await withHub(config, async (hub) => {
      const { token } = await (await hub.call("/v1/admin/keys", {
        body: { name: "few", policy: { agents: ["default"] } },
      })).json();
      const headers = { authorization: `Bearer ${token}` };
      const before = await sessionsOf(hub);
      const status = async (path: string, body: JsonObject, method = "POST") => {
        const answer = await hub.call(path, { body, headers, method });
        await answer.body?.cancel();
        return answer.status;
      };

      await t.step("sessions", async () => {
        assert.equal(await status("/v1/sessions", { agent: "secret" }), 403);
        assert.equal(await status("/v1/sessions", { agent: "unknown" }), 403);
        assert.equal(await sessionsOf(hub), before);
      });

      await t.step("agents as models", async () => {
        const messages = [{ role: "user", content: "Hi" }];
        const json_schema = { name: "it", schema };
        const response_format = { type: "json_schema", json_schema };
        const path = "/v1/chat/completions";
        assert.equal(await status(path, { model: "agent/secret", messages }), 403);
        assert.equal(
          await status(path, { model: "agent/default", messages, response_format }),
          400,
        );
        assert.equal(await sessionsOf(hub), before);
      });

      await t.step("agents as MCP tools", async () => {
        const client = await connectMcp("v2", { url: hub.url, key: token });
        const ask = async (args: JsonObject) =>
          JSON.stringify(await client.call("agent_default", args));
        try {
          const refused = await ask({ prompt: "Hi", format: "json", schema });
          assert.match(refused, /unevaluatedProperties/);
          assert.equal(await sessionsOf(hub), before);
          assert.match(await ask({ prompt: "Hi" }), /Hello/);
          assert.equal(await sessionsOf(hub), before + 1);
        } finally {
          await client.close();
        }
      });

      await t.step("a change of a session's agent", async () => {
        const made = await (await hub.call("/v1/sessions", { body: {}, headers })).json();
        assert.equal(await status(`/v1/sessions/${made.id}`, { agent: "secret" }, "PATCH"), 403);
        const still = await (await hub.call(`/v1/sessions/${made.id}`, { headers })).json();
        assert.equal(still.agent, "default");
      });
    });
  } finally {
    await upstream.stop();
  }
});
