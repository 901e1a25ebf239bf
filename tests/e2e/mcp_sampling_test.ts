import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { checkLog } from "../../src/core/check_log.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { readSampling } from "../../src/core/sampling_event.ts";
import { withAsking } from "../support/asking_server.ts";
import { logOf } from "../support/log_of.ts";
import { fetchPackages, realServer } from "../support/real_mcp_servers.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";
import { usageOf } from "../support/usage_of.ts";

const PIXEL = "iVBORw0KGgo=";
const WISH = {
  systemPrompt: "Be short",
  maxTokens: 500,
  temperature: 0.5,
  messages: [
    { role: "user", content: { type: "text", text: "What is this?" } },
    { role: "assistant", content: { type: "text", text: "Show me" } },
    { role: "user", content: { type: "image", data: PIXEL, mimeType: "image/png" } },
  ],
};

async function connect(
  hub: TestHub,
  { answers, says, key = hub.key }: {
    answers?: string;
    says?: "accept" | "decline";
    key?: string;
  } = {},
): Promise<Client> {
  const capabilities = {
    ...answers === undefined ? {} : { sampling: {} },
    ...says === undefined ? {} : { elicitation: {} },
  };
  const client = new Client({ name: "test", version: "1" }, { capabilities });
  if (answers !== undefined) {
    client.setRequestHandler(CreateMessageRequestSchema, () => ({
      role: "assistant",
      model: "the client's",
      content: { type: "text", text: answers },
    }));
  }
  if (says !== undefined) {
    client.setRequestHandler(
      ElicitRequestSchema,
      () => says === "accept" ? { action: says, content: {} } : { action: says },
    );
  }
  const requestInit = { headers: { authorization: `Bearer ${key}` } };
  const transport = new StreamableHTTPClientTransport(new URL(`${hub.url}/mcp`), { requestInit });
  await client.connect(transport as Parameters<typeof client.connect>[0]);
  return client;
}

async function think(client: Client, server: string, wish: JsonObject = WISH): Promise<string> {
  return JSON.stringify(await client.callTool({ name: `${server}__think`, arguments: wish }));
}

const servers = {
  able: { sampling: { model: "up/small", maxTokens: 100, maxCalls: 2 } },
  asks: { sampling: { approval: "ask" } },
  plain: {},
  never: { sampling: false },
};

for (const era of ["legacy", "modern"] as const) {
  Deno.test(`a ${era} server has the hub's model answer, as the caller's key and within bounds`, async () => {
    await withAsking({ era, servers }, async ({ hub, upstream }) => {
      const client = await connect(hub);
      try {
        upstream.script(() => chatStream({ text: "A pixel" }));
        const said = await think(client, "able");
        assert.match(said, /A pixel/);
        assert.match(said, /endTurn/);
        const sent = upstream.requests.at(-1)?.json as JsonObject;
        assert.equal(sent.model, "small");
        assert.equal(sent.temperature, 0.5);
        assert.equal(sent.max_completion_tokens ?? sent.max_tokens, 100);
        const text = JSON.stringify(sent.messages);
        assert.match(text, /"system","content":"Be short"/);
        assert.ok(text.includes(`data:image/png;base64,${PIXEL}`), text);

        const tools = { ...WISH, messages: [{ role: "user", content: { type: "audio" } }] };
        const asked = upstream.requests.length;
        assert.doesNotMatch(await think(client, "able", tools).catch(String), /A pixel/);
        assert.match(await think(client, "plain").catch(String), /No model was asked/);
        assert.match(await think(client, "asks").catch(String), /No model was asked/);
        assert.doesNotMatch(await think(client, "never").catch(String), /A pixel/);
        assert.equal(upstream.requests.length, asked);
        if (era === "legacy") {
          const often = await think(client, "able", { ...WISH, times: 3 });
          assert.match(often, /2 times/);
          assert.equal(upstream.requests.length, asked + 2);
        }
      } finally {
        await client.close();
      }
      for (const says of ["accept", "decline"] as const) {
        const person = await connect(hub, { says });
        const before = upstream.requests.length;
        const said = await think(person, "asks").finally(() => person.close());
        assert.equal(/A pixel/.test(said), says === "accept", said);
        assert.equal(upstream.requests.length - before, says === "accept" ? 1 : 0);
      }
      const peer = await connect(hub, { answers: "from the peer" });
      const before = upstream.requests.length;
      assert.match(await think(peer, "plain").finally(() => peer.close()), /from the peer/);
      assert.equal(upstream.requests.length, before);
    });
  });

  Deno.test(`a model that a ${era} server asks in a run counts as the run's`, async () => {
    await withAsking({ era, servers }, async ({ hub, upstream }) => {
      const usage = { promptTokens: 10, completionTokens: 5 };
      upstream.script((_, index) =>
        index === 0
          ? chatStream({ toolCalls: [{ name: "able__think", arguments: WISH }], usage })
          : chatStream({ text: index === 1 ? "A pixel" : "Done", usage })
      );
      const look = async (settings: JsonObject) => {
        const session = await (await hub.call("/v1/sessions", { body: {} })).json();
        const body = { text: "Look", ...settings };
        return await (await hub.call(`/v1/sessions/${session.id}/messages`, { body })).text();
      };
      const told = await look({});
      assert.match(told, /tool-output-available.*A pixel/);
      assert.deepEqual(upstream.requests.map(({ json }) => (json as JsonObject).model), [
        "m",
        "small",
        "m",
      ]);
      const rows = await eventually(async () => {
        const found = await usageOf(hub, "run");
        return found.length === 3 ? found : null;
      });
      assert.equal(new Set(rows.map((row) => row["run_id"])).size, 1);
      assert.equal(new Set(rows.map((row) => row["key_id"])).size, 1);
      assert.equal(typeof rows[0]?.["run_id"], "string");
      const log = logOf(told);
      assert.deepEqual(checkLog(log), []);
      const sampled = log.flatMap(({ event }) => readSampling(event) ?? []);
      assert.deepEqual(sampled.map(({ model }) => model), ["up/small"]);
      const sum = (column: string) => rows.reduce((all, row) => all + Number(row[column] ?? 0), 0);
      const finish = log.at(-1)?.event;
      assert.ok(finish?.type === "finish");
      const { promptTokens, completionTokens } = finish.usage;
      assert.deepEqual([promptTokens, completionTokens], [30, 15]);
      assert.deepEqual([sum("prompt_tokens"), sum("completion_tokens")], [30, 15]);

      // Its answer may have 100 tokens, for which this run has no room.
      upstream.script((request) =>
        JSON.stringify(request.json).includes("no room for it")
          ? chatStream({ text: "Done", usage })
          : chatStream({ toolCalls: [{ name: "able__think", arguments: WISH }], usage })
      );
      const before = upstream.requests.length;
      assert.match(
        await look({ budget: { tokens: 90 } }),
        /No model was asked: The budget of the run has no room/,
      );
      const models = upstream.requests.slice(before).map(({ json }) => (json as JsonObject).model);
      assert.deepEqual(models, ["m", "m"]);
    });
  });
}

Deno.test("a model that the caller may not call, or not pay, answers no server", async () => {
  await withAsking({ era: "legacy", servers }, async ({ hub, upstream }) => {
    const hardMicros = 0;
    const policies = [{ models: ["up/m"] }, { budgets: { total: { hardMicros } } }];
    for (const [at, policy] of policies.entries()) {
      const made = await hub.call("/v1/admin/keys", {
        body: { name: `key ${at}`, role: "user", policy },
      });
      const { token } = await made.json();
      const client = await connect(hub, { key: token });
      const refused = await think(client, "able").finally(() => client.close());
      assert.match(refused, at === 0 ? /may not call the model/ : /-32603/, refused);
    }
    assert.equal(upstream.requests.length, 0);
  });
});

Deno.test("server-everything has a model answer", async () => {
  await fetchPackages(["server-everything"]);
  const upstream = await startScriptedUpstream();
  try {
    await withHub({
      providers: { up: { baseUrl: upstream.url, apiKey: "sk-up" } },
      defaultModel: "up/m",
      mcpServers: {
        all: { ...realServer("server-everything", ["stdio"]), sampling: {} },
        none: { ...realServer("server-everything", ["stdio"]), sampling: false },
      },
    }, async (hub) => {
      await hub.hub.mcp.settled(120_000);
      upstream.script(() => chatStream({ text: "Sampled" }));
      const client = await connect(hub);
      try {
        const { tools } = await client.listTools();
        assert.ok(
          !tools.some(({ name }: { name: string }) => name === "none__trigger-sampling-request"),
        );
        const said = await client.callTool({
          name: "all__trigger-sampling-request",
          arguments: { prompt: "Say it", maxTokens: 10 },
        });
        assert.match(JSON.stringify(said), /Sampled/);
      } finally {
        await client.close();
      }
    });
  } finally {
    await upstream.stop();
  }
});
