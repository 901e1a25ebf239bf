import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { createSseChunks } from "../../src/wire/sse_chunks.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";

/** A connection of a client that is written by hand: the answer to each request. */
interface Peer {
  say(message: JsonObject): Promise<JsonObject>;
  close(): void | Promise<void>;
}

const NEWEST = "2026-07-28";
const LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

const hello = (protocolVersion: string): JsonObject => ({
  method: "initialize",
  params: { protocolVersion, capabilities: {}, clientInfo: { name: "test", version: "1" } },
});
const CALL = { name: "hub_calculate", arguments: { expression: "6*7" } };

/** What comes in events, in order; `next` waits for one. */
function readEvents(body: ReadableStream<Uint8Array>) {
  const reader = body.getReader();
  const chunks = createSseChunks({ read: (event) => [event], done: false });
  const come: JsonObject[] = [];
  let text = "";
  return {
    /** The first `data` that is no JSON. */
    async endpoint(): Promise<string> {
      for (;;) {
        const found = /^data: (\/\S+)$/m.exec(text)?.[1];
        if (found !== undefined) return found;
        const { value } = await reader.read();
        assert.ok(value !== undefined);
        text += new TextDecoder().decode(value);
      }
    },
    async next(id: unknown): Promise<JsonObject> {
      for (;;) {
        const found = come.find((message) => message["id"] === id);
        if (found !== undefined) return found;
        const { value } = await reader.read();
        assert.ok(value !== undefined);
        come.push(...chunks.push(value));
      }
    },
    close: () => reader.cancel(),
  };
}

async function streamable(hub: TestHub, revision: string): Promise<Peer> {
  let session: string | null = null;
  return await Promise.resolve({
    async say(message) {
      const headers: Record<string, string> = { accept: "application/json, text/event-stream" };
      if (session !== null) {
        headers["mcp-session-id"] = session;
        headers["mcp-protocol-version"] = revision;
      }
      const answer = await hub.call("/mcp", { body: message, headers });
      session ??= answer.headers.get("mcp-session-id");
      if (message["id"] === undefined) {
        assert.equal(answer.status, 202);
        await answer.body?.cancel();
        return {};
      }
      assert.equal(answer.status, 200);
      if (answer.headers.get("content-type")?.startsWith("application/json")) {
        return await answer.json();
      }
      assert.ok(answer.body !== null);
      const events = readEvents(answer.body);
      const found = await events.next(message["id"]);
      await events.close();
      return found;
    },
    close() {},
  });
}

async function events(hub: TestHub): Promise<Peer> {
  const stream = await hub.call("/mcp/sse", { headers: { accept: "text/event-stream" } });
  assert.ok(stream.body !== null);
  const answers = readEvents(stream.body);
  const path = await answers.endpoint();
  return {
    async say(message) {
      const answer = await hub.call(path, { body: message });
      assert.equal(answer.status, 202);
      await answer.body?.cancel();
      return message["id"] === undefined ? {} : await answers.next(message["id"]);
    },
    close: () => answers.close(),
  };
}

async function socket(hub: TestHub): Promise<Peer> {
  const headers = { authorization: `Bearer ${hub.key}` };
  const url = `${hub.url.replace("http", "ws")}/mcp`;
  const socket = new WebSocket(url, { protocols: ["mcp"], headers });
  const waiting = new Map<unknown, (message: JsonObject) => void>();
  socket.addEventListener("message", ({ data }) => {
    const message: JsonObject = JSON.parse(data);
    waiting.get(message["id"])?.(message);
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  socket.addEventListener("open", () => resolve());
  socket.addEventListener("error", () => reject(new Error("The socket was refused")));
  await promise;
  return {
    async say(message) {
      const { promise, resolve } = Promise.withResolvers<JsonObject>();
      waiting.set(message["id"], resolve);
      socket.send(JSON.stringify(message));
      return message["id"] === undefined ? {} : await promise;
    },
    async close() {
      const { promise, resolve } = Promise.withResolvers<void>();
      socket.addEventListener("close", () => resolve());
      socket.close();
      await promise;
    },
  };
}

/** The transports of each revision, and those that the hub has beside. */
const TRANSPORTS = { "Streamable HTTP": streamable, "HTTP+SSE": events, WebSocket: socket };

Deno.test("the hub serves each revision that there was, over each transport", async (t) => {
  await withHub({}, async (hub) => {
    for (const [transport, connect] of Object.entries(TRANSPORTS)) {
      for (const revision of LEGACY) {
        await t.step(`${revision} over ${transport}`, async () => {
          const peer = await connect(hub, revision);
          try {
            const greeted = await peer.say({ jsonrpc: "2.0", id: 1, ...hello(revision) });
            const { protocolVersion, serverInfo } = greeted["result"] as JsonObject;
            assert.equal(protocolVersion, revision);
            assert.ok(serverInfo !== undefined);
            await peer.say({ jsonrpc: "2.0", method: "notifications/initialized" });
            const called = await peer.say({
              jsonrpc: "2.0",
              id: 2,
              method: "tools/call",
              params: CALL,
            });
            const { content } = called["result"] as { content: { text: string }[] };
            assert.match(content[0]?.text ?? "", /42/);
          } finally {
            await peer.close();
          }
        });
      }
      await t.step(`one that never was, over ${transport}`, async () => {
        const peer = await connect(hub, "2025-11-25");
        try {
          const greeted = await peer.say({ jsonrpc: "2.0", id: 1, ...hello("1999-01-01") });
          const { protocolVersion } = greeted["result"] as JsonObject;
          assert.equal(protocolVersion, "2025-11-25");
        } finally {
          await peer.close();
        }
      });
    }
    await t.step(`${NEWEST} over Streamable HTTP`, async () => {
      const meta = {
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
      };
      const answer = await hub.call("/mcp", {
        headers: {
          accept: "application/json, text/event-stream",
          "mcp-protocol-version": NEWEST,
          "mcp-method": "tools/call",
          "mcp-name": CALL.name,
        },
        body: {
          jsonrpc: "2.0",
          id: 1,
          method: "tools/call",
          params: { ...CALL, _meta: meta },
        },
      });
      assert.equal(answer.status, 200);
      assert.equal(answer.headers.get("mcp-session-id"), null);
      assert.match(await answer.text(), /\\?"result\\?":42/);
    });
  });
});
