import assert from "node:assert/strict";
import { Server } from "@modelcontextprotocol/server";
import type { Json } from "../../../src/core/json.ts";
import { toResponse } from "../../../src/http/reply.ts";
import { McpSessions, type SessionBounds } from "../../../src/headends/mcp_server/mcp_sessions.ts";
import { createFakeClock } from "../../support/fake_clock.ts";
import { INITIALIZE } from "../../support/mcp_messages.ts";

const PING = { jsonrpc: "2.0", id: 2, method: "ping" };

function createSessions(bounds: Partial<SessionBounds> = {}) {
  const clock = createFakeClock();
  let made = 0;
  const sessions = new McpSessions({
    maxPerKey: 2,
    maxTotal: 3,
    idleMs: 1000,
    ...bounds,
    clock,
    randomBytes: (length) => new Uint8Array(length).fill(++made),
    keepAliveMs: 0,
    createServer: () => new Server({ name: "test", version: "1" }, { capabilities: { tools: {} } }),
  });
  const ask = async (
    message: Json,
    { id, key = "a", method = "POST" }: { id?: string; key?: string; method?: string } = {},
  ) => {
    const headers = new Headers({
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
    });
    if (id !== undefined) headers.set("mcp-session-id", id);
    const ends = new AbortController();
    const reply = await sessions.handle({
      request: new Request("http://localhost/mcp", { method, headers }),
      message,
      authInfo: { token: "", clientId: key, scopes: [] },
      keyId: key,
      ends: method === "GET" ? ends.signal : null,
    });
    return { response: toResponse(reply), end: () => ends.abort() };
  };
  const say = async (message: Json, options: Parameters<typeof ask>[1] = {}) => {
    const { response } = await ask(message, options);
    await response.text();
    return response;
  };
  const begin = async (key = "a") =>
    (await say(INITIALIZE, { key })).headers.get("mcp-session-id") ?? assert.fail("no session");
  return { sessions, clock, ask, say, begin };
}

Deno.test("a session is its key's alone, and ends when it is told to", async () => {
  const { sessions, say, begin } = createSessions();
  const id = await begin();
  assert.equal((await say(PING, { id })).status, 200);
  assert.equal((await say(PING, { id, key: "b" })).status, 404);
  assert.equal((await say(null, { id, key: "b", method: "DELETE" })).status, 404);
  assert.equal((await say(null, { id, method: "DELETE" })).status, 200);
  assert.equal((await say(PING, { id })).status, 404);
  assert.equal(sessions.size, 0);
  await sessions.close();
});

Deno.test("without a session only an initialization is answered", async () => {
  const { sessions, say } = createSessions();
  for (const message of [PING, [INITIALIZE], [], null, { ...INITIALIZE, params: {} }]) {
    assert.equal((await say(message)).status, 400);
  }
  assert.equal((await say(INITIALIZE, { id: "made-up" })).status, 404);
  assert.equal(sessions.size, 0);
  await sessions.close();
});

Deno.test("a session ends after silence, and an open stream is none", async () => {
  const { sessions, clock, ask, say, begin } = createSessions();
  const id = await begin();
  await clock.advance(999);
  assert.equal((await say(PING, { id })).status, 200);
  await clock.advance(999);
  const { response, end } = await ask(null, { id, method: "GET" });
  assert.equal(response.status, 200);
  const read = response.text();
  await clock.advance(10_000);
  assert.equal(sessions.size, 1);
  end();
  assert.equal(await read, "");
  await clock.advance(999);
  assert.equal(sessions.size, 1);
  await clock.advance(1);
  assert.equal(sessions.size, 0);
  assert.equal((await say(PING, { id })).status, 404);
  await sessions.close();
  assert.equal(clock.pending(), 0);
});

Deno.test("the oldest unused session of a key makes room, one in use never", async () => {
  const { sessions, ask, say, begin } = createSessions();
  const [one, two] = [await begin(), await begin()];
  assert.equal((await say(PING, { id: one })).status, 200);
  const three = await begin();
  assert.equal((await say(PING, { id: two })).status, 404);
  const streams = [];
  for (const id of [one, three]) streams.push(await ask(null, { id, method: "GET" }));
  await assert.rejects(begin(), { code: "rate_limit_exceeded" });
  await begin("b");
  await assert.rejects(begin("c"), { code: "overloaded" });
  await begin("b");
  assert.equal(sessions.size, 3);
  for (const { response, end } of streams) {
    const read = response.text();
    end();
    await read;
  }
  await begin();
  await sessions.close();
  await assert.rejects(begin("d"), { code: "shutting_down" });
});
