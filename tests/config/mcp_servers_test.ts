import assert from "node:assert/strict";
import { loadServers } from "../mcp/rig.ts";
import { load } from "./load_fixture.ts";

Deno.test("a block of Claude Desktop is taken as it is", () => {
  const { servers, problems } = loadServers({
    filesystem: {
      command: "npx",
      args: ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"],
      env: { TOKEN: "${TOKEN}" },
    },
    "Far Away (2)": { url: "https://example.com/mcp", headers: { authorization: "x" } },
  });
  assert.deepEqual(problems, []);
  const { filesystem, "Far Away (2)": far } = servers;
  assert.deepEqual(filesystem?.argv, [
    "npx",
    "-y",
    "@modelcontextprotocol/server-filesystem",
    "/tmp",
  ]);
  assert.deepEqual([filesystem?.transport, filesystem?.protocol], ["stdio", "legacy"]);
  assert.deepEqual([far?.transport, far?.protocol, far?.slug], ["http", "auto", "far-away-2"]);
});

Deno.test("other ways to write a server mean the same", () => {
  const { servers, problems } = loadServers({
    local: { type: "local", command: ["a", "b"], environment: { A: "1" } },
    remote: { type: "remote", url: "http://127.0.0.1/mcp" },
    socket: { type: "remote", url: "wss://example.com/mcp" },
    sse: { type: "sse", url: "https://example.com/sse" },
    camel: { type: "streamableHttp", url: "https://example.com/mcp" },
  });
  assert.deepEqual(problems, []);
  assert.deepEqual(servers["local"]?.argv, ["a", "b"]);
  assert.deepEqual(servers["local"]?.env, { A: "1" });
  const forms = Object.values(servers).map((
    { transport, mayFallBack },
  ) => [transport, mayFallBack]);
  assert.deepEqual(forms, [
    ["stdio", false],
    ["http", true],
    ["ws", false],
    ["sse", false],
    ["http", false],
  ]);
});

Deno.test("headers of the connection and of the protocol cannot be configured, nor one twice", () => {
  const headers = {
    "X-Ok": "${TOKEN}",
    "User-Agent": "Ours/1",
    "HOST": "h",
    "Content-Length": "1",
    "Sec-WebSocket-Key": "k",
    "MCP-Session-Id": "s",
    "Mcp-Protocol-Version": "1",
    "x-ok": "2",
  };
  const { problems } = loadServers({ a: { url: "https://example.com/mcp", headers } });
  assert.deepEqual(problems.map(({ path }) => path), [
    "mcpServers.a.headers.HOST",
    "mcpServers.a.headers.Content-Length",
    "mcpServers.a.headers.Sec-WebSocket-Key",
    "mcpServers.a.headers.MCP-Session-Id",
    "mcpServers.a.headers.Mcp-Protocol-Version",
    "mcpServers.a.headers.x-ok",
  ]);
});

Deno.test("what cannot be is said", () => {
  const { problems } = loadServers({
    both: { command: "a", url: "http://b" },
    none: { type: "http" },
    odd: { url: "ftp://example.com" },
    mixed: { type: "sse", command: "a" },
    "One Two": { command: "a" },
    "one-two": { command: "a" },
    hub: { command: "a" },
  });
  assert.deepEqual(problems.map(({ path }) => path), [
    "mcpServers.both",
    "mcpServers.none",
    "mcpServers.odd",
    "mcpServers.mixed",
    "mcpServers.one-two.prefix",
    "mcpServers.hub.prefix",
  ]);
});

Deno.test("variables of servers are not resolved before they are connected to", async () => {
  const text = JSON.stringify({
    mcpServers: { one: { command: "a", env: { TOKEN: "${NOT_SET_YET}" }, cwd: "sub" } },
  });
  const { config } = await load({ cwd: "/srv", files: { "/srv/loophub.json": text } });
  assert.equal(config.mcpServers["one"]?.env?.["TOKEN"], "${NOT_SET_YET}");
  assert.equal(config.mcpServers["one"]?.cwd, "/srv/sub");
  assert.equal(config.mcpServers["constructor"], undefined);
});
