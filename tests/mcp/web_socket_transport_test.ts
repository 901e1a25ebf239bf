import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { parseJSONRPCMessage } from "@modelcontextprotocol/client";
import { WebSocketTransport } from "../../src/mcp/web_socket_transport.ts";
import { createFakeClock } from "../support/fake_clock.ts";

/** Takes one WebSocket and answers nothing that comes over it, its close neither, until it is let go. */
function startSilent() {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const held = Promise.withResolvers<void>();
  const serve = async () => {
    const connection = await listener.accept();
    const bytes = new Uint8Array(4096);
    const read = await connection.read(bytes) ?? 0;
    const request = new TextDecoder().decode(bytes.subarray(0, read));
    const key = /sec-websocket-key: (\S+)/i.exec(request)?.[1] ?? "";
    const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest("base64");
    const head = ["HTTP/1.1 101 Switching Protocols", "upgrade: websocket", "connection: upgrade"]
      .concat("sec-websocket-protocol: mcp", `sec-websocket-accept: ${accept}`, "", "");
    await connection.write(new TextEncoder().encode(head.join("\r\n")));
    await held.promise;
    connection.close();
    listener.close();
  };
  const served = serve();
  const { port } = listener.addr as Deno.NetAddr;
  return {
    url: `ws://127.0.0.1:${port}`,
    async letGo() {
      held.resolve();
      await served;
    },
  };
}

Deno.test("a server that does not answer a close is left all the same, and told of once", async () => {
  const server = startSilent();
  const clock = createFakeClock();
  const transport = new WebSocketTransport({
    url: server.url,
    clock,
    headers: {},
    parse: (text) => parseJSONRPCMessage(JSON.parse(text)),
    maxFrameBytes: 1024,
  });
  let closes = 0;
  const onclose = () => void closes++;
  Object.assign(transport, { onclose });
  await transport.start();
  let isClosed = false;
  const closing = transport.close().then(() => isClosed = true);
  await clock.advance(1999);
  assert.equal(isClosed, false);
  await clock.advance(1);
  await closing;
  assert.equal(closes, 1);
  await transport.close();
  await server.letGo();
  assert.equal(closes, 1);
  assert.equal(clock.pending(), 0);
});
