import assert from "node:assert/strict";
import { HttpMcpServer, startHttpMcpServer } from "./http_server.ts";
import { type McpRig, scripted, withServers } from "./rig.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { eventually } from "../support/test_hub.ts";

const CALLED = { content: [{ type: "text", text: "called" }] };

async function withRemote(
  settings: (server: HttpMcpServer) => JsonObject,
  body: (server: HttpMcpServer, rig: McpRig) => Promise<void>,
): Promise<void> {
  const server = startHttpMcpServer();
  try {
    const env = { MCP_TOKEN: "tok-of-the-server" };
    await withServers({ far: settings(server) }, (rig) => body(server, rig), { env });
  } finally {
    await server.stop();
  }
}

const headers = { authorization: "Bearer ${MCP_TOKEN}", "x-empty": "${NOTHING:-}" };
for (
  const [name, settings] of Object.entries({
    "Streamable HTTP": ({ url }: HttpMcpServer) => ({ url: `${url}/mcp`, headers }),
    "HTTP+SSE": ({ url }: HttpMcpServer) => ({ type: "sse", url: `${url}/sse`, headers }),
    "WebSocket": ({ url }: HttpMcpServer) => ({ url: `${url.replace("http", "ws")}/ws`, headers }),
  })
) {
  Deno.test(`a server is spoken to over ${name}, with its headers and nothing else of the hub's`, async () => {
    await withRemote(settings, async (server, { mcp, call, secrets, connection }) => {
      await mcp.settled(60_000);
      assert.deepEqual(connection("far").state, { kind: "ready" });
      assert.deepEqual(await call("far__good"), CALLED);
      assert.ok(server.seen.length > 0);
      for (const request of server.seen) {
        assert.equal(request.headers["authorization"], "Bearer tok-of-the-server");
        assert.equal(request.headers["x-empty"], undefined);
      }
      assert.ok(secrets.includes("tok-of-the-server"));
    });
  });
}

Deno.test("a server that only knows SSE is found out", async () => {
  await withRemote(
    ({ url }) => ({ url: `${url}/mcp` }),
    async (server, { mcp, call, connection }) => {
      server.onlySse = true;
      await mcp.settled(60_000);
      assert.deepEqual(connection("far").state, { kind: "ready" });
      assert.deepEqual(await call("far__good"), CALLED);
    },
  );
});

for (const status of [404, 400, 401]) {
  Deno.test(`a session that the server forgot (${status}) is opened anew, and the call made once more`, async () => {
    await withRemote(({ url }) => ({ url: `${url}/mcp` }), async (server, { mcp, call }) => {
      await mcp.settled(60_000);
      assert.deepEqual(await call("far__good"), CALLED);
      server.forget(status);
      server.seen.length = 0;
      assert.deepEqual(await call("far__good"), CALLED);
      const calls = server.seen.filter(({ rpc }) => rpc === "tools/call");
      const hellos = server.seen.filter(({ rpc }) => rpc === "initialize");
      assert.deepEqual([calls.length, hellos.length], [2, 1]);
    });
  });
}

for (
  const [status, kind] of [[401, "needs_auth"], [403, "needs_auth"], [500, "backoff"]] as const
) {
  Deno.test(`a server that answers ${status} stands at ${kind}`, async () => {
    await withRemote(({ url }) => ({ url: `${url}/mcp` }), async (server, { mcp, connection }) => {
      server.refuse(status, "go away");
      await mcp.settled(60_000);
      const { state } = connection("far");
      assert.equal(state.kind, kind);
      assert.match("reason" in state ? state.reason : "", new RegExp(`${status}|nauthorized`));
      server.refuse(null);
      await connection("far").connect();
      assert.deepEqual(connection("far").state, { kind: "ready" });
    });
  });
}

Deno.test("a call whose answer was cut is not made twice, unless its tool only reads", async () => {
  await withRemote(({ url }) => ({ url: `${url}/mcp` }), async (server, { mcp, call }) => {
    await mcp.settled(60_000);
    server.cutNext = true;
    server.seen.length = 0;
    await assert.rejects(call("far__good"));
    assert.equal(server.seen.filter(({ rpc }) => rpc === "tools/call").length, 1);
  });
  const effect = { "*": "pure" };
  await withRemote(({ url }) => ({ url: `${url}/mcp`, effect }), async (server, { mcp, call }) => {
    await mcp.settled(60_000);
    server.cutNext = true;
    assert.deepEqual(await call("far__good"), CALLED);
  });
});

/** A server in front of another: what comes to `/mcp` is sent there, and to any other path, within itself. */
function startRedirecting(target: string) {
  const http = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/mcp") {
      await request.body?.cancel();
      return new Response(null, { status: 307, headers: { location: `${target}/mcp` } });
    }
    if (pathname !== "/inside") {
      await request.body?.cancel();
      const location = pathname === "/round" ? "/round" : "/inside";
      return new Response(null, { status: 308, headers: { location } });
    }
    const { method, headers } = request;
    const body = method === "POST" ? await request.text() : null;
    const answer = await fetch(`${target}/mcp`, { method, headers, body });
    return new Response(answer.body, answer);
  });
  return { url: `http://127.0.0.1:${http.addr.port}`, stop: () => http.shutdown() };
}

Deno.test("what the hub sends goes to the origin that is configured, and nowhere that a server sends it", async () => {
  const elsewhere = startHttpMcpServer();
  const server = startRedirecting(elsewhere.url);
  const headers = { "x-api-key": "a key of the server" };
  try {
    for (const type of ["http", "sse"]) {
      await withServers(
        { far: { type, url: `${server.url}/mcp`, headers } },
        async ({ connection }) => {
          await connection("far").connect();
          const { state } = connection("far");
          assert.match("reason" in state ? state.reason : "", /http:\/\/127.*not followed/);
          assert.deepEqual(elsewhere.seen, []);
        },
      );
    }
    await withServers({ far: { url: `${server.url}/round`, headers } }, async ({ connection }) => {
      await connection("far").connect();
      const { state } = connection("far");
      assert.match("reason" in state ? state.reason : "", /edirect/);
    });
    const moved = { far: { url: `${server.url}/old`, headers } };
    await withServers(moved, async ({ mcp, call, connection }) => {
      await mcp.settled(60_000);
      assert.deepEqual(connection("far").state, { kind: "ready" });
      assert.deepEqual(await call("far__good"), CALLED);
      assert.equal(elsewhere.seen[0]?.headers["x-api-key"], "a key of the server");
    });
  } finally {
    await server.stop();
    await elsewhere.stop();
  }
});

const REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

Deno.test("a server is spoken to in its own revision, over each transport", async (t) => {
  const remote = startHttpMcpServer();
  const tools = [{ name: "good", inputSchema: { type: "object" } }];
  try {
    for (const revision of [...REVISIONS, "1999-01-01"]) {
      remote.revision = revision;
      const transports = {
        stdio: scripted({ tools, revision }),
        http: { type: "http", url: `${remote.url}/mcp` },
        sse: { type: "sse", url: `${remote.url}/sse` },
        ws: { url: `${remote.url.replace("http", "ws")}/ws` },
      };
      for (const [transport, settings] of Object.entries(transports)) {
        await t.step(`${revision} over ${transport}`, async () => {
          remote.seen.length = 0;
          await withServers({ far: settings }, async ({ mcp, call, connection }) => {
            await mcp.settled(60_000);
            const { state } = connection("far");
            if (!REVISIONS.includes(revision)) {
              assert.match("reason" in state ? state.reason : "", /1999-01-01/);
              return;
            }
            assert.deepEqual(state, { kind: "ready" });
            const { content } = await call("far__good");
            assert.equal(content.length, 1);
            if (transport !== "http") return;
            const called = remote.seen.find(({ rpc }) => rpc === "tools/call");
            assert.equal(called?.headers["mcp-protocol-version"], revision);
          });
        });
      }
    }
  } finally {
    await remote.stop();
  }
});

Deno.test("a stream that its server ends in order is opened anew after a wait, and listed again", async () => {
  const server = startHttpMcpServer();
  const far = { type: "sse", url: `${server.url}/sse`, trust: true };
  try {
    await withServers({ far }, async ({ mcp, call, connection }) => {
      await mcp.settled(60_000);
      assert.deepEqual(mcp.tools.map(({ name }) => name), ["far__good"]);
      server.tools = [...server.tools, { name: "more", inputSchema: { type: "object" } }];
      server.endStreams();
      const state = await eventually(() =>
        connection("far").state.kind === "backoff" ? connection("far").state : null
      );
      assert.ok(state.kind === "backoff");
      assert.equal(state.failures, 1);
      await eventually(() => mcp.tools.length === 2 || null);
      assert.deepEqual(connection("far").state, { kind: "ready" });
      assert.deepEqual(await call("far__more"), CALLED);
    }, { random: () => 0 });
  } finally {
    await server.stop();
  }
});

Deno.test("a server that never answers the probe is spoken to as those before it, and not probed again", async () => {
  await withRemote(({ url }) => ({ url: `${url}/mcp` }), async (server, rig) => {
    const { mcp, call, connection } = rig;
    server.hangsAt = "server/discover";
    await mcp.settled(60_000);
    assert.deepEqual(connection("far").state, { kind: "ready" });
    assert.deepEqual(await call("far__good"), CALLED);
    connection("far").rest();
    assert.deepEqual(await call("far__good"), CALLED);
    const probes = server.seen.filter(({ rpc }) => rpc === "server/discover");
    const hellos = server.seen.filter(({ rpc }) => rpc === "initialize");
    assert.deepEqual([probes.length, hellos.length], [1, 2]);
  });
});
