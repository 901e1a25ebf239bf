import assert from "node:assert/strict";
import fc from "fast-check";
import { OAuth } from "../../src/config/mcp_schema.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { property } from "../support/property.ts";
import { loadText } from "./load_fixture.ts";

async function loaded(server: JsonObject) {
  const { config, notes } = await loadText({ mcpServers: { one: server } });
  return {
    server: config.mcpServers["one"],
    notes: notes.filter((note) => /mcpServers/.test(note)),
  };
}

/** Entries as these clients write them, and what they come to. */
const FILES: [string, JsonObject, JsonObject][] = [
  ["Claude Code", {
    type: "http",
    url: "https://example.com/mcp",
    headers: { Authorization: "Bearer ${TOKEN}" },
    headersHelper: "/bin/headers.sh",
    oauth: { clientId: "id", callbackPort: 8080 },
    timeout: 120_000,
  }, { transport: "http", timeoutMs: 120_000, oauth: { clientId: "id" } }],
  ["Cursor", {
    command: "npx",
    args: ["-y", "server", "${env:ROOT}"],
    env: { KEY: "${env:KEY}" },
    envFile: ".env",
    auth: { CLIENT_ID: "id", CLIENT_SECRET: "secret", scopes: ["read"] },
  }, {
    argv: ["npx", "-y", "server", "${ROOT}"],
    env: { KEY: "${KEY}" },
    oauth: { clientId: "id", clientSecret: "secret", scopes: ["read"] },
  }],
  ["VS Code", {
    type: "stdio",
    command: "node",
    args: ["server.js"],
    envFile: "${workspaceFolder}/.env",
    dev: { watch: "src/**" },
    gallery: true,
    version: "1.0.0",
    sandboxEnabled: true,
    sandbox: { filesystem: {} },
  }, { argv: ["node", "server.js"], sandbox: "auto" }],
  ["Cline", {
    command: "uvx",
    args: ["server"],
    disabled: false,
    autoApprove: ["read"],
    timeout: 60,
    transportType: "stdio",
  }, { enabled: true, timeoutMs: 60_000, transport: "stdio" }],
  ["Roo Code", {
    type: "streamable-http",
    url: "https://example.com/mcp",
    alwaysAllow: ["read"],
    disabledTools: ["delete"],
    watchPaths: ["/a"],
    disabled: true,
    timeout: 3600,
  }, { enabled: false, timeoutMs: 3_600_000, tools: { deny: ["delete"] } }],
  ["Windsurf", { serverUrl: "https://example.com/mcp", disabledTools: [] }, {
    url: "https://example.com/mcp",
    transport: "http",
  }],
  ["Gemini CLI", {
    httpUrl: "https://example.com/mcp",
    timeout: 600_000,
    trust: true,
    description: "Does",
    includeTools: ["a"],
    excludeTools: ["b"],
    oauth: { enabled: true, authorizationUrl: "https://a", scopes: ["s"] },
  }, {
    transport: "http",
    mayFallBack: false,
    timeoutMs: 600_000,
    tools: { allow: ["a"], deny: ["b"] },
    oauth: { scopes: ["s"] },
  }],
  ["Zed", {
    source: "custom",
    command: { path: "node", args: ["a"], env: { A: "1" } },
    settings: {},
  }, {
    argv: ["node", "a"],
    env: { A: "1" },
  }],
  ["Copilot CLI", { type: "local", command: "node", args: [], tools: ["*"] }, {
    tools: { allow: ["*"] },
  }],
  ["Codex", {
    url: "https://example.com/mcp",
    bearer_token_env_var: "TOKEN",
    env_http_headers: { "x-key": "KEY" },
    tool_timeout_sec: 30,
    startup_timeout_sec: 20,
    enabled_tools: ["a"],
  }, {
    headers: { Authorization: "Bearer ${TOKEN}", "x-key": "${KEY}" },
    timeoutMs: 30_000,
    connectTimeoutMs: 20_000,
    tools: { allow: ["a"] },
  }],
  ["opencode", { type: "local", command: ["npx", "a"], environment: { A: "1" }, timeout: 5000 }, {
    argv: ["npx", "a"],
    timeoutMs: 5000,
  }],
  ["mcp over websocket", { type: "websocket", url: "wss://example.com/mcp" }, { transport: "ws" }],
];

for (const [client, given, wanted] of FILES) {
  Deno.test(`mcpServers: an entry of ${client} is taken as it is`, async () => {
    const { server } = await loaded(given);
    const found = Object.fromEntries(
      Object.keys(wanted).map((name) => [name, { ...server }[name as "url"]]),
    );
    assert.deepEqual(JSON.parse(JSON.stringify(found)), wanted);
  });
}

Deno.test("mcpServers: what is left out is told, and approves nothing", async () => {
  const { server, notes } = await loaded({
    command: "a",
    args: ["${workspaceFolder}/a"],
    autoApprove: ["*"],
    envFile: ".env",
    icon: "x.png",
    somethingNew: { a: 1 },
  });
  assert.equal(server?.trust, false);
  assert.match(notes[0] ?? "", /`autoApprove` lets tools run unasked/);
  assert.match(notes[1] ?? "", /`envFile` is not read/);
  assert.match(notes[2] ?? "", /`somethingNew` is no setting of the hub/);
  assert.match(notes[3] ?? "", /\$\{workspaceFolder\} is a variable of an editor/);
  assert.equal(notes.length, 4);
});

Deno.test("mcpServers: off is off, and the hub's own settings win", async () => {
  const { server } = await loaded({
    command: "a",
    disabled: false,
    enabled: false,
    timeout: 60,
    timeoutMs: 7000,
  });
  assert.deepEqual([server?.enabled, server?.timeoutMs], [false, 7000]);
});

Deno.test("mcpServers: a slip in a setting is a mistake still", async () => {
  for (const name of ["tiemoutMs", "comand", "heders"]) {
    await assert.rejects(loaded({ command: "a", [name]: 1 }), /did you mean/);
  }
  await assert.rejects(loaded({ command: "a", type: "carrier-pigeon" }), /carrier-pigeon/);
});

property(
  "mcpServers: no member of another client stops the start",
  fc.dictionary(
    fc.constantFrom(
      "disabled",
      "autoApprove",
      "alwaysAllow",
      "timeout",
      "envFile",
      "dev",
      "settings",
    ),
    fc.jsonValue().filter((value) => !JSON.stringify(value).includes("__proto__")),
  ),
  async (members) => {
    const { server } = await loaded({ command: "a", ...members as JsonObject });
    assert.equal(server?.trust, false);
  },
  { runs: 50 },
);

Deno.test("agents.extra: nested objects and lists pass as they are", async () => {
  const extra = {
    reasoning: { effort: "high", max: [1, { deep: null }] },
    provider: { order: ["a"] },
    flag: true,
  };
  const { config } = await loadText({ agents: { one: { extra } } });
  assert.deepEqual(config.agents["one"]?.extra, extra);
});

Deno.test("the hub's own members of an OAuth client all reach the configuration", async () => {
  const oauth = {
    clientId: "id",
    clientSecret: "secret",
    scopes: ["read"],
    privateOrigins: ["http://localhost:*"],
  };
  assert.deepEqual(Object.keys(oauth).sort(), Object.keys(OAuth.properties).sort());
  const { server, notes } = await loaded({ url: "http://localhost:3000/mcp", oauth });
  assert.deepEqual([server?.oauth, notes], [oauth, []]);
});
