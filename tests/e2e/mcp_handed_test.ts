import assert from "node:assert/strict";
import type { Json } from "../../src/core/json.ts";
import { chatStream } from "../support/scripted_upstream.ts";
import { eventually, type TestHub } from "../support/test_hub.ts";
import { PROVIDER_KEY, type RecorderRig, withRecorder } from "../support/mcp_recorder.ts";

const HTTP = "http-canary-7f3a9c1e";
const SSE = "Basic c3NlLWNhbmFyeS01ZDJi";
const WS = "ws-canary-aa41b7d0";
const OTHER = "other-canary-99e1f2aa";

interface Said {
  text: string;
  runId: string;
  status: number;
}

async function say(
  { said }: RecorderRig,
  hub: TestHub,
  { body = {}, headers = {} }: {
    body?: Record<string, Json>;
    headers?: Record<string, string>;
  } = {},
): Promise<Said> {
  const session = await (await hub.call("/v1/sessions", { body: {} })).json();
  const answer = await hub.call(`/v1/sessions/${session.id}/messages`, {
    body: { text: "Go", ...body },
    headers,
  });
  const text = await answer.text();
  said.push(text, JSON.stringify([...answer.headers]));
  return { text, runId: answer.headers.get("x-loophub-run") ?? "", status: answer.status };
}

/** The model calls these tools, in one step, and then says a word. */
function callsOnce({ upstream }: RecorderRig, ...names: string[]): void {
  upstream.script([
    chatStream({ toolCalls: names.map((name) => ({ name, arguments: {} })) }),
    chatStream({ text: "Done." }),
  ]);
}

const authorizationsAt = ({ recorder }: RecorderRig, path: RegExp) => [
  ...new Set(
    recorder.seen.filter((seen) => path.test(seen.path)).map(({ headers }) =>
      headers["authorization"] ?? null
    ),
  ),
];

async function assertNowhere(rig: RecorderRig, secrets: readonly string[]): Promise<void> {
  for (const [place, text] of Object.entries(await rig.places())) {
    for (const secret of secrets) {
      const at = text.indexOf(secret);
      assert.ok(at < 0, `a secret in ${place}: ${text.slice(Math.max(0, at - 200), at + 60)}`);
    }
  }
}

Deno.test("a run's credentials go to their servers alone, over all transports, and are kept nowhere", async () => {
  await withRecorder(async (rig) => {
    const { first, recorder } = rig;
    recorder.seen.length = 0;
    callsOnce(rig, "http__good", "sse__good", "ws__good", "prog__show");
    const { text, status } = await say(rig, first, {
      headers: { "X-MCP-Auth-HTTP": HTTP, "x-mcp-auth-sse": SSE },
      body: { mcpAuth: { ws: WS } },
    });
    assert.equal(status, 200);
    assert.match(text, /Done\./);
    assert.equal(text.match(/"type":"tool-output-available"/g)?.length, 4, text);
    // The servers said what came to them, and the hub took it out.
    assert.match(text, /x-own.*configured/);
    assert.match(text, /\[redacted\]/);
    assert.deepEqual(authorizationsAt(rig, /^\/$/), [`Bearer ${HTTP}`]);
    assert.deepEqual(authorizationsAt(rig, /^\/(sse|messages)$/), [SSE]);
    assert.deepEqual(authorizationsAt(rig, /^\/ws$/), [`Bearer ${WS}`]);

    // Its connections were its own: another run has none of it, nor does one beside it that has others.
    recorder.seen.length = 0;
    callsOnce(rig, "http__good", "sse__good", "ws__good");
    assert.match((await say(rig, first)).text, /Done\./);
    assert.deepEqual(authorizationsAt(rig, /./), [null]);
    recorder.seen.length = 0;
    callsOnce(rig, "http__good");
    await say(rig, first, { headers: { "x-mcp-auth-http": OTHER } });
    assert.deepEqual(authorizationsAt(rig, /^\/$/), [`Bearer ${OTHER}`]);

    const { db } = first.hub.start;
    const calls = await eventually(async () => {
      const rows = await db.read`
        select server, tool, key, run is not null as runs, handed, args_hash, outcome, bytes_in::int, bytes_out > 20 as some
        from hub.mcp_activity order by called_at, server`;
      return rows.length === 8 ? rows : null;
    });
    assert.deepEqual(
      calls.map(({ server, tool, handed }) => [server, tool, handed]).sort(),
      [
        ["http", "good", false],
        ["http", "good", true],
        ["http", "good", true],
        ["prog", "show", false],
        ["sse", "good", false],
        ["sse", "good", true],
        ["ws", "good", false],
        ["ws", "good", true],
      ],
    );
    for (const { key, runs, args_hash, outcome, bytes_in, some } of calls) {
      assert.match(String(key), /^key_/);
      assert.deepEqual([runs, outcome, bytes_in], [true, "succeeded", 2]);
      assert.match(String(args_hash), /^[0-9a-f]{16}$/);
      assert.equal(typeof some, "boolean");
    }

    // Neither a key of the hub nor that of a provider has ever come to a server.
    const seen = JSON.stringify(recorder.seen);
    for (const secret of [first.key, PROVIDER_KEY]) assert.ok(!seen.includes(secret));
    await assertNowhere(rig, [HTTP, "c3NlLWNhbmFyeS01ZDJi", WS, OTHER]);
  });
});

Deno.test("a program gets nothing of the hub's environment, nor of keys and credentials", async () => {
  const canary = "LOOPHUB_ENVIRONMENT_CANARY";
  Deno.env.set(canary, OTHER);
  try {
    await withRecorder(async (rig) => {
      const { first, upstream } = rig;
      upstream.script([
        chatStream({ toolCalls: [{ name: "prog__show", arguments: { env: true } }] }),
        chatStream({ text: "Done." }),
      ]);
      const { text } = await say(rig, first, { headers: { "x-mcp-auth-http": HTTP } });
      const [shown = ""] = /\{[^{]*LOOPHUB_CHILD[^}]*\}/.exec(text) ?? [];
      const names = [...shown.matchAll(/"([A-Za-z_]+)\\*":/g)].map(([, name]) => name);
      const ofShellAndRuntime = ["PATH", "PWD", "SHLVL", "_", "OLDPWD", "DENO_NODE_SHIM_ACTIVE"];
      const given = names.filter((name) => !ofShellAndRuntime.includes(name ?? "")).sort();
      assert.deepEqual(given, ["DENO_DIR", "DENO_NO_UPDATE_CHECK", "LOOPHUB_CHILD", "NO_COLOR"]);
      for (const secret of [canary, OTHER, first.key, PROVIDER_KEY, HTTP]) {
        assert.ok(!text.includes(secret));
      }
    });
  } finally {
    Deno.env.delete(canary);
  }
});

Deno.test("a server that refuses a credential, and says it, is told of without it", async () => {
  await withRecorder(async (rig) => {
    const { first, recorder } = rig;
    recorder.wants = `Bearer ${OTHER}`;
    callsOnce(rig, "http__good");
    const { text } = await say(rig, first, { headers: { "x-mcp-auth-http": HTTP } });
    assert.match(text, /tool-output-error.*needs_auth.*x-mcp-auth-http/);
    await assertNowhere(rig, [HTTP]);
  });
});

Deno.test("credentials for no server, for a program, twice, or of a wrong form are a 400 without what came", async () => {
  await withRecorder(async (rig) => {
    const { first, said } = rig;
    const wrong: {
      headers?: Record<string, string>;
      body?: Record<string, Json>;
      wants: RegExp;
    }[] = [
      { headers: { "x-mcp-auth-nobody": HTTP }, wants: /no MCP server.*nobody.*http,sse,ws/ },
      { headers: { "x-mcp-auth-prog": HTTP }, wants: /a program/ },
      {
        headers: { "x-mcp-auth-http": HTTP },
        body: { mcpAuth: { http: WS } },
        wants: /more than once/,
      },
      { headers: { "x-mcp-auth-http": "short" }, wants: /8 to 8192/ },
      { body: { mcpAuth: { http: 12345678901 } }, wants: /no text/ },
      { body: { mcpAuth: HTTP }, wants: /no object/ },
    ];
    for (const { wants, ...asked } of wrong) {
      const { text, status } = await say(rig, first, asked);
      assert.equal(status, 400, text);
      assert.match(text, wants);
    }
    const chat = await first.call("/api/chat", {
      headers: { "x-mcp-auth-nobody": HTTP },
      body: {
        id: "c1",
        messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "Go" }] }],
      },
    });
    assert.equal(chat.status, 400);
    said.push(await chat.text());
    const mcp = await first.call("/mcp", {
      headers: { "x-mcp-auth-nobody": HTTP, accept: "application/json, text/event-stream" },
      body: { jsonrpc: "2.0", id: 1, method: "tools/list" },
    });
    assert.equal(mcp.status, 400);
    said.push(await mcp.text());
    await assertNowhere(rig, [HTTP, WS]);
  });
});

Deno.test("/api/chat and calls over /mcp take credentials; proxied requests send them nowhere", async () => {
  await withRecorder(async (rig) => {
    const { first, recorder, upstream, said } = rig;
    recorder.seen.length = 0;
    callsOnce(rig, "http__good");
    const chat = await first.call("/api/chat", {
      body: {
        id: "c1",
        messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "Go" }] }],
        mcpAuth: { http: HTTP },
      },
    });
    const streamed = await chat.text();
    assert.match(streamed, /Done\./);
    said.push(streamed);
    assert.deepEqual(authorizationsAt(rig, /^\/$/), [`Bearer ${HTTP}`]);

    recorder.seen.length = 0;
    const rpc = async (method: string, params: Json) => {
      const answer = await first.call("/mcp", {
        headers: {
          "x-mcp-auth-http": OTHER,
          accept: "application/json, text/event-stream",
          "mcp-protocol-version": "2026-07-28",
          "mcp-method": method,
          ...method === "tools/call" ? { "mcp-name": "http__good" } : {},
        },
        body: {
          jsonrpc: "2.0",
          id: 1,
          method,
          params: {
            ...params as object,
            _meta: {
              "io.modelcontextprotocol/protocolVersion": "2026-07-28",
              "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
              "io.modelcontextprotocol/clientCapabilities": {},
            },
          },
        },
      });
      const text = await answer.text();
      said.push(text);
      return text;
    };
    assert.match(await rpc("tools/call", { name: "http__good", arguments: {} }), /\[redacted\]/);
    assert.deepEqual(authorizationsAt(rig, /^\/$/), [`Bearer ${OTHER}`]);
    assert.match(await rpc("tools/list", {}), /http__good/);
    const { db } = first.hub.start;
    const rows = await eventually(async () => {
      const rows = await db.read`select handed, run from hub.mcp_activity order by called_at`;
      return rows.length === 2 ? rows : null;
    });
    assert.deepEqual(rows.map(({ handed, run }) => [handed, run === null]), [[true, false], [
      true,
      true,
    ]]);

    upstream.script(chatStream({ text: "Hi" }));
    const proxied = await first.call("/v1/chat/completions", {
      headers: { "x-mcp-auth-http": WS },
      body: { model: "one/m", stream: true, messages: [{ role: "user", content: "Hi" }] },
    });
    assert.equal(proxied.status, 200);
    said.push(await proxied.text());
    const last = JSON.stringify(upstream.requests.at(-1));
    assert.ok(!last.includes(WS) && !/x-mcp-auth/i.test(last));
    await assertNowhere(rig, [HTTP, OTHER, WS]);
  });
});

Deno.test("a run that waits goes on with its credentials here, and asks for them anew elsewhere", async () => {
  await withRecorder(async (rig) => {
    const { first, second, recorder, said } = rig;
    const decide = async (hub: TestHub, runId: string, headers: Record<string, string> = {}) => {
      const { data: approvals } = await (await first.call(`/v1/runs/${runId}/approvals`)).json();
      const answer = await hub.call(`/v1/runs/${runId}/approvals/${approvals[0].id}`, {
        body: { approved: true },
        headers,
      });
      said.push(await answer.text());
      return answer.status;
    };
    const end = async (runId: string) =>
      await eventually(async () => {
        const text = await (await second.call(`/v1/runs/${runId}/stream`)).text();
        return text.includes('"finishReason":"stop"') ? text : null;
      });
    const begin = async () => {
      recorder.seen.length = 0;
      callsOnce(rig, "http__good");
      const session = await (await first.call("/v1/sessions", { body: { agent: "asks" } })).json();
      const answer = await first.call(`/v1/sessions/${session.id}/messages`, {
        body: { text: "Go" },
        headers: { "x-mcp-auth-http": HTTP },
      });
      const runId = answer.headers.get("x-loophub-run") ?? "";
      await answer.body?.cancel();
      await eventually(async () => {
        const run = await (await first.call(`/v1/runs/${runId}`)).json();
        return run.status === "waiting" || null;
      });
      return runId;
    };
    // Whoever answers hands it over again, with another value; wherever the answer comes, it is there.
    const one = await begin();
    assert.equal(await decide(second, one, { "x-mcp-auth-sse": SSE }), 400);
    assert.equal(await decide(second, one, { "x-mcp-auth-http": OTHER }), 200);
    const text = await end(one);
    said.push(text);
    const calls = recorder.seen.filter(({ rpc }) => rpc === "tools/call");
    assert.equal(calls.length, 1);
    assert.ok(
      [`Bearer ${HTTP}`, `Bearer ${OTHER}`].includes(calls[0]?.headers["authorization"] ?? ""),
    );

    // The replica that had it is gone.
    const two = await begin();
    await first.close();
    const { data: approvals } = await (await second.call(`/v1/runs/${two}/approvals`)).json();
    const answer = await second.call(`/v1/runs/${two}/approvals/${approvals[0].id}`, {
      body: { approved: true },
    });
    said.push(await answer.text());
    const failed = await end(two);
    said.push(failed);
    assert.match(failed, /tool-output-error.*needs_auth.*x-mcp-auth-http/);
    assert.equal(recorder.seen.filter(({ rpc }) => rpc === "tools/call").length, 0);
    const { db } = second.hub.start;
    const rows = await db.read`select distinct handed_servers from hub.runs`;
    assert.deepEqual(rows.map(({ handed_servers }) => handed_servers), [["http"]]);
  });
});
