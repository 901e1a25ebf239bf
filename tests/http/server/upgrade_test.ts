import assert from "node:assert/strict";
import { toHubError } from "../../../src/core/error.ts";
import type { HubRequest } from "../../../src/http/hub_request.ts";
import { errorReply } from "../../../src/http/on_error.ts";
import { wantsWebSocket, webSocketReply } from "../../../src/http/upgrade.ts";
import { bytesReply } from "../../../src/http/reply.ts";
import { settle } from "../../support/fake_clock.ts";
import { bytesOf } from "../../providers/http1/memory_socket.ts";
import { MemoryClient, MemoryServer } from "./memory_client.ts";

const KEY = "dGhlIHNhbXBsZSBub25jZQ==";
const FIELDS = [
  "host: localhost",
  "upgrade: websocket",
  "connection: keep-alive, Upgrade",
  "sec-websocket-version: 13",
  `sec-websocket-key: ${KEY}`,
];
const handshake = (fields = FIELDS, line = "GET / HTTP/1.1") =>
  [line, ...fields, "", ""].join("\r\n");

/** Gives back what comes in capitals, until `~`. */
function echo(request: HubRequest) {
  let over = false;
  const cancelled: unknown[] = [];
  const frames = {
    async pull() {
      if (over) return null;
      const bytes = await request.readUpgraded();
      if (bytes === null) return null;
      const text = new TextDecoder().decode(bytes);
      over = text.includes("~");
      return bytesOf(text.toUpperCase());
    },
    cancel: (reason: unknown) => void cancelled.push(reason),
  };
  return { frames, cancelled };
}

function serve(options: ConstructorParameters<typeof MemoryClient>[0] = {}) {
  const cancelled: unknown[][] = [];
  const server = new MemoryServer((request) => {
    if (!wantsWebSocket(request)) return bytesReply("plain", { contentType: "text/plain" });
    const made = echo(request);
    cancelled.push(made.cancelled);
    try {
      return webSocketReply(request, { frames: made.frames, protocol: "mcp" });
    } catch (error) {
      return errorReply(toHubError(error));
    }
  });
  const client = new MemoryClient(options);
  const { ran } = server.serve(client);
  const say = async (text: string) => {
    client.deliver(bytesOf(text));
    await settle();
  };
  const end = async () => {
    client.deliver(null);
    await ran;
    server.deadlines.close();
    assert.equal(server.active, 0);
    assert.deepEqual(client.faults, []);
  };
  return { client, server, say, end, ran, cancelled };
}

Deno.test("behind a 101 both sides speak as they like, also in the handshake's own segment", async () => {
  for (const delay of [0, 3]) {
    const { client, say, end, ran } = serve({ delay, sizes: [7] });
    await say(`${handshake()}early `);
    await say("late ");
    await say(handshake());
    await say("end~");
    await ran;
    await end();
    const [head = "", ...rest] = client.text.split("\r\n\r\n");
    assert.match(head, /^HTTP\/1\.1 101 Switching Protocols\r\n/);
    // RFC 6455, 1.3.
    assert.match(head, /\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/);
    assert.match(head, /\r\nsec-websocket-protocol: mcp\r\n/);
    assert.match(head, /\r\nconnection: upgrade$/);
    assert.doesNotMatch(head, /content-length|transfer-encoding|keep-alive/);
    assert.equal(rest.join("\r\n\r\n"), `EARLY LATE ${handshake().toUpperCase()}END~`);
    assert.ok(client.closed);
  }
});

Deno.test("a client that leaves is seen at once, whatever the sender waits for", async () => {
  const { say, end, cancelled, client } = serve();
  await say(handshake());
  await end();
  assert.equal(cancelled[0]?.length, 1);
  assert.ok(client.closed);
});

Deno.test("what is no handshake is refused, and the connection goes on", async () => {
  const without = (name: string) => FIELDS.filter((field) => !field.startsWith(name));
  const cases: [string, RegExp][] = [
    [
      handshake([...without("sec-websocket-version"), "sec-websocket-version: 8"]),
      /^HTTP\/1\.1 426 /,
    ],
    [handshake(without("sec-websocket-version")), /^HTTP\/1\.1 426 /],
    [handshake(without("sec-websocket-key")), /^HTTP\/1\.1 400 /],
    [handshake([...without("sec-websocket-key"), "sec-websocket-key: short"]), /^HTTP\/1\.1 400 /],
    [handshake([...FIELDS, "content-length: 5"]) + "hello", /^HTTP\/1\.1 400 /],
    [handshake(without("upgrade")), /^HTTP\/1\.1 200 /],
    [handshake([...without("connection"), "connection: keep-alive"]), /^HTTP\/1\.1 200 /],
    [handshake(FIELDS, "POST / HTTP/1.1"), /^HTTP\/1\.1 200 /],
  ];
  for (const [request, wanted] of cases) {
    const { client, say, end } = serve();
    await say(request);
    assert.match(client.text, wanted, request);
    await say("GET /next HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert.match(client.text, /plain$/);
    await end();
  }
});
