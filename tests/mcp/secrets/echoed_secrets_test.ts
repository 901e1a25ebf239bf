import assert from "node:assert/strict";
import type { JsonObject } from "../../../src/core/json.ts";
import { scrubJson } from "../../../src/telemetry/scrub.ts";
import { startHttpMcpServer } from "../http_server.ts";
import { scripted, withServers } from "../rig.ts";

const CANARIES = {
  KEY: "canary-env-key-1a2b3c4d",
  PLAIN: "canary-unnamed-9f8e7d6c",
  ARG: "canary-argument-5a5b5c5d",
  HEADER: "canary-header-77aa88bb",
  QUERY: "canary-query-11ee22dd",
  PASSWORD: "canary-db-password-33",
};
const TOOL = { name: "echo", inputSchema: { type: "object" } };

function assertClean(text: string, what: string): void {
  for (const canary of Object.values(CANARIES)) {
    for (const form of [canary, encodeURIComponent(canary), btoa(canary).slice(0, -4)]) {
      assert.ok(!text.includes(form), `${what}: ${text}`);
    }
  }
}

Deno.test("what a program echoes of its variables and arguments is redacted", async () => {
  const url = `postgres://u:${CANARIES.PASSWORD}@db/x`;
  const all = Object.values(CANARIES).join(" ");
  const plan = {
    tools: [{ ...TOOL, description: `Knows ${CANARIES.KEY}` }],
    results: {
      echo: {
        content: [{ type: "text", text: `${all} ${btoa(all)} ${JSON.stringify({ all })}` }],
        structuredContent: { all, [CANARIES.ARG]: [all] },
      },
    },
    instructions: `My key is ${CANARIES.KEY}`,
  };
  const base = scripted(plan);
  const server = {
    ...base,
    args: [
      ...base["args"] as string[],
      "--query",
      "${QUERY}",
      `--token=\${ARG}`,
      "--header",
      `X-Token: ${CANARIES.HEADER}`,
      url,
    ],
    env: {
      ...base["env"] as JsonObject,
      API_KEY: "${KEY}",
      OTHER: "${PLAIN}",
      PLACE: "${HOME}/docs",
    },
  };
  await withServers({ one: server }, async ({ mcp, call, secrets, connection }) => {
    await mcp.settled(60_000);
    const result = JSON.stringify(await call("one__echo"));
    assert.match(result, /\[redacted\]/);
    assertClean(result, "result");
    assertClean(JSON.stringify(mcp.tools), "tools");
    assertClean(connection("one").instructions, "instructions");
    const env = JSON.stringify(await call("one__echo", { env: true }));
    assertClean(env, "environment");
    assert.ok(env.includes(`${Deno.env.get("HOME")}/docs`), "a folder is no secret");
    for (const canary of Object.values(CANARIES)) assert.ok(secrets.includes(canary), canary);
  }, { env: CANARIES });
});

Deno.test("what a program says when it ends is redacted", async () => {
  const server = {
    command: "sh",
    args: ["-c", 'echo "bad key $API_KEY" >&2; exit 3'],
    env: { API_KEY: CANARIES.KEY },
  };
  await withServers({ one: server }, async ({ mcp, logged }) => {
    await mcp.settled(60_000);
    const states = JSON.stringify(mcp.connections.map(({ state }) => state));
    assert.match(states, /bad key \[redacted\]/);
    assertClean(states + logged.join("\n"), "state");
  });
});

for (const transport of ["http", "sse", "ws"] as const) {
  Deno.test(`what a server echoes of its headers and address is redacted (${transport})`, async () => {
    const server = startHttpMcpServer();
    server.tools = [TOOL];
    server.echoes = true;
    const path = transport === "http" ? "" : transport === "sse" ? "/sse" : "/ws";
    const address = transport === "ws" ? server.url.replace("http", "ws") : server.url;
    const settings = {
      url: `${address}${path}?api_key=\${QUERY}`,
      ...transport === "sse" ? { type: "sse" } : {},
      headers: { authorization: "Bearer ${KEY}", "x-team-token": CANARIES.HEADER },
    };
    try {
      await withServers({ one: settings }, async ({ mcp, call }) => {
        await mcp.settled(60_000);
        const result = JSON.stringify(await call("one__echo"));
        assert.match(result, /\[redacted\]/);
        assertClean(result, "result");
        if (transport !== "http") return;
        server.refuse(500, `no: ${CANARIES.KEY} ${CANARIES.QUERY}`);
        const failed = JSON.stringify(await call("one__echo").catch(String));
        assert.match(failed, /no: \[redacted\]/);
        assertClean(failed, "failure");
      }, { env: CANARIES });
    } finally {
      await server.stop();
    }
  });
}

Deno.test("scrubJson: names, deep members and __proto__ are scrubbed without recursion", () => {
  const deep = JSON.parse(`${"[".repeat(200_000)}"s3cretvalue"${"]".repeat(200_000)}`);
  scrubJson(deep, ["s3cretvalue"]);
  let at: unknown = deep;
  while (Array.isArray(at)) at = at[0];
  assert.equal(at, "[redacted]");
  const odd = scrubJson(
    JSON.parse('{"__proto__":"s3cretvalue","s3cretvalue":{"a":"x s3cretvalue"}}'),
    [
      "s3cretvalue",
    ],
  );
  assert.equal(JSON.stringify(odd), '{"__proto__":"[redacted]","[redacted]":{"a":"x [redacted]"}}');
});
