import assert from "node:assert/strict";
import { HubError } from "../../../src/core/error.ts";
import { bytesReply, emptyReply, streamReply } from "../../../src/http/reply.ts";
import { defineRoute } from "../../../src/http/route.ts";
import { createFakeClock, settle } from "../../support/fake_clock.ts";
import { bytesOf } from "../../providers/http1/memory_socket.ts";
import { deferred, exchange, RawClient, withServer } from "../fixture.ts";
import { MemoryClient, MemoryServer } from "./memory_client.ts";

const GET = bytesOf("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
const GET_HELLO = "GET /hello HTTP/1.1\r\nhost: localhost\r\n\r\n";
const HELLO = () => bytesReply("hello", { contentType: "text/plain" });
const facts = { tag: "test", summary: "test", auth: "public" as const, responses: {} };

Deno.test("an answer that began before the server stops is its connection's last, although its head promised more", async () => {
  const release = deferred();
  let begun = 0;
  const server = new MemoryServer(() => {
    begun++;
    const pieces = ["one"];
    return streamReply({
      async pull() {
        await release.promise;
        const piece = pieces.shift();
        return piece === undefined ? null : bytesOf(piece);
      },
      cancel() {},
    }, { contentType: "text/plain", flush: true });
  });
  const clients = [new MemoryClient(), new MemoryClient()];
  const served = clients.map((client) => server.serve(client));
  clients[0]?.deliver(GET);
  clients[1]?.deliver(GET);
  clients[1]?.deliver(GET);
  await settle();
  assert.match(clients[0]?.text ?? "", /keep-alive/);
  server.stopping = true;
  for (const { connection } of served) connection.closeIfIdle();
  release.resolve();
  await settle();
  clients[1]?.deliver(null);
  await Promise.all(served.map(({ ran }) => ran));
  assert.equal(begun, 2);
  for (const client of clients) {
    assert.match(client.text, /3\r\none\r\n0\r\n\r\n$/);
    assert.equal(client.closed, true);
  }
  assert.equal(server.active, 0);
});

Deno.test("a server that is about to stop serves on, and sends each client away with its answer", async () => {
  const hello = defineRoute({ ...facts, method: "GET", path: "/hello", handle: HELLO });
  let leaving = false;
  await withServer([hello], async (server) => {
    const client = await RawClient.connect(server.port);
    try {
      await client.send(GET_HELLO);
      await client.readUntil("hello");
      assert.match(client.text, /keep-alive: timeout/);
      leaving = true;
      client.text = "";
      await client.send(GET_HELLO);
      assert.match(await client.readToEnd(), /200 OK[^]*connection: close[^]*hello$/);
    } finally {
      client.close();
    }
    assert.equal((await exchange(server, GET_HELLO)).body, "hello");
  }, { isLeaving: () => leaving });
});

Deno.test("a server that stops lets a client that was sent away read why", async () => {
  const server = new MemoryServer(HELLO);
  const client = new MemoryClient();
  const { connection } = server.serve(client);
  client.deliver(bytesOf("junk\r\n\r\n"));
  await settle();
  assert.match(client.text, /^HTTP\/1\.1 400 /);
  assert.equal(client.writesClosed, true);
  connection.closeIfIdle();
  assert.equal(client.closed, false);
  await server.clock.advance(5000);
  assert.equal(client.closed, true);
});

Deno.test("each of several calls of close ends when the answers have", async () => {
  const clock = createFakeClock();
  const entered = deferred();
  const release = deferred();
  const slow = defineRoute({
    ...facts,
    method: "GET",
    path: "/slow",
    async handle() {
      entered.resolve();
      await release.promise;
      return HELLO();
    },
  });
  await withServer([slow], async (server) => {
    const answer = exchange(server, "GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n");
    await entered.promise;
    const closings = [server.close(5000), server.close(9000)];
    await settle();
    release.resolve();
    assert.equal((await answer).body, "hello");
    assert.deepEqual(await Promise.all(closings), [{ cut: 0 }, { cut: 0 }]);
    assert.equal(clock.pending(), 0);
  }, { clock });
});

Deno.test("a client whose socket cannot be set up does not end the server", async () => {
  const hello = defineRoute({ ...facts, method: "GET", path: "/hello", handle: HELLO });
  await withServer([hello], async (server) => {
    const one = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
    one.close();
    const prototype: Deno.TcpConn = Object.getPrototypeOf(one);
    const { setNoDelay } = prototype;
    let refused = 0;
    prototype.setNoDelay = () => {
      refused++;
      throw new TypeError("Invalid argument");
    };
    try {
      const client = await RawClient.connect(server.port);
      await client.readToEnd();
      client.close();
    } finally {
      prototype.setNoDelay = setNoDelay;
    }
    assert.ok(refused >= 1);
    const request = "GET /hello HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert.equal((await exchange(server, request)).body, "hello");
  });
});

Deno.test("clients that leave before they are accepted make nobody wait, other failures pause", async () => {
  const clock = createFakeClock();
  const hello = defineRoute({ ...facts, method: "GET", path: "/hello", handle: HELLO });
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const prototype: Deno.TcpListener = Object.getPrototypeOf(listener);
  listener.close();
  const { accept } = prototype;
  const { NotConnected, ConnectionReset, ConnectionAborted } = Deno.errors;
  const failures: Error[] = [];
  for (let n = 0; n < 50; n++) {
    failures.push(new NotConnected(), new ConnectionReset(), new ConnectionAborted());
  }
  failures.push(new Error("Too many open files (os error 24)"));
  let failed = 0;
  prototype.accept = function () {
    const failure = failures[failed];
    if (failure === undefined) return accept.call(this);
    failed++;
    return Promise.reject(failure);
  };
  const request = "GET /hello HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
  try {
    await withServer([hello], async (server) => {
      await settle();
      assert.equal(failed, failures.length);
      assert.equal(clock.pending(), 1);
      await clock.advance(100);
      assert.equal((await exchange(server, request)).body, "hello");
    }, { clock });
  } finally {
    prototype.accept = accept;
  }
});

const PHASES: Record<string, { wire: string; stuck?: boolean; active?: number }> = {
  "nothing came": { wire: "" },
  "half a head": { wire: "GET / HT" },
  "half a body": {
    wire: "POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nabc",
    active: 1,
  },
  "half a chunk": {
    wire: "POST /body HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
    active: 1,
  },
  "waiting for 100 Continue": {
    wire: "POST /body HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n",
    active: 1,
  },
  "the answer is made": { wire: "GET /never HTTP/1.1\r\nhost: a\r\n\r\n", active: 1 },
  "the answer is streamed": { wire: "GET /stream HTTP/1.1\r\nhost: a\r\n\r\n", active: 1 },
  "the answer is written": {
    wire: "GET /hello HTTP/1.1\r\nhost: a\r\n\r\n",
    stuck: true,
    active: 1,
  },
  "a piece is written": { wire: "GET /flood HTTP/1.1\r\nhost: a\r\n\r\n", stuck: true, active: 1 },
  "an error is written": { wire: "junk\r\n\r\n", stuck: true },
  "idle behind an answer": { wire: "GET /hello HTTP/1.1\r\nhost: a\r\n\r\n" },
  "half a head behind an answer": { wire: "GET /hello HTTP/1.1\r\nhost: a\r\n\r\nGET" },
  "a body that nobody read": {
    wire: "GET /hello HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nabc",
  },
  "lingering": { wire: "junk\r\n\r\n" },
};
const never = () => new Promise<never>(() => {});
const EVENTS = {
  "is destroyed": "destroy",
  "is destroyed twice": "destroy twice",
  "is closed": "close",
  "is left by its client": "leave",
  "waits for ever": "wait",
} as const;

for (const [phase, { wire, stuck = false, active = 0 }] of Object.entries(PHASES)) {
  for (const [name, event] of Object.entries(EVENTS)) {
    Deno.test(`a connection that ${name} leaves nothing behind: ${phase}`, async () => {
      let ends = 0;
      const server = new MemoryServer(async (request) => {
        const options = { contentType: "text/plain" };
        let reply = HELLO();
        if (request.target === "/never") {
          await new Promise<void>((resolve) => {
            request.signal.addEventListener("abort", () => resolve());
          });
        } else if (request.target === "/stream") {
          reply = streamReply({ pull: never, cancel() {} }, { ...options, flush: true });
        } else if (request.target === "/flood") {
          const pull = () => Promise.resolve(new Uint8Array(100_000));
          reply = streamReply({ pull, cancel() {} }, options);
        } else if (request.target === "/body") {
          reply = await request.collectBody(100).then(HELLO, () => emptyReply(400));
        }
        reply.listener = { ended: () => void ends++ };
        return reply;
      });
      const client = new MemoryClient();
      client.stuck = stuck;
      const { connection, ran } = server.serve(client);
      client.deliver(bytesOf(wire));
      await settle();
      assert.equal(server.active, active);
      const reason = new HubError("shutting_down", "The hub stopped");
      if (event.startsWith("destroy")) connection.destroy(reason);
      if (event === "destroy twice") connection.destroy(reason);
      if (event === "close") connection.close();
      if (event === "leave") client.deliver(null);
      // Streams and handlers have no bound of their own: a client may wait for them for ever.
      const isEndless = event === "wait" && /made|streamed/.test(phase);
      if (isEndless) client.deliver(null);
      else if (event === "wait" || stuck) await server.clock.advance(200_000);
      if (phase !== "the answer is streamed") await ran;
      await settle();
      assert.equal(client.closed, true);
      assert.deepEqual(client.faults, []);
      assert.equal(server.active, 0);
      assert.equal(server.open.size, 0);
      assert.equal(server.deadlines.size, 0);
      const answered = /^(GET|POST) \/\w+ HTTP/.test(wire) ? 1 : 0;
      assert.equal(ends, answered);
      await server.clock.advance(200_000);
      assert.equal(server.clock.pending(), 0);
    });
  }
}
