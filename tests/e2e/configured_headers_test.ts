import assert from "node:assert/strict";
import { PROVIDER_KINDS, type ProviderKind } from "../../src/config/known_providers.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { type RecordedRequest, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";

/** Each in a spelling that the hub does not use. */
const CONFIGURED = {
  "Authorization": "Bearer operator",
  "X-Api-Key": "operator",
  "X-Goog-Api-Key": "operator",
  "USER-AGENT": "Operator/1",
  "HTTP-Referer": "https://operator.example",
  "X-Title": "Operator",
  "Accept": "application/operator",
  "Anthropic-Version": "2099-01-01",
  "TraceParent": "00-11111111111111111111111111111111-1111111111111111-01",
};
/** Lists, which a request adds to. */
const LISTS = { "Anthropic-Beta": "operator-1", "OpenAI-Beta": "operator=v1" };

const FAILED = {
  status: 400,
  headers: { "content-type": "application/json" },
  body: { error: { message: "No", type: "invalid_request_error", code: null } },
};

/** No field twice, the operator's with its value, and none of the hub's names for the same thing. */
function assertOperators(request: RecordedRequest, what: string): void {
  const names = request.headers.map(([name]) => name.toLowerCase());
  const twice = names.filter((name, index) => names.indexOf(name) !== index);
  assert.deepEqual(twice, [], `${what}: ${JSON.stringify(request.headers)}`);
  for (const [name, value] of Object.entries(CONFIGURED)) {
    assert.equal(request.header(name.toLowerCase()), value, `${what}: ${name}`);
  }
  assert.equal(request.header("x-openrouter-title"), null, what);
  assert.doesNotMatch(JSON.stringify(request.headers), /sk-hub/, what);
  for (const [name, value] of Object.entries(LISTS)) {
    const entries = (request.header(name.toLowerCase()) ?? "").split(",");
    assert.equal(entries[0], value, `${what}: ${name}`);
    assert.equal(new Set(entries).size, entries.length);
  }
}

/** Ways to ask a provider, and the kinds that take them. */
const WAYS: [path: string, body: JsonObject, kinds: readonly ProviderKind[] | "all"][] = [
  ["/v1/chat/completions", { messages: [{ role: "user", content: "Hi" }] }, "all"],
  ["/v1/chat/completions", { messages: [{ role: "user", content: "Hi" }], stream: true }, "all"],
  ["/v1/messages", { max_tokens: 9, messages: [{ role: "user", content: "Hi" }] }, "all"],
  ["/v1/messages/count_tokens", { messages: [{ role: "user", content: "Hi" }] }, ["anthropic"]],
  ["/v1/responses", { input: "Hi" }, "all"],
  ["/v1/embeddings", { input: "Hi" }, ["openai", "google", "ollama", "openrouter", "mistral"]],
  ["/v1/completions", { prompt: "Hi" }, ["openai", "openrouter"]],
  ["/v1/moderations", { input: "Hi" }, ["openai", "mistral"]],
];

Deno.test("configured headers replace the hub's for every kind of provider, whichever way it is asked", async (t) => {
  const upstream = await startScriptedUpstream(() => FAILED);
  const kinds = PROVIDER_KINDS.filter((kind) => kind !== "demo");
  const headers = { ...CONFIGURED, ...LISTS };
  const config = {
    providers: Object.fromEntries(
      kinds.map((kind) => [kind, { kind, baseUrl: upstream.url, apiKey: "sk-hub", headers }]),
    ),
    agents: Object.fromEntries(kinds.map((kind) => [kind, { models: [`${kind}/m`] }])),
    defaultModel: "openai/m",
  };
  try {
    await withHub(config, async (hub) => {
      for (const kind of kinds) {
        await t.step(kind, async () => {
          for (const [path, body, takers] of WAYS) {
            if (takers !== "all" && !takers.includes(kind)) continue;
            const from = upstream.requests.length;
            const answer = await hub.call(path, {
              body: { model: `${kind}/m`, ...body },
              headers: {
                "anthropic-beta": "client-1",
                "anthropic-version": "2023-06-01",
                "openai-beta": "client=v2",
                "user-agent": "Client/1",
              },
            });
            await answer.text();
            const sent = upstream.requests.slice(from);
            assert.ok(sent.length > 0, `${path} sent no request: ${answer.status}`);
            for (const request of sent) assertOperators(request, `${kind} ${path}`);
          }
          const from = upstream.requests.length;
          await (await hub.call("/v1/chat/completions", {
            body: { model: `agent/${kind}`, messages: [{ role: "user", content: "Hi" }] },
          })).text();
          const sent = upstream.requests.slice(from);
          assert.ok(sent.length > 0, "the run sent no request");
          for (const request of sent) assertOperators(request, `${kind} in a run`);
        });
      }

      await t.step("a client's list stands behind the operator's, in one field", async () => {
        const body = { model: "anthropic/m", max_tokens: 9, messages: WAYS[2]?.[1]["messages"] };
        await (await hub.call("/v1/messages", {
          body: body as JsonObject,
          headers: { "anthropic-beta": "client-1, operator-1,client-2" },
        })).text();
        const beta = upstream.requests.at(-1)?.header("anthropic-beta");
        assert.equal(beta, "operator-1,client-1,client-2");
      });
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("each key of a pool gives way to a configured credential, and an upload keeps its type", async () => {
  const upstream = await startScriptedUpstream(() => FAILED);
  const headers = { ...CONFIGURED, ...LISTS };
  const config = {
    providers: { openai: { baseUrl: upstream.url, apiKeys: ["sk-hub-1", "sk-hub-2"], headers } },
    defaultModel: "openai/m",
  };
  try {
    await withHub(config, async (hub) => {
      for (let asked = 0; asked < 4; asked++) {
        const messages = [{ role: "user", content: "Hi" }];
        const body = { model: "openai/m", messages };
        await (await hub.call("/v1/chat/completions", { body })).text();
      }
      const form = new FormData();
      form.set("purpose", "assistants");
      form.set("file", new Blob(["x"]), "x.txt");
      await (await fetch(`${hub.url}/v1/files?provider=openai`, {
        method: "POST",
        headers: { authorization: `Bearer ${hub.key}` },
        body: form,
      })).text();
      assert.ok(upstream.requests.length >= 5);
      for (const request of upstream.requests) assertOperators(request, request.path);
      assert.match(upstream.requests.at(-1)?.header("content-type") ?? "", /^multipart\/form-data/);
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("an MCP server gets configured headers once, over every transport", async () => {
  const upstream = await startScriptedUpstream(() => FAILED);
  const headers = {
    "AUTHORIZATION": "Bearer operator",
    "USER-AGENT": "Operator/1",
    "X-Title": "Operator",
  };
  const url = upstream.url;
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    mcpServers: {
      http: { url, headers, transport: "http" },
      sse: { url, headers, transport: "sse" },
      socket: { url: url.replace("http:", "ws:"), headers },
    },
  };
  try {
    await withHub(config, async () => {
      const isSocket = (request: RecordedRequest) => request.header("upgrade") === "websocket";
      await eventually(() => {
        const { requests } = upstream;
        const isAsked = requests.some(isSocket) &&
          requests.some((request) => request.method === "GET" && !isSocket(request)) &&
          requests.some(({ method }) => method === "POST");
        return isAsked ? true : null;
      });
      for (const request of upstream.requests) {
        const names = request.headers.map(([name]) => name.toLowerCase());
        assert.equal(new Set(names).size, names.length, JSON.stringify(request.headers));
        for (const [name, value] of Object.entries(headers)) {
          assert.equal(request.header(name.toLowerCase()), value);
        }
      }
    });
  } finally {
    await upstream.stop();
  }
});
