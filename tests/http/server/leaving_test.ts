import assert from "node:assert/strict";
import { HubError } from "../../../src/core/error.ts";
import type { ByteSource } from "../../../src/http/byte_source.ts";
import { bytesReply, type Reply, type ReplyEnd, streamReply } from "../../../src/http/reply.ts";
import { sseReply } from "../../../src/http/sse_response.ts";
import { createFakeClock, settle } from "../../support/fake_clock.ts";
import { bytesOf } from "../../providers/http1/memory_socket.ts";
import { MemoryClient, MemoryServer } from "./memory_client.ts";

const GET = bytesOf("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
const never = () => new Promise<never>(() => {});
const silent: ByteSource = { pull: never, cancel() {} };

const replies: Record<string, () => Reply | Promise<Reply>> = {
  "a source whose pull never settles": () => streamReply(silent, { contentType: "text/plain" }),
  "an event stream that is silent": () => sseReply(silent, { clock: createFakeClock() }),
  "a handler that never answers": never,
};

for (const [name, handle] of Object.entries(replies)) {
  Deno.test(`a client that leaves gives its socket back: ${name}`, async () => {
    const server = new MemoryServer(handle);
    const client = new MemoryClient();
    server.serve(client);
    client.deliver(GET);
    await settle();
    assert.equal(server.active, 1);
    client.deliver(null);
    await settle();
    assert.equal(server.active, 0);
    assert.equal(server.open.size, 0);
    assert.equal(client.closed, true);
    assert.equal(server.deadlines.size, 0);
  });
}

Deno.test("a source is not pulled for a client that left during a write", async () => {
  let pulls = 0;
  let cancels = 0;
  const ends: ReplyEnd[] = [];
  const server = new MemoryServer(() => {
    const reply = streamReply({
      pull() {
        pulls++;
        return Promise.resolve(new Uint8Array(10));
      },
      cancel: () => void cancels++,
    }, { contentType: "text/plain" });
    reply.listener = { ended: (end) => ends.push(end) };
    return reply;
  });
  const client = new MemoryClient({ delay: 1000 });
  const { ran } = server.serve(client);
  client.deliver(GET);
  for (let turn = 0; turn < 200; turn++) await Promise.resolve();
  assert.equal(pulls, 1);
  client.deliver(null);
  await ran;
  assert.deepEqual({ pulls, cancels }, { pulls: 1, cancels: 1 });
  assert.deepEqual(ends, [{ outcome: "left", bytesOut: 10 }]);
  assert.equal(client.closed, true);
});

Deno.test("a client that sends its end behind its request still gets an answer that was begun", async () => {
  const server = new MemoryServer(() => bytesReply("hello", { contentType: "text/plain" }));
  const client = new MemoryClient({ delay: 50 });
  const { ran } = server.serve(client);
  client.deliver(GET);
  client.deliver(null);
  await ran;
  assert.match(client.text, /\r\n\r\nhello$/);
  assert.equal(server.active, 0);
});

Deno.test("whoever throws when a client leaves, the request ends once and its socket is given back", async () => {
  const ends: string[] = [];
  const server = new MemoryServer((request) => {
    request.signal.addEventListener("abort", () => {
      throw new Error("a listener");
    });
    const reply = streamReply({
      pull: never,
      cancel() {
        throw new Error("a source");
      },
    }, { contentType: "text/plain" });
    reply.listener = {
      ended({ outcome }) {
        ends.push(outcome);
        throw new Error("an end");
      },
    };
    return reply;
  });
  const left = new MemoryClient();
  server.serve(left);
  left.deliver(GET);
  await settle();
  left.deliver(null);
  const cut = new MemoryClient();
  const { connection } = server.serve(cut);
  cut.deliver(GET);
  await settle();
  connection.destroy(new Error("the server stops"));
  await settle();
  assert.deepEqual(ends, ["left", "cut"]);
  assert.equal(server.active, 0);
  assert.equal(server.open.size, 0);
  assert.deepEqual([left.closed, cut.closed], [true, true]);
});

Deno.test("a server that gives up tells the handler by its signal, ends its body, and counts a cut", async () => {
  const reason = new HubError("shutting_down", "The hub stopped");
  const reasons: unknown[] = [];
  const ends: ReplyEnd[] = [];
  const server = new MemoryServer(async (request) => {
    if (request.method === "POST") {
      await request.collectBody(100).catch((error) => reasons.push(error));
      assert.equal(request.signal.aborted, true);
      assert.equal(request.left, true);
    } else {
      await new Promise<void>((resolve) => {
        request.signal.addEventListener("abort", () => resolve());
      });
    }
    reasons.push(request.signal.reason);
    const reply = bytesReply("late", { contentType: "text/plain" });
    reply.listener = { ended: (end) => ends.push(end) };
    return reply;
  });
  const post = bytesOf("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nabc");
  for (const request of [GET, post]) {
    const client = new MemoryClient();
    const { connection, ran } = server.serve(client);
    client.deliver(request);
    await settle();
    assert.equal(server.active, 1);
    connection.destroy(reason);
    await ran;
    assert.equal(client.closed, true);
    assert.equal(server.active, 0);
  }
  assert.deepEqual(reasons, [reason, reason, reason]);
  const end = { outcome: "cut", bytesOut: 0, error: reason };
  assert.deepEqual(ends, [end, end]);
});

Deno.test("a handler that waits with a body unread hears of a client that leaves in it", async () => {
  let left = false;
  const server = new MemoryServer(({ signal }) => {
    signal.addEventListener("abort", () => left = true);
    return never();
  });
  const client = new MemoryClient();
  server.serve(client);
  client.deliver(bytesOf("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nhalf"));
  await settle();
  client.deliver(null);
  await settle();
  assert.ok(left);
  assert.equal(server.active, 0);
});

Deno.test("a body that comes while a handler waits is whole when it is read", async () => {
  const turn = Promise.withResolvers<void>();
  const server = new MemoryServer(async (request) => {
    assert.equal(request.signal.aborted, false);
    await turn.promise;
    const body = await request.collectBody(1_000_000);
    return bytesReply(String(body.reduce((sum, byte) => sum + byte, 0)), {
      contentType: "text/plain",
    });
  });
  const client = new MemoryClient();
  server.serve(client);
  client.deliver(bytesOf("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 200000\r\n\r\n"));
  for (let piece = 0; piece < 20; piece++) {
    client.deliver(new Uint8Array(10_000).fill(1));
    await settle();
  }
  turn.resolve();
  await settle();
  assert.match(client.text, /\r\n\r\n200000$/);
  client.deliver(null);
  await settle();
});
