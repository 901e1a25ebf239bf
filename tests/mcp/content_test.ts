import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { complete, contentOf, getPrompt, readResource } from "../../src/mcp/server_content.ts";
import { eventually } from "../support/test_hub.ts";
import { scripted, withServers } from "./rig.ts";

const signal = new AbortController().signal;
const HAS = { resources: { listChanged: true }, prompts: { listChanged: true }, completions: {} };

Deno.test("all pages of resources, templates and prompts are read, odd entries alone left out", async () => {
  const odd = scripted({
    tools: [{ name: "good" }],
    capabilities: HAS,
    answers: {
      "resources/list": [
        {
          resources: [
            { uri: "x://b", name: "B\u202e", title: 5, size: -1, mimeType: "text/plain" },
            { name: "nowhere" },
            null,
            { uri: "x://" + "a".repeat(3000), name: "long" },
            { uri: "x://line\nbreak\u0007", name: "unseen" },
          ],
          nextCursor: "1",
        },
        {
          resources: [{ uri: "x://a", size: 12 }, { uri: "x://b", name: "twice" }],
          nextCursor: "1",
        },
      ],
      "resources/templates/list": { resourceTemplates: [{ uriTemplate: "x://{id}", name: "T" }] },
      "prompts/list": {
        prompts: [
          { name: "p", arguments: [{ name: "one", required: true }, { required: true }, 5] },
          { name: "" },
          { name: "a", description: "d".repeat(2000), arguments: "none" },
        ],
      },
    },
  });
  await withServers({ odd }, async ({ connection }) => {
    const { resources, templates, prompts } = await contentOf(connection("odd"), signal);
    assert.deepEqual(resources, [
      { uri: "x://a", name: "x://a", size: 12 },
      { uri: "x://b", name: "B", mimeType: "text/plain" },
    ]);
    assert.deepEqual(templates, [{ uriTemplate: "x://{id}", name: "T" }]);
    assert.deepEqual(prompts.map(({ name }) => name), ["a", "p"]);
    assert.equal(prompts[0]?.description?.length, 1024);
    assert.deepEqual(prompts[1]?.arguments, [{ name: "one", required: true }]);
  });
});

Deno.test("a list that never ends is cut, and a server that is not asked for more says nothing wrong", async () => {
  const endless = {
    resources: Array.from({ length: 30 }, (_, at) => ({ uri: `x://${at}`, name: "r" })),
  };
  const pages = Array.from({ length: 101 }, (_, at) => ({
    resources: endless.resources.map(({ uri }) => ({ uri: `${uri}/${at}`, name: "r" })),
    nextCursor: String(at + 1),
  }));
  await withServers({
    endless: scripted({
      capabilities: { resources: {} },
      answers: { "resources/list": pages as unknown as JsonObject[] },
    }),
    plain: scripted({ tools: [{ name: "good" }] }),
  }, async ({ connection, logged }) => {
    const { resources, templates } = await contentOf(connection("endless"), signal);
    assert.equal(resources.length, 2000);
    assert.deepEqual(templates, []);
    assert.deepEqual(await contentOf(connection("plain"), signal), {
      resources: [],
      templates: [],
      prompts: [],
    });
    assert.deepEqual(logged.filter((line) => line.includes("could not")), []);
  });
});

Deno.test("a server that is slow to list more has its tools at once; one that refuses says why in the log", async () => {
  await withServers({
    slow: scripted({
      tools: [{ name: "good" }],
      capabilities: HAS,
      answers: { "resources/list": "silence" },
    }),
    refuses: scripted({
      tools: [{ name: "good" }],
      capabilities: HAS,
      answers: { "resources/list": { code: -32603, message: "no disk" } },
    }),
  }, async ({ mcp, call, connection, logged }) => {
    await mcp.settled(60_000);
    assert.deepEqual(await call("slow__good"), { content: [{ type: "text", text: "good ok" }] });
    assert.deepEqual(await contentOf(connection("refuses"), signal), {
      resources: [],
      templates: [],
      prompts: [],
    });
    assert.ok(logged.some((line) => line.includes("could not be read")), logged.join("\n"));
  });
});

Deno.test("lists are read again when the server says that they have changed, a few times for many", async () => {
  const file = await Deno.makeTempFile({ dir: "/tmp", prefix: "loophub-mcp-" });
  const say = (uri: string) =>
    Deno.writeTextFile(
      file,
      JSON.stringify({
        "resources/list": { resources: [{ uri, name: "r" }] },
        "prompts/list": { prompts: [] },
      }),
    );
  await say("x://before");
  const news = scripted({ tools: [{ name: "good" }], capabilities: HAS, answersFile: file });
  await withServers({ news }, async ({ mcp, call, connection }) => {
    let told = 0;
    mcp.onContent(() => told++);
    const urisOf = () => connection("news").content.listing?.resources.map(({ uri }) => uri);
    await contentOf(connection("news"), signal);
    assert.deepEqual(urisOf(), ["x://before"]);
    assert.equal(told, 1);
    await say("x://after");
    const notice = { method: "notifications/resources/list_changed" };
    await call("news__good", { notify: Array.from({ length: 200 }, () => notice) });
    await eventually(() => urisOf()?.[0] === "x://after" || null);
    assert.equal(told, 2);
  });
  await Deno.remove(file);
});

Deno.test("resources are read, prompts filled and arguments completed; a server's no keeps its kind", async () => {
  const server = scripted({
    capabilities: HAS,
    answers: {
      "resources/list": { resources: [] },
      "prompts/list": { prompts: [] },
      "resources/read": {
        contents: [{ uri: "x://a", text: "hello" }, { blob: "AAA=" }, { uri: "x://none" }, 5],
      },
      "prompts/get": {
        description: "D",
        messages: [{ role: "user", content: { type: "text", text: "Hi" } }, null, { role: "user" }],
      },
      "completion/complete": {
        completion: { values: ["a", 5, ...Array.from({ length: 200 }, () => "b")], total: 9 },
      },
    },
  });
  const refuses = scripted({
    capabilities: HAS,
    answers: {
      "resources/list": { resources: [] },
      "resources/read": { code: -32002, message: "no such thing" },
      "prompts/get": { code: -32602, message: "what?" },
    },
  });
  const gone = { command: "/nowhere/at/all" };
  await withServers({ server, refuses, gone }, async ({ connection }) => {
    const one = connection("server");
    assert.deepEqual(await readResource(one, { uri: "x://a", signal }), [
      { uri: "x://a", text: "hello" },
      { uri: "x://a", blob: "AAA=" },
    ]);
    assert.deepEqual(await getPrompt(one, { name: "p", arguments: {}, signal }), {
      description: "D",
      messages: [{ role: "user", content: { type: "text", text: "Hi" } }],
    });
    const ref = { type: "ref/prompt", name: "p" } as const;
    const argument = { name: "x", value: "" };
    const { values, total } = await complete(one, { ref, argument, signal });
    assert.deepEqual([values.length, values[1], total], [100, "b", 9]);

    const no = connection("refuses");
    await assert.rejects(readResource(no, { uri: "x://a", signal }), {
      code: "not_found",
      message: /The MCP server refuses says: .*no such thing/,
    });
    await assert.rejects(getPrompt(no, { name: "p", arguments: {}, signal }), {
      code: "invalid_request",
    });
    for (
      const failing of [
        () => readResource(connection("gone"), { uri: "x://a", signal }),
        () => contentOf(connection("gone"), signal),
      ]
    ) {
      await assert.rejects(failing, { code: "upstream_unreachable" });
    }
  });
});

Deno.test("a resource that is larger than a message may be does not come in", async () => {
  const http = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    if (request.method !== "POST") return new Response(null, { status: 405 });
    const { id, method, params } = await request.json();
    if (id === undefined) return new Response(null, { status: 202 });
    const reply = (result: JsonObject) => Response.json({ jsonrpc: "2.0", id, result });
    if (method === "initialize") {
      return reply({
        protocolVersion: params.protocolVersion,
        capabilities: { resources: {} },
        serverInfo: { name: "large", version: "0" },
      });
    }
    if (method !== "resources/read") return reply({ resources: [], resourceTemplates: [] });
    const isStream = params.uri === "x://stream";
    const line = new TextEncoder().encode(`${isStream ? "data: " : ""}${"x".repeat(65_000)}\n`);
    let sent = 0;
    const body = new ReadableStream({
      pull(to) {
        sent += line.length;
        if (sent > 100 * 1024 * 1024) to.close();
        else to.enqueue(line);
      },
    });
    const type = isStream ? "text/event-stream" : "application/json";
    return new Response(body, { headers: { "content-type": type } });
  });
  const url = `http://127.0.0.1:${http.addr.port}/mcp`;
  const large = { url, protocol: "legacy", timeoutMs: 2000 };
  await withServers({ large }, async ({ connection }) => {
    const read = (uri: string) => readResource(connection("large"), { uri, signal });
    await assert.rejects(read("x://whole"), /16777216 bytes/);
    // What ends a stream of events ends no request in the package: its own time does.
    await assert.rejects(read("x://stream"), /said nothing for 2000 ms/);
  });
  await http.shutdown();
});

Deno.test("a server that goes on telling of its progress is not waited for without end", async () => {
  const answers = { "resources/read": "progress", "prompts/get": "progress" };
  const busy = scripted({ capabilities: HAS, answers }, { timeoutMs: 300 });
  await withServers({ busy }, async ({ connection }) => {
    const server = connection("busy");
    await server.connect();
    await assert.rejects(readResource(server, { uri: "x://a", signal }), /said nothing for 300 ms/);
    const wish = { name: "p", arguments: {}, signal };
    await assert.rejects(getPrompt(server, wish), /said nothing for 300 ms/);
  });
});
