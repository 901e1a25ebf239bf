import assert from "node:assert/strict";
import type { Json } from "../../src/core/json.ts";
import { startHttpMcpServer } from "../mcp/http_server.ts";
import { eventually, withHub } from "../support/test_hub.ts";

/** Each request has credentials for so many servers, and so many requests fill the room. */
const TIMES = 10;

Deno.test("a key has so many connections to servers by credentials of its requests, and the rest are told to wait", async () => {
  const server = startHttpMcpServer();
  const held = Promise.withResolvers<void>();
  let waiting = 0;
  const proxy = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    async (request) => {
      if (request.headers.has("authorization")) {
        waiting++;
        await held.promise;
      }
      return await fetch(server.url + new URL(request.url).pathname, request);
    },
  );
  try {
    const names = Array.from({ length: TIMES }, (_, at) => `s${at}`);
    const url = `http://127.0.0.1:${proxy.addr.port}`;
    const mcpServers = Object.fromEntries(names.map((name) => [name, { url }]));
    const handed = names.map((name) => [`x-mcp-auth-${name}`, "a-credential"]);
    await withHub({ mcpServers }, async (hub) => {
      await hub.hub.mcp.settled(10_000);
      const ask = (message: Json) =>
        hub.call("/mcp", {
          headers: {
            ...Object.fromEntries(handed),
            accept: "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/list",
          },
          body: message,
        });
      const list = {
        jsonrpc: "2.0",
        id: 1,
        method: "tools/list",
        params: {
          _meta: {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
          },
        },
      };
      const answers = Array.from({ length: TIMES }, () => ask(list));
      await eventually(() => waiting >= TIMES * TIMES || null);
      const refused = await ask(list);
      assert.equal(refused.status, 429);
      assert.equal(refused.headers.get("retry-after"), "1");
      assert.match(await refused.text(), /100 connections by handed credentials/);
      assert.equal(waiting, TIMES * TIMES);
      const gone = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 7 } };
      const cancelled = await ask(gone);
      await cancelled.body?.cancel();
      assert.notEqual(cancelled.status, 429);
      held.resolve();
      for (const answer of await Promise.all(answers)) {
        assert.match(await answer.text(), /s9__good/);
      }
      const again = await ask(list);
      assert.match(await again.text(), /s9__good/);
    });
  } finally {
    held.resolve();
    await proxy.shutdown();
    await server.stop();
  }
});
