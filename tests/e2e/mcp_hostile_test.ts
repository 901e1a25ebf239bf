import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { connectMcp, MCP_CLIENTS } from "../support/mcp_clients.ts";
import { issueSecondKey } from "../support/second_key.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, loadTestConfig, type TestHub, withHub } from "../support/test_hub.ts";
import { INITIALIZE } from "../support/mcp_messages.ts";

const ACCEPT = "application/json, text/event-stream";
const MODERN = {
  "mcp-protocol-version": "2026-07-28",
  "mcp-method": "tools/list",
};
const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};
const LIST = { jsonrpc: "2.0", id: 1, method: "tools/list", params: { _meta: META } };

/** Posts exactly these bytes. */
async function post(
  hub: TestHub,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
) {
  const response = await fetch(`${hub.url}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${hub.key}`,
      accept: ACCEPT,
      "content-type": "application/json",
      ...headers,
    },
    body,
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text };
}

Deno.test("the MCP endpoint takes nothing that it should not", async (t) => {
  await withHub({ server: { trustedHosts: [] } }, async (hub) => {
    await t.step("a request without a key, with a wrong one, or with two", async () => {
      for (const method of ["POST", "GET", "DELETE"]) {
        const init = method === "POST" ? { method, body: "{}" } : { method };
        const answer = await fetch(`${hub.url}/mcp`, init);
        await answer.body?.cancel();
        assert.equal(answer.status, 401);
        assert.match(answer.headers.get("www-authenticate") ?? "", /^Bearer/);
      }
      assert.equal((await post(hub, "{}", { authorization: "Bearer lh_x" })).status, 401);
    });

    await t.step("a page of another origin, with or without a key", async () => {
      const origin = { origin: "http://evil.example" };
      assert.equal((await post(hub, JSON.stringify(INITIALIZE), origin)).status, 403);
      const { hostname, port } = new URL(hub.url);
      const socket = await Deno.connect({ hostname, port: Number(port) });
      await socket.write(
        new TextEncoder().encode(
          "POST /mcp HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 2\r\n\r\n{}",
        ),
      );
      const bytes = new Uint8Array(64);
      await socket.read(bytes);
      assert.match(new TextDecoder().decode(bytes), /^HTTP\/1\.1 400 /);
      socket.close();
    });

    await t.step("what is no message of the protocol", async () => {
      const deep = `{"jsonrpc":"2.0","id":1,"method":"x","params":${"[".repeat(1000)}${
        "]".repeat(1000)
      }}`;
      const cases: [string | Uint8Array<ArrayBuffer>, number, number][] = [
        ["", 400, -32700],
        ["{", 400, -32700],
        ["nonsense", 400, -32700],
        [new Uint8Array([0x22, 0xff, 0x22]), 400, -32700],
        [deep, 400, -32600],
        ['{"__proto__":{"a":1}}', 400, -32600],
        [`[${Array(33).fill(JSON.stringify(LIST)).join()}]`, 400, -32600],
      ];
      for (const [body, status, code] of cases) {
        const answer = await post(hub, body);
        assert.equal(answer.status, status, String(body).slice(0, 40));
        assert.equal(JSON.parse(answer.text).error.code, code);
        assert.equal(JSON.parse(answer.text).id, null);
      }
      for (
        const message of [
          {},
          [],
          null,
          1,
          "x",
          { jsonrpc: "1.0", id: 1, method: "ping" },
          { jsonrpc: "2.0", id: {}, method: "ping" },
          { jsonrpc: "2.0", id: 1 },
          { jsonrpc: "2.0", id: 1, method: 5 },
          [LIST, { ...INITIALIZE }],
        ]
      ) {
        const { status } = await post(hub, JSON.stringify(message));
        assert.equal(status, 400, JSON.stringify(message));
      }
    });

    await t.step("a body that is too large, or no JSON by its type", async () => {
      const large = JSON.stringify({ ...INITIALIZE, more: "x".repeat(8 * 1024 * 1024) });
      const answer = await post(hub, large);
      assert.equal(answer.status, 413);
      assert.equal(JSON.parse(answer.text).error.code, -32600);
      const typed = await post(hub, JSON.stringify(INITIALIZE), { "content-type": "text/plain" });
      assert.equal(typed.status, 415);
      const accepted = await post(hub, JSON.stringify(INITIALIZE), { accept: "text/html" });
      assert.equal(accepted.status, 406);
    });

    await t.step("headers that say other things than the body", async () => {
      const good = await post(hub, JSON.stringify(LIST), MODERN);
      assert.equal(good.status, 200);
      for (
        const headers of [
          { ...MODERN, "mcp-method": "tools/call" },
          { ...MODERN, "mcp-protocol-version": "2025-11-25" },
        ]
      ) {
        const answer = await post(hub, JSON.stringify(LIST), headers);
        assert.equal(answer.status, 400);
        assert.equal(JSON.parse(answer.text).error.code, -32020);
      }
      const params = { name: "hub_calculate", arguments: { expression: "1+1" }, _meta: META };
      const call = { ...LIST, method: "tools/call", params };
      const calling = { ...MODERN, "mcp-method": "tools/call" };
      for (
        const [headers, status] of [
          [{ ...calling, "mcp-name": "hub_calculate" }, 200],
          [{ ...calling, "mcp-name": "agent_default" }, 400],
          [calling, 400],
        ] as const
      ) {
        const answer = await post(hub, JSON.stringify(call), headers);
        assert.equal(answer.status, status);
        if (status === 400) assert.equal(JSON.parse(answer.text).error.code, -32020);
      }
    });

    await t.step("a session that is not there, or is another key's", async () => {
      const begun = await post(hub, JSON.stringify(INITIALIZE));
      const id = begun.headers.get("mcp-session-id") ?? assert.fail("no session");
      assert.match(id, /^[0-9a-f]{48}$/);
      const ping = JSON.stringify({ jsonrpc: "2.0", id: 2, method: "ping" });
      assert.equal((await post(hub, ping, { "mcp-session-id": id })).status, 200);
      assert.equal((await post(hub, ping, { "mcp-session-id": `${id}0` })).status, 404);
      assert.equal((await post(hub, ping)).status, 400);
      const other = { authorization: `Bearer ${await issueSecondKey(hub)}` };
      assert.equal((await post(hub, ping, { "mcp-session-id": id, ...other })).status, 404);
      for (const method of ["GET", "DELETE"]) {
        const headers = { "mcp-session-id": id, accept: ACCEPT, ...other };
        const answer = await fetch(`${hub.url}/mcp`, { method, headers });
        await answer.body?.cancel();
        assert.equal(answer.status, 404);
      }
      assert.equal((await post(hub, ping, { "mcp-session-id": id })).status, 200);
    });

    await t.step("a stream that is not there, is another key's, or gets nonsense", async () => {
      const left = new AbortController();
      const stream = await hub.call("/mcp/sse", { signal: left.signal });
      const reader = (stream.body ?? assert.fail()).getReader();
      const told = new TextDecoder().decode((await reader.read()).value);
      const [, path = ""] = /^event: endpoint\ndata: (\S+)\n\n$/.exec(told) ?? [];
      const say = async (path: string, body: string, key = hub.key) => {
        const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
        const answer = await fetch(hub.url + path, { method: "POST", headers, body });
        await answer.text();
        return answer.status;
      };
      const message = JSON.stringify(INITIALIZE);
      assert.equal(await say(path, message, await issueSecondKey(hub)), 404);
      assert.equal(await say(`${path}0`, message), 404);
      assert.equal(await say("/mcp/sse/message", message), 400);
      for (const body of ["", "{", "[]", "{}"]) assert.equal(await say(path, body), 400);
      assert.equal(await say(path, message), 202);
      const answer = new TextDecoder().decode((await reader.read()).value);
      assert.match(answer, /^event: message\ndata: \{.*"protocolVersion":"2025-11-25"/);
      left.abort();
      await reader.cancel().catch(() => {});
      await eventually(async () => await say(path, message) === 404 || null);
    });

    await t.step("another method", async () => {
      const answer = await hub.call("/mcp", { method: "PUT", body: {} });
      await answer.body?.cancel();
      assert.equal(answer.status, 405);
    });
  });
});

Deno.test("a client of 2026-07-28 that leaves stops its run, before and after the head of the answer", async () => {
  const upstream = await startScriptedUpstream();
  const config = {
    server: { keepaliveMs: 300 },
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-up" } },
    defaultModel: "up/m",
  };
  const message = {
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: { name: "agent_default", arguments: { prompt: "x" }, _meta: META },
  };
  const headers = {
    accept: ACCEPT,
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "agent_default",
  };
  try {
    await withHub(config, async (hub) => {
      for (const phase of ["before", "after"]) {
        upstream.script(chatStream({ text: "a b", end: "stall" }));
        const [asked, closed] = [upstream.requests.length, upstream.closedByClient.length];
        const left = new AbortController();
        const answer = hub.call("/mcp", { body: message, headers, signal: left.signal });
        answer.catch(() => {});
        await upstream.until(() => upstream.requests.length > asked);
        if (phase === "after") {
          const { headers } = await answer;
          assert.match(headers.get("content-type") ?? "", /^text\/event-stream/);
        }
        left.abort();
        await upstream.until(() => upstream.closedByClient.length > closed);
        await eventually(async () =>
          (await hub.hub.start.db.read<{ status: string }[]>`
            select status from hub.runs order by created_at desc limit 1`)[0]?.status ===
            "cancelled" || null
        );
      }
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("clients hear once of agents that a reload has changed", async () => {
  await withHub({}, async (hub) => {
    const load = (agents: JsonObject) => loadTestConfig({ agents }, hub);
    const clients = await Promise.all(MCP_CLIENTS.map((kind) => connectMcp(kind, hub)));
    for (const client of clients) assert.equal((await client.tools()).length, 4);
    for (let at = 0; at < 100; at++) await hub.hub.reload(await load({ [`a${at}`]: {}, last: {} }));
    for (const client of clients) {
      await eventually(() => client.changes.count > 0 || null);
      const names = (await client.tools()).map(({ name }) => name);
      assert.deepEqual(names.slice(0, 3), ["agent_a99", "agent_default", "agent_last"]);
    }
    await hub.hub.reload(await load({ a99: {}, last: {} }));
    await hub.hub.reload(await load({}));
    for (const client of clients) {
      await eventually(() => client.changes.count > 1 || null);
      assert.ok(client.changes.count <= 4, `${client.changes.count}`);
      await client.close();
    }
  });
});

Deno.test("a WebSocket wants a key and the hub's own origin, and ends with its key or the hub", async () => {
  await withHub({}, async (hub) => {
    const url = `${hub.url.replace(/^http/, "ws")}/mcp`;
    const open = (headers: Record<string, string>) => {
      const socket = new WebSocket(url, { headers, protocols: ["mcp"] });
      const closed = new Promise<number>((resolve) =>
        socket.addEventListener("close", ({ code }) => resolve(code))
      );
      const opened = new Promise<boolean>((resolve) => {
        socket.addEventListener("open", () => resolve(true));
        socket.addEventListener("error", () => resolve(false));
      });
      const next = () =>
        new Promise<JsonObject>((resolve) =>
          socket.addEventListener("message", ({ data }) => resolve(JSON.parse(data)), {
            once: true,
          })
        );
      return { socket, opened, closed, next };
    };
    const authorization = `Bearer ${hub.key}`;
    for (const headers of [{}, { authorization, origin: "http://evil.example" }]) {
      const refused = open(headers);
      assert.equal(await refused.opened, false);
      await refused.closed;
    }

    const made = await (await hub.call("/v1/admin/keys", { body: { name: "k" } })).json();
    const revoked = open({ authorization: `Bearer ${made.token}` });
    assert.equal(await revoked.opened, true);
    assert.equal(revoked.socket.protocol, "mcp");
    const answer = revoked.next();
    revoked.socket.send(JSON.stringify(INITIALIZE));
    assert.equal((await answer)["id"], 1);
    const answered = await hub.call(`/v1/admin/keys/${made.key.id}/revoke`, { method: "POST" });
    await answered.body?.cancel();
    const ping = JSON.stringify({ jsonrpc: "2.0", id: 2, method: "ping" });
    await eventually(() => {
      if (revoked.socket.readyState === WebSocket.OPEN) revoked.socket.send(ping);
      return revoked.socket.readyState === WebSocket.CLOSED || null;
    });
    assert.equal(await revoked.closed, 1008);

    const last = open({ authorization });
    assert.equal(await last.opened, true);
    await hub.hub.close();
    assert.equal(await last.closed, 1001);
  });
});
