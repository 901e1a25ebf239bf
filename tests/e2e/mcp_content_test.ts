import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as V1Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as V1Transport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { JsonObject } from "../../src/core/json.ts";
import { scripted } from "../mcp/rig.ts";
import { connectMcp, MCP_CLIENTS } from "../support/mcp_clients.ts";
import { fetchPackages, realServer } from "../support/real_mcp_servers.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";

async function makeKey(hub: TestHub, policy: JsonObject): Promise<string> {
  const answer = await hub.call("/v1/admin/keys", { body: { name: "k", policy } });
  return (await answer.json()).token;
}

const jsonOf = async (hub: TestHub, path: string, options: Parameters<TestHub["call"]>[1] = {}) => {
  const answer = await hub.call(path, options);
  return { status: answer.status, body: await answer.json() };
};

Deno.test("a real server's resources, templates, prompts and completions are reached through the API", async () => {
  await fetchPackages(["server-everything"]);
  const everything = realServer("server-everything", ["stdio"]);
  await withHub({ mcpServers: { everything } }, async (hub) => {
    const at = "/v1/mcp/everything";
    const { body: { data } } = await jsonOf(hub, `${at}/resources`);
    const uris = data.map(({ uri }: { uri: string }) => uri);
    const architecture = "demo://resource/static/document/architecture.md";
    assert.ok(uris.includes(architecture), uris.join("\n"));
    const uri = encodeURIComponent(architecture);
    const { body: { contents } } = await jsonOf(hub, `${at}/resource?uri=${uri}`);
    assert.equal(contents[0].uri, architecture);
    assert.match(contents[0].text, /Everything Server/);
    const templates = (await jsonOf(hub, `${at}/resource-templates`)).body.data;
    const shown = templates.map(({ uriTemplate }: { uriTemplate: string }) => uriTemplate);
    assert.ok(shown.includes("demo://resource/dynamic/blob/{resourceId}"), shown.join("\n"));
    const blob = encodeURIComponent("demo://resource/dynamic/blob/2");
    const read = await jsonOf(hub, `${at}/resource?uri=${blob}`);
    assert.match(atob(read.body.contents[0].blob), /2/);

    const prompts = (await jsonOf(hub, `${at}/prompts`)).body.data;
    const names = prompts.map(({ name }: { name: string }) => name);
    assert.ok(names.includes("args-prompt"), names.join("\n"));
    const filled = await jsonOf(hub, `${at}/prompts/args-prompt`, {
      body: { arguments: { city: "Ulm" } },
    });
    assert.match(JSON.stringify(filled.body.messages), /Ulm/);
    const completed = await jsonOf(hub, `${at}/complete`, {
      body: {
        ref: { type: "ref/prompt", name: "completable-prompt" },
        argument: { name: "department", value: "E" },
      },
    });
    assert.deepEqual(completed.body.values, ["Engineering"]);
    const unknown = await jsonOf(hub, `${at}/prompts/nothing`, { body: {} });
    assert.equal(unknown.status, 400);
    assert.match(unknown.body.error.message, /The MCP server everything says/);
  });
});

Deno.test("a key reaches those resources and prompts that its tools let it", async () => {
  const docs = scripted({
    capabilities: { resources: {}, prompts: {}, completions: {} },
    answers: {
      "resources/list": {
        resources: [
          { uri: "file:///public/a", name: "a" },
          { uri: "file:///secret/b", name: "b" },
        ],
      },
      "resources/templates/list": { resourceTemplates: [{ uriTemplate: "file:///{+path}" }] },
      "prompts/list": { prompts: [{ name: "hello" }, { name: "other" }] },
      "resources/read": { contents: [{ uri: "file:///x", text: "words" }] },
      "prompts/get": { messages: [{ role: "user", content: { type: "text", text: "Hi" } }] },
      "completion/complete": { completion: { values: ["a"] } },
    },
  });
  const off = { command: "/nowhere", enabled: false };
  await withHub({ mcpServers: { docs, off, gone: { command: "/nowhere" } } }, async (hub) => {
    const key = await makeKey(hub, { tools: ["docs__file:///public/*", "docs__hello"] });
    const headers = { authorization: `Bearer ${key}` };
    const get = (path: string) => jsonOf(hub, path, { headers });
    const post = (path: string, body: JsonObject) => jsonOf(hub, path, { headers, body });
    const at = "/v1/mcp/docs";
    assert.deepEqual(
      (await get(`${at}/resources`)).body.data.map(({ uri }: { uri: string }) => uri),
      ["file:///public/a"],
    );
    assert.deepEqual((await get(`${at}/resource-templates`)).body.data, []);
    assert.deepEqual(
      (await get(`${at}/prompts`)).body.data.map(({ name }: { name: string }) => name),
      ["hello"],
    );
    const read = (uri: string) => get(`${at}/resource?uri=${encodeURIComponent(uri)}`);
    assert.equal((await read("file:///public/other")).status, 200);
    for (
      const uri of [
        "file:///secret/b",
        "file:///public/../secret/b",
        "file:///public/%2e%2e/secret/b",
        "file:///public/..%2fsecret/b",
        "file:///public/%2E%2E%2Fsecret/b",
      ]
    ) {
      const { status, body } = await read(uri);
      assert.deepEqual([status, body.error.code], [404, "not_found"], uri);
    }
    assert.equal((await post(`${at}/prompts/hello`, {})).status, 200);
    assert.equal((await post(`${at}/prompts/other`, {})).status, 404);
    const argument = { name: "x", value: "" };
    const complete = (ref: JsonObject) => post(`${at}/complete`, { ref, argument });
    assert.equal((await complete({ type: "ref/prompt", name: "hello" })).status, 200);
    assert.equal((await complete({ type: "ref/prompt", name: "other" })).status, 404);
    assert.equal((await complete({ type: "ref/resource", uri: "file:///{+path}" })).status, 404);
    assert.equal((await get("/v1/mcp/off/resources")).status, 404);
    assert.equal((await get("/v1/mcp/none/resources")).status, 404);
    const gone = await get("/v1/mcp/gone/resources");
    assert.deepEqual([gone.status, gone.body.error.code], [502, "upstream_unreachable"]);
  });
});

const SOUND = { type: "audio", data: "AAECAw==", mimeType: "audio/wav" };
const PAGE = {
  type: "resource",
  resource: { uri: "doc://page", blob: "PHN2Zy8+", mimeType: "image/svg+xml" },
};
const RICH = {
  content: [
    { type: "text", text: "here", annotations: { priority: 0.5, audience: ["user", "x"] } },
    SOUND,
    PAGE,
    SOUND,
    { type: "resource", resource: { uri: "doc://words", text: "words" } },
    { type: "resource_link", uri: "doc://more" },
    { type: "resource_link", uri: "https://example.com/", name: "E" },
    { type: "audio", data: "no base64!", mimeType: "audio/wav" },
    { type: "video" },
  ],
  structuredContent: { n: 1 },
};

Deno.test("files of a result are kept for the run's owner, by what they hold; no base64 is read by a model", async () => {
  const upstream = await startScriptedUpstream();
  const rich = scripted({ tools: [{ name: "all" }], results: { all: RICH } });
  await withHub({
    providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "one/m",
    agents: { default: { tools: ["rich__*"] } },
    mcpServers: { rich },
  }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    upstream.script((_, index) =>
      index > 0
        ? chatStream({ text: "Done." })
        : chatStream({ toolCalls: [{ name: "rich__all", arguments: {} }] })
    );
    const { body: { id } } = await jsonOf(hub, "/v1/sessions", { body: {} });
    const run = await hub.call(`/v1/sessions/${id}/messages`, {
      body: { parts: [{ type: "text", text: "Show" }], stream: false },
    });
    assert.equal(run.status, 200, await run.text());
    const asked = upstream.requests.at(-1)?.json as {
      messages: { role: string; content: string }[];
    };
    const said = asked.messages.find(({ role }) => role === "tool")?.content ?? "";
    for (const data of [SOUND.data, PAGE.resource.blob]) assert.ok(!said.includes(data), said);
    const links = [...said.matchAll(/\/v1\/sessions\/\S+\/files\/[0-9a-f]{64}/g)].map(([to]) => to);
    assert.equal(links.length, 3);
    assert.equal(links[0], links[2]);
    const sound = await hub.call(links[0] ?? "");
    assert.equal(sound.headers.get("content-type"), "audio/wav");
    assert.deepEqual([...new Uint8Array(await sound.arrayBuffer())], [0, 1, 2, 3]);
    const drawn = await hub.call(links[1] ?? "");
    assert.equal(drawn.headers.get("content-type"), "image/svg+xml");
    assert.equal(drawn.headers.get("content-disposition"), "attachment");
    assert.match(drawn.headers.get("content-security-policy") ?? "", /sandbox/);
    assert.equal(await drawn.text(), "<svg/>");
    const { status } = await jsonOf(hub, `/v1/sessions/${id}/files/${"0".repeat(64)}`);
    assert.equal(status, 404);
    const other = (await jsonOf(hub, "/v1/sessions", { body: {} })).body.id;
    const elsewhere = await jsonOf(hub, (links[0] ?? "").replace(id, other));
    assert.equal(elsewhere.status, 404);
    const gone = await hub.call(`/v1/sessions/${id}`, { method: "DELETE" });
    await gone.body?.cancel();
    const left = await hub.hub.start.db.read`select 1 from hub.files`;
    assert.equal(left.length, 0);
  });
  await upstream.stop();
});

Deno.test("over /mcp a connected server's result is passed on whole, what is odd in it in words", async () => {
  const failing = { ...RICH, isError: true };
  const results = { all: RICH, failing };
  const rich = scripted({ tools: [{ name: "all" }, { name: "failing" }], results });
  const plain = scripted({ tools: [{ name: "all_of_it" }], results: { all_of_it: RICH } }, {
    prefix: false,
  });
  await withHub({ mcpServers: { rich, plain } }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    for (const kind of MCP_CLIENTS) {
      const client = await connectMcp(kind, hub);
      const result = await client.call("rich__all", {});
      const wanted = (uri: (own: string) => string) => [
        { type: "text", text: "here", annotations: { priority: 0.5, audience: ["user"] } },
        SOUND,
        { type: "resource", resource: { ...PAGE.resource, uri: uri("doc://page") } },
        SOUND,
        { type: "resource", resource: { uri: uri("doc://words"), text: "words" } },
        { type: "resource_link", uri: uri("doc://more"), name: "doc://more" },
        { type: "resource_link", uri: "https://example.com/", name: "E" },
        { type: "text", text: "(audio without data)" },
        { type: "text", text: "(block of the unknown kind video)" },
      ];
      assert.deepEqual(result.content, wanted((own) => `mcp+rich+${own}`));
      assert.deepEqual(result.structuredContent, { n: 1 });
      const failed = await client.call("rich__failing", {});
      assert.equal(failed.isError, true);
      assert.deepEqual(failed.content, result.content);
      assert.deepEqual((await client.call("all_of_it", {})).content, wanted((own) => own));
      await client.close();
    }
  });
});

const INFO = { name: "test", version: "1" };

Deno.test("clients of /mcp have the resources and prompts of connected servers, as far as their key goes", async () => {
  const plan = (uri: string) => ({
    tools: [{ name: "poke" }],
    capabilities: { resources: { listChanged: true }, prompts: {}, completions: {} },
    answers: {
      "resources/list": { resources: [{ uri, name: "a" }] },
      "resources/templates/list": { resourceTemplates: [{ uriTemplate: "x://{id}", name: "t" }] },
      "prompts/list": { prompts: [{ name: "hello", arguments: [{ name: "who" }] }] },
      "resources/read": { contents: [{ uri, text: "words" }] },
      "prompts/get": { messages: [{ role: "user", content: PAGE }] },
      "completion/complete": { completion: { values: ["ada"] } },
    },
  });
  const docs = scripted(plan("file:///a"));
  const plain = scripted(plan("plain://a"), { prefix: false });
  await withHub({ mcpServers: { docs, plain } }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    await Promise.all(hub.hub.mcp.connections.map(({ content }) => content.settled()));
    const endpoint = new URL(`${hub.url}/mcp`);
    const toInit = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });
    const connect = async (key: string) => {
      const client = new V1Client(INFO);
      const transport = new V1Transport(endpoint, { requestInit: toInit(key) });
      await client.connect(transport as Parameters<typeof client.connect>[0]);
      return client;
    };
    const modern = new Client(INFO, { versionNegotiation: { mode: "auto" } });
    const requestInit = toInit(hub.key);
    await modern.connect(new StreamableHTTPClientTransport(endpoint, { requestInit }));
    for (const made of [await connect(hub.key), modern]) {
      const client = made as Client;
      const { resources } = await client.listResources();
      assert.deepEqual(resources.map(({ uri }) => uri), ["mcp+docs+file:///a", "plain://a"]);
      const { resourceTemplates } = await client.listResourceTemplates();
      assert.deepEqual(resourceTemplates.map(({ uriTemplate }) => uriTemplate), [
        "mcp+docs+x://{id}",
        "x://{id}",
      ]);
      const { prompts } = await client.listPrompts();
      assert.deepEqual(prompts.map(({ name }) => name), ["docs__hello", "hello"]);
      for (const { uri } of resources) {
        const { contents } = await client.readResource({ uri });
        assert.deepEqual(contents, [{ uri, text: "words" }]);
      }
      const { messages } = await client.getPrompt({ name: "docs__hello", arguments: { who: "a" } });
      assert.deepEqual(messages, [{
        role: "user",
        content: { type: "resource", resource: { ...PAGE.resource, uri: "mcp+docs+doc://page" } },
      }]);
      const argument = { name: "who", value: "a" };
      for (
        const ref of [
          { type: "ref/prompt", name: "hello" },
          { type: "ref/resource", uri: "mcp+docs+x://{id}" },
        ] as const
      ) {
        assert.deepEqual((await client.complete({ ref, argument })).completion.values, ["ada"]);
      }
      await assert.rejects(client.getPrompt({ name: "none" }), /There is no prompt none/);
      await client.close();
    }
    const key = await makeKey(hub, { tools: ["docs__hello", "docs__poke"] });
    const some = await connect(key);
    assert.deepEqual((await some.listResources()).resources, []);
    assert.deepEqual(
      (await some.listPrompts()).prompts.map((prompt: { name: string }) => prompt.name),
      ["docs__hello"],
    );
    await assert.rejects(some.readResource({ uri: "mcp+docs+file:///a" }), /not found/i);
    await some.close();
  });
});
