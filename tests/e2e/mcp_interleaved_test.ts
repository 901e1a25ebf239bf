import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { issueSecondKey } from "../support/second_key.ts";
import { INITIALIZE } from "../support/mcp_messages.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";

/** Says messages of one client whose ids are the same as everybody else's, and gives the answers. */
interface RawClient {
  ask(message: JsonObject): Promise<JsonObject>;
  close(): Promise<void>;
}

const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};
const READY = { jsonrpc: "2.0", method: "notifications/initialized" };
const accept = "application/json, text/event-stream";

/** The one message in an answer, whichever form it has. */
function messageIn(text: string): JsonObject {
  const data = /^data: (\{.*\})$/m.exec(text);
  return JSON.parse(data?.[1] ?? text);
}

async function post(hub: TestHub, key: string, message: JsonObject, more: Record<string, string>) {
  const answer = await fetch(`${hub.url}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      accept,
      ...more,
    },
    body: JSON.stringify(message),
  });
  const text = await answer.text();
  return { session: answer.headers.get("mcp-session-id") ?? "", text };
}

const TRANSPORTS: Record<string, (hub: TestHub, key: string) => Promise<RawClient>> = {
  "Streamable HTTP with sessions": async (hub, key) => {
    const { session } = await post(hub, key, INITIALIZE, {});
    const more = { "mcp-session-id": session };
    await post(hub, key, READY, more);
    return {
      ask: async (message) => messageIn((await post(hub, key, message, more)).text),
      close: async () => {},
    };
  },
  "Streamable HTTP without sessions": (hub, key) =>
    Promise.resolve({
      async ask({ params, ...message }) {
        const own = { ...params as JsonObject, _meta: META };
        const { text } = await post(hub, key, { ...message, params: own }, {
          "mcp-protocol-version": "2026-07-28",
          "mcp-method": "tools/call",
          "mcp-name": "hub_calculate",
        });
        return messageIn(text);
      },
      close: async () => {},
    }),
  "HTTP+SSE": async (hub, key) => {
    const headers = { authorization: `Bearer ${key}` };
    const left = new AbortController();
    const stream = await fetch(`${hub.url}/mcp/sse`, { headers, signal: left.signal });
    const reader = (stream.body ?? assert.fail()).pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    const next = async () => {
      while (!text.includes("\n\n")) text += (await reader.read()).value ?? assert.fail("it ended");
      const [frame = "", ...rest] = text.split("\n\n");
      text = rest.join("\n\n");
      return frame;
    };
    const [, path] = /^data: (.*)$/m.exec(await next()) ?? [];
    const say = async (message: JsonObject) => {
      const answer = await fetch(`${hub.url}${path}`, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify(message),
      });
      assert.equal(answer.status, 202);
      await answer.text();
    };
    await say(INITIALIZE);
    await next();
    await say(READY);
    return {
      async ask(message) {
        await say(message);
        return messageIn(await next());
      },
      async close() {
        left.abort();
        await reader.cancel().catch(() => {});
      },
    };
  },
  "WebSocket": async (hub, key) => {
    const socket = new WebSocket(`${hub.url.replace("http", "ws")}/mcp`, {
      headers: { authorization: `Bearer ${key}` },
      protocols: ["mcp"],
    });
    await new Promise((resolve) => socket.addEventListener("open", resolve));
    const ask = (message: JsonObject) => {
      const answer = new Promise<JsonObject>((resolve) =>
        socket.addEventListener("message", ({ data }) => resolve(JSON.parse(data)), { once: true })
      );
      socket.send(JSON.stringify(message));
      return answer;
    };
    await ask(INITIALIZE);
    socket.send(JSON.stringify(READY));
    return {
      ask,
      async close() {
        const closed = new Promise((resolve) => socket.addEventListener("close", resolve));
        socket.close();
        await closed;
      },
    };
  },
};

Deno.test("clients whose messages have the same ids at the same time get their own answers only", async (t) => {
  await withHub({}, async (hub) => {
    const other = await issueSecondKey(hub);
    for (const [name, connect] of Object.entries(TRANSPORTS)) {
      await t.step(name, async () => {
        const clients = await Promise.all(
          Array.from({ length: 12 }, (_, at) => connect(hub, at % 2 === 0 ? hub.key : other)),
        );
        for (let id = 2; id < 10; id++) {
          const answers = await Promise.all(clients.map((client, at) =>
            client.ask({
              jsonrpc: "2.0",
              id,
              method: "tools/call",
              params: { name: "hub_calculate", arguments: { expression: `${at}*1000+${id}` } },
            })
          ));
          const seen = answers.map(({ id, result }) => [
            id,
            ((result as JsonObject)?.["structuredContent"] as JsonObject)?.["result"],
          ]);
          assert.deepEqual(seen, clients.map((_, at) => [id, at * 1000 + id]));
        }
        await Promise.all(clients.map((client) => client.close()));
      });
    }
  });
});
