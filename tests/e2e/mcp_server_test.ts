import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { connectMcp, MCP_CLIENTS } from "../support/mcp_clients.ts";
import {
  chatError,
  chatStream,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" }, people: { type: "integer" } },
  required: ["city", "people"],
  additionalProperties: false,
};

async function withMcp(
  body: (hub: TestHub, upstream: ScriptedUpstream) => Promise<void>,
  config: JsonObject = {},
): Promise<void> {
  const upstream = await startScriptedUpstream();
  const parts = { providers: { up: { baseUrl: upstream.url, apiKey: "sk-up" } } };
  try {
    await withHub(
      { ...parts, defaultModel: "up/m", ...config },
      (hub) => body(hub, upstream),
    );
  } finally {
    await upstream.stop();
  }
}

const textOf = ({ content }: { content: { text?: string }[] }) => content[0]?.text;

Deno.test("MCP clients of both eras use agents and operations", async (t) => {
  await withMcp(async (hub, upstream) => {
    for (const kind of MCP_CLIENTS) {
      await t.step(kind, async (t) => {
        const client = await connectMcp(kind, hub);

        await t.step("lists agents and operations, those for runs alone left out", async () => {
          const tools = await client.tools();
          assert.deepEqual(
            tools.map(({ name }) => name),
            ["agent_default", "agent_writer", "hub_calculate", "hub_current_time", "hub_wait"],
          );
          assert.equal(tools[1]?.description, "Writes");
        });

        await t.step("an operation is validated and gives structured content", async () => {
          const result = await client.call("hub_calculate", { expression: "6*7" });
          assert.deepEqual(result.structuredContent, { expression: "6*7", result: 42 });
          assert.equal(result.isError, undefined);
          const wrong = await client.call("hub_calculate", { expression: 5, more: true });
          assert.equal(wrong.isError, true);
          assert.match(textOf(wrong) ?? "", /^The arguments do not fit: .*expression/);
        });

        await t.step("an agent's answer is a stored run, with progress", async () => {
          upstream.script([
            chatStream({
              toolCalls: [{ name: "hub_calculate", arguments: { expression: "6*7" } }],
            }),
            chatStream({ text: "It is 42" }),
          ]);
          const told: (string | undefined)[] = [];
          const result = await client.call("agent_default", { prompt: "What is 6*7?" }, {
            onprogress: ({ message }) => told.push(message),
          });
          assert.deepEqual(result.content, [{ type: "text", text: "It is 42" }]);
          assert.deepEqual(told.slice(0, 3), [
            "Step 1",
            "Calls hub.calculate",
            "A tool has answered",
          ]);
          const run = await (await hub.call(`/v1/runs/${result._meta?.["loophub/run"]}`)).json();
          assert.equal(run.status, "completed");
          assert.equal(run.sessionId, result._meta?.["loophub/session"]);
        });

        await t.step("a conversation goes on when its session is told", async () => {
          upstream.script(() => chatStream({ text: "Yes" }));
          const first = await client.call("agent_default", { prompt: "One", session: "new" });
          const session = /^session: (ses_.+)$/.exec(first.content[1]?.text ?? "")?.[1] ?? "";
          await client.call("agent_default", { prompt: "Two", session });
          const sent = upstream.requests.at(-1)?.json as { messages: { content: string }[] };
          assert.deepEqual(sent.messages.map(({ content }) => content), ["One", "Yes", "Two"]);
          const other = await client.call("agent_default", { prompt: "x", session: "ses_none" });
          assert.deepEqual([other.isError, textOf(other)], [true, "There is no session ses_none"]);
        });

        await t.step("a schema is asked for, repaired and held to", async () => {
          upstream.script([
            chatStream({ text: '{"city":"Ulm"}' }),
            chatStream({ text: '```json\n{"city":"Ulm","people":126000}\n```' }),
          ]);
          const before = upstream.requests.length;
          const input = { prompt: "Ulm?", format: "json", schema: SCHEMA };
          const result = await client.call("agent_default", input);
          assert.deepEqual(result.structuredContent, { city: "Ulm", people: 126000 });
          assert.equal(textOf(result), '{"city":"Ulm","people":126000}');
          const [first, second] = upstream.requests.slice(before).map(({ json }) =>
            json as { response_format: unknown; messages: { content: string }[] }
          );
          assert.equal(first?.response_format, undefined, "tools go first");
          assert.match(JSON.stringify(first?.messages[0]), /YOUR ANSWER.*JSON Schema/);
          assert.deepEqual(second?.response_format, {
            type: "json_schema",
            json_schema: { name: "answer", schema: SCHEMA, strict: true },
          });
          assert.match(JSON.stringify(second?.messages.at(-1)), /does not fit the schema.*people/);
        });

        await t.step("an answer that never fits is an error", async () => {
          upstream.script(() => chatStream({ text: "No" }));
          const result = await client.call("agent_default", { prompt: "Ulm?", format: "json" });
          assert.equal(result.isError, true);
          assert.match(textOf(result) ?? "", /does not fit after 2 repairs.*not valid JSON/);
        });

        await t.step("a run that failed says why", async () => {
          upstream.script(() => chatError(422, { message: "No such thing", code: "nope" }));
          const result = await client.call("agent_default", { prompt: "Hi" });
          assert.equal(result.isError, true);
          assert.match(textOf(result) ?? "", /No such thing/);
        });

        await t.step("arguments of agents are checked", async () => {
          for (
            const [input, wanted] of [
              [{}, /prompt/],
              [{ prompt: "x", schema: SCHEMA }, /wants format json/],
              [{ prompt: "x", format: "json", schema: { type: "array" } }, /type: "object"/],
              [{ prompt: "x", format: "yaml" }, /format/],
            ] as const
          ) {
            const result = await client.call("agent_default", input);
            assert.equal(result.isError, true);
            assert.match(textOf(result) ?? "", wanted);
          }
        });

        await t.step("a tool that is not there is an error of the protocol", async () => {
          await assert.rejects(client.call("agent_nobody", {}), /There is no tool agent_nobody/);
          await assert.rejects(client.call("hub_read_result", { ref: "x" }), /There is no tool/);
        });

        await t.step("a cancelled call stops its run and its upstream", async () => {
          upstream.script(chatStream({ text: "a b c", end: "stall" }));
          const [calls, closed] = [upstream.requests.length, upstream.closedByClient.length];
          const cancel = new AbortController();
          const asked = client.call("agent_default", { prompt: "Hi" }, { signal: cancel.signal });
          asked.catch(() => {});
          await upstream.until(() => upstream.requests.length > calls);
          cancel.abort("enough");
          await assert.rejects(asked);
          await upstream.until(() => upstream.closedByClient.length > closed);
          const row = await eventually(async () =>
            (await hub.hub.start.db.read<{ status: string }[]>`
              select status from hub.runs order by created_at desc limit 1`)[0]?.status ===
              "cancelled" || null
          );
          assert.equal(row, true);
        });
        await client.close();
      });
    }
  }, { agents: { writer: { description: "Writes" } } });
});

Deno.test("keys decide what is listed and called over MCP", async () => {
  await withMcp(async (hub) => {
    const make = async (policy: JsonObject) => {
      const answer = await hub.call("/v1/admin/keys", { body: { name: "k", policy } });
      return (await answer.json()).token as string;
    };
    const cases: [JsonObject, string[]][] = [
      [{ agents: ["writer"], tools: [] }, ["agent_writer"]],
      [{ agents: [], tools: ["hub.c*"] }, ["hub_calculate", "hub_current_time"]],
      [{ agents: [], tools: [] }, []],
    ];
    for (const [policy, wanted] of cases) {
      const key = await make(policy);
      for (const kind of MCP_CLIENTS) {
        const client = await connectMcp(kind, { url: hub.url, key });
        assert.deepEqual((await client.tools()).map(({ name }) => name), wanted);
        await assert.rejects(client.call("agent_default", { prompt: "x" }), /There is no tool/);
        await assert.rejects(client.call("hub_wait", { seconds: 0 }), /There is no tool/);
        await client.close();
      }
    }
    await assert.rejects(connectMcp("v1", { url: hub.url, key: "lh_wrong" }), /401|Incorrect/);
  }, { agents: { writer: {} } });
});

Deno.test("a client of 2025-11-25 whose stream broke comes back for its answer", async () => {
  await withMcp(async (hub, upstream) => {
    const headers = { accept: "application/json, text/event-stream" };
    const begun = await hub.call("/mcp", {
      headers,
      body: {
        jsonrpc: "2.0",
        id: 1,
        method: "initialize",
        params: {
          protocolVersion: "2025-11-25",
          capabilities: {},
          clientInfo: { name: "t", version: "1" },
        },
      },
    });
    await begun.text();
    const session = {
      ...headers,
      "mcp-session-id": begun.headers.get("mcp-session-id") ?? "",
      "mcp-protocol-version": "2025-11-25",
    };
    const gate = Promise.withResolvers<void>();
    const whole = chatStream({ text: "At last" });
    upstream.script({ ...whole, before: [{ wait: gate.promise }] });
    const left = new AbortController();
    const asked = await hub.call("/mcp", {
      headers: session,
      signal: left.signal,
      body: {
        jsonrpc: "2.0",
        id: 2,
        method: "tools/call",
        params: { name: "agent_default", arguments: { prompt: "Hi" } },
      },
    });
    const reader = (asked.body ?? assert.fail()).getReader();
    const first = new TextDecoder().decode((await reader.read()).value);
    const id = /^id: (\S+)\n/.exec(first)?.[1] ?? assert.fail(first);
    await upstream.until(() => upstream.requests.length > 0);
    left.abort();
    await reader.cancel().catch(() => {});
    gate.resolve();
    await eventually(async () =>
      (await hub.hub.start.db.read<{ status: string }[]>`select status from hub.runs`)[0]
          ?.status === "completed" || null
    );
    const answer = await eventually(async () => {
      const again = await hub.call("/mcp", { headers: { ...session, "last-event-id": id } });
      // The server may not have seen yet that the first stream is gone.
      if (again.status === 409) return void await again.body?.cancel();
      assert.equal(again.status, 200);
      return await again.text();
    });
    assert.match(answer, /"id":2.*At last|At last.*"id":2/);
  });
});
