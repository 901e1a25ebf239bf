import assert from "node:assert/strict";
import { Type } from "@sinclair/typebox";
import { HubError } from "../../src/core/error.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import type { CallEnd } from "../../src/http/call.ts";
import { bytesReply, emptyReply, jsonReply, streamReply } from "../../src/http/reply.ts";
import { defineRoute } from "../../src/http/route.ts";
import { startServer } from "../../src/http/server/server.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { eventually, tookUnder } from "../support/test_hub.ts";
import { deferred, exchange, RawClient, REAL_CLOCK, withServer } from "./fixture.ts";

const facts = { tag: "test", summary: "test", auth: "public" as const, responses: {} };
const echo = defineRoute({
  ...facts,
  method: "POST",
  path: "/echo",
  body: "raw",
  maxBodyBytes: 1000,
  async handle(call) {
    const bytes = await call.readBody();
    return bytesReply(bytes, { contentType: "text/plain" });
  },
});
const hello = defineRoute({
  ...facts,
  method: "GET",
  path: "/hello",
  handle: () => bytesReply("hello", { contentType: "text/plain" }),
});
const HEAD = "host: localhost\r\n";
const CLOSE = `${HEAD}connection: close\r\n`;
const errorCode = (body: string) => JSON.parse(body).error.code as string;

Deno.test("a client that leaves before the head, its body in a later segment, is seen at once", () =>
  tookUnder(250, leaveBeforeHead));

/** Gives how long it took until the handler knew. */
async function leaveBeforeHead(): Promise<number> {
  let tookMs = NaN;
  const bodyRead = deferred();
  const left = deferred<number>();
  const ended = deferred<CallEnd>();
  const route = defineRoute({
    ...facts,
    method: "POST",
    path: "/slow",
    body: "raw",
    async handle(call) {
      await call.readBody();
      call.onEnd((end) => ended.resolve(end));
      const gone = deferred();
      call.signal.addEventListener("abort", () => gone.resolve());
      bodyRead.resolve();
      await gone.promise;
      left.resolve(performance.now());
      assert.equal(call.left, true);
      assert.equal((call.signal.reason as HubError).code, "client_closed");
      return emptyReply();
    },
  });
  await withServer([route], async (server) => {
    const client = await RawClient.connect(server.port);
    await client.send(`POST /slow HTTP/1.1\r\n${HEAD}content-length: 20\r\n\r\n`);
    await client.send("x".repeat(20));
    await bodyRead.promise;
    assert.equal(server.active(), 1);
    const closedMs = performance.now();
    client.close();
    tookMs = await left.promise - closedMs;
    assert.equal((await ended.promise).outcome, "left");
    assert.equal(server.active(), 0);
  });
  return tookMs;
}

Deno.test("a client that leaves while its body is awaited ends the reading", async () => {
  const failed = deferred<unknown>();
  const reading = deferred();
  const route = defineRoute({
    ...facts,
    method: "POST",
    path: "/body",
    body: "raw",
    async handle(call) {
      reading.resolve();
      await call.readBody().catch((error) => failed.resolve(error));
      return emptyReply();
    },
  });
  await withServer([route], async (server) => {
    const client = await RawClient.connect(server.port);
    await client.send(`POST /body HTTP/1.1\r\n${HEAD}content-length: 20\r\n\r\nabc`);
    await reading.promise;
    client.close();
    assert.equal((await failed.promise as HubError).code, "client_closed");
  });
});

Deno.test("a pipelined request is begun when the one before it is answered, and never for a client that left", async () => {
  const begun: string[] = [];
  const entered = deferred();
  const left = deferred();
  const route = defineRoute({
    ...facts,
    method: "GET",
    path: "/wait/:n",
    params: Type.Object({ n: Type.String() }),
    async handle(call) {
      begun.push(call.params.n);
      const gone = deferred();
      call.signal.addEventListener("abort", () => gone.resolve());
      entered.resolve();
      await gone.promise;
      left.resolve();
      return emptyReply();
    },
  });
  await withServer([route], async (server) => {
    const client = await RawClient.connect(server.port);
    await client.send(
      `GET /wait/1 HTTP/1.1\r\n${HEAD}\r\nGET /wait/2 HTTP/1.1\r\n${HEAD}\r\n`,
    );
    await entered.promise;
    client.close();
    await left.promise;
    await server.close(0);
    assert.deepEqual(begun, ["1"]);
  });
});

Deno.test("2000 whole answers give no false abort", async () => {
  let aborts = 0;
  const outcomes: Record<string, number> = {};
  const route = defineRoute({
    ...facts,
    method: "POST",
    path: "/ok",
    body: "raw",
    async handle(call) {
      call.signal.addEventListener("abort", () => aborts++);
      call.onEnd(({ outcome }) => outcomes[outcome] = (outcomes[outcome] ?? 0) + 1);
      await call.readBody();
      return jsonReply({ ok: true });
    },
  });
  await withServer([route], async (server) => {
    const client = async (count: number) => {
      for (let n = 0; n < count; n++) {
        const response = await fetch(`${server.url}/ok`, { method: "POST", body: "{}" });
        assert.deepEqual(await response.json(), { ok: true });
      }
    };
    await Promise.all(Array.from({ length: 10 }, () => client(200)));
    await server.close(1000);
  });
  assert.equal(aborts, 0);
  assert.deepEqual(outcomes, { done: 2000 });
});

Deno.test("pipelined requests are answered in order, and a connection serves many", async () => {
  await withServer([echo, hello], async (server) => {
    const { text } = await exchange(
      server,
      `POST /echo HTTP/1.1\r\n${HEAD}content-length: 3\r\n\r\none` +
        `GET /hello HTTP/1.1\r\n${HEAD}\r\n` +
        `POST /echo HTTP/1.1\r\n${CLOSE}transfer-encoding: chunked\r\n\r\n2\r\ntw\r\n1\r\no\r\n0\r\n\r\n`,
    );
    const bodies = [...text.matchAll(/\r\n\r\n(one|hello|two)/g)].map((match) => match[1]);
    assert.deepEqual(bodies, ["one", "hello", "two"]);
  });
});

Deno.test("slow headers and slow bodies are ended with 408", async () => {
  await withServer([echo], async (server) => {
    const [header, body] = await Promise.all([
      exchange(server, "POST /echo HTTP/1.1\r\nhos"),
      exchange(server, `POST /echo HTTP/1.1\r\n${HEAD}content-length: 100\r\n\r\nabc`),
    ]);
    for (const { status, body: text } of [header, body]) {
      assert.equal(status, 408);
      assert.equal(errorCode(text), "request_timeout");
    }
  }, { limits: { headersTimeoutMs: 2000, requestTimeoutMs: 2000 } });
});

Deno.test("an idle connection is closed", async () => {
  await withServer([hello], async (server) => {
    const client = await RawClient.connect(server.port);
    await client.send(`GET /hello HTTP/1.1\r\n${HEAD}\r\n`);
    await client.readToEnd();
    client.close();
    assert.equal(client.end, "eof");
    assert.ok(client.text.endsWith("hello"));
  }, { limits: { idleTimeoutMs: 100 } });
});

const TOO_LARGE = `POST /echo HTTP/1.1\r\n${HEAD}content-length: 200000000\r\n\r\n`;

Deno.test("a declared body past the cap gets 413 at once, and the connection stays usable behind it", async () => {
  await withServer([echo], async (server) => {
    const client = await RawClient.connect(server.port);
    await client.send(`POST /echo HTTP/1.1\r\n${HEAD}content-length: 200000\r\n\r\n`);
    const first = await client.readUntil("}}");
    assert.match(first, /^HTTP\/1\.1 413 /);
    assert.match(first, /"code":"body_too_large"/);
    assert.match(first, /x-should-retry: false/i);
    assert.equal(server.active(), 0);
    await client.send("x".repeat(200_000));
    client.text = "";
    await client.send(`POST /echo HTTP/1.1\r\n${CLOSE}content-length: 2\r\n\r\nok`);
    assert.match(await client.readToEnd(), /^HTTP\/1\.1 200 [\s\S]*\r\n\r\nok$/);
    client.close();
  });
});

Deno.test("a client that sends its whole body before it reads finds the 413", async () => {
  await withServer([echo], async (server) => {
    const body = "x".repeat(20_000_000);
    const { status, end } = await exchange(
      server,
      `POST /echo HTTP/1.1\r\n${HEAD}content-length: ${body.length}\r\n\r\n${body}`,
    );
    assert.deepEqual({ status, end }, { status: 413, end: "eof" });
  });
});

Deno.test("after a 413 a client that sends no more is let go after five seconds", async () => {
  const clock = createFakeClock();
  await withServer([echo], async (server) => {
    const client = await RawClient.connect(server.port);
    await client.send(`${TOO_LARGE}xxx`);
    const first = await client.readUntil("}}");
    await clock.advance(4999);
    assert.equal(server.connections(), 1);
    await clock.advance(1);
    assert.equal(await client.readToEnd(), first);
    assert.equal(client.end, "eof");
    client.close();
  }, { clock });
});

Deno.test("after a 413 a client that sends for ever is cut off", async () => {
  await withServer([echo], async (server) => {
    const client = await RawClient.connect(server.port);
    await client.send(TOO_LARGE);
    assert.match(await client.readUntil("}}"), /^HTTP\/1\.1 413 /);
    const piece = new Uint8Array(1024 * 1024);
    let pieces = 0;
    await assert.rejects(async () => {
      for (; pieces < 150; pieces++) await client.send(piece);
    });
    assert.ok(pieces >= 64, `${pieces} MiB`);
    client.close();
  });
});

Deno.test("a client that leaves after a 413 leaves nothing behind", async () => {
  const clock = createFakeClock();
  await withServer([echo], async (server) => {
    const client = await RawClient.connect(server.port);
    await client.send(TOO_LARGE);
    await client.readUntil("}}");
    client.close();
    await eventually(() => Promise.resolve(server.connections() === 0 || null));
    assert.equal(server.active(), 0);
  }, { clock });
});

Deno.test("a chunked body past the cap gets 413, which a client that sends on can read", async () => {
  await withServer([echo], async (server) => {
    const client = await RawClient.connect(server.port);
    const chunk = `4000\r\n${"x".repeat(0x4000)}\r\n`;
    await client.send(
      `POST /echo HTTP/1.1\r\n${CLOSE}transfer-encoding: chunked\r\n\r\n${
        chunk.repeat(20)
      }0\r\n\r\n`,
    );
    assert.match(await client.readToEnd(), /^HTTP\/1\.1 413 [\s\S]*body_too_large/);
    client.close();
  });
});

Deno.test("header floods get 431, also when each field is small", async () => {
  await withServer([hello], async (server) => {
    const many = Array.from({ length: 1000 }, (_, n) => `h${n}: 1\r\n`).join("");
    const large = `big: ${"a".repeat(20_000)}\r\n`;
    for (const fields of [many, large]) {
      const { status, body } = await exchange(
        server,
        `GET /hello HTTP/1.1\r\n${CLOSE}${fields}\r\n`,
      );
      assert.equal(status, 431);
      assert.equal(errorCode(body), "headers_too_large");
    }
    const fine = Array.from({ length: 90 }, (_, n) => `h${n}: 1\r\n`).join("");
    assert.equal(
      (await exchange(server, `GET /hello HTTP/1.1\r\n${CLOSE}${fine}\r\n`)).status,
      200,
    );
  });
});

Deno.test("what two parsers could read in two ways is refused", async () => {
  const hostile = {
    "length and chunks":
      `POST /echo HTTP/1.1\r\n${HEAD}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
    "two lengths":
      `POST /echo HTTP/1.1\r\n${HEAD}content-length: 3\r\ncontent-length: 5\r\n\r\nabcde`,
    "bare line feeds": "GET /hello HTTP/1.1\nhost: localhost\n\n",
    "junk": "\x00\x01\x02 junk\r\n\r\n",
    "a space before the colon": `GET /hello HTTP/1.1\r\nhost : localhost\r\n\r\n`,
    "no Host": "GET /hello HTTP/1.1\r\nconnection: close\r\n\r\n",
    "two Hosts": `GET /hello HTTP/1.1\r\n${CLOSE}host: localhost\r\n\r\n`,
    "absolute form": `GET http://evil/hello HTTP/1.1\r\n${CLOSE}\r\n`,
    "asterisk form": `OPTIONS * HTTP/1.1\r\n${CLOSE}\r\n`,
  };
  await withServer([echo, hello], async (server) => {
    for (const [name, request] of Object.entries(hostile)) {
      const { status, body } = await exchange(server, request);
      assert.equal(status, 400, name);
      assert.equal(JSON.parse(body).error.type, "invalid_request_error", name);
    }
    assert.equal(server.active(), 0);
  });
});

Deno.test("junk behind a request that is being answered is told after the answer, not into it", async () => {
  const entered = deferred();
  const release = deferred();
  const route = defineRoute({
    ...facts,
    method: "GET",
    path: "/wait",
    async handle() {
      entered.resolve();
      await release.promise;
      return bytesReply("whole", { contentType: "text/plain" });
    },
  });
  await withServer([route], async (server) => {
    const client = await RawClient.connect(server.port);
    await client.send(`GET /wait HTTP/1.1\r\n${HEAD}\r\n`);
    await entered.promise;
    await client.send("\x00\x01 junk\r\n\r\n");
    release.resolve();
    const text = await client.readToEnd();
    assert.match(text, /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\nwholeHTTP\/1\.1 400 Bad Request\r\n/);
    assert.equal(client.end, "eof");
    client.close();
  });
});

Deno.test("HTTP/1.0 is served without chunks and without a Host", async () => {
  const stream = defineRoute({
    ...facts,
    method: "GET",
    path: "/stream",
    handle() {
      const pieces = ["one ", "two"].map((text) => new TextEncoder().encode(text));
      return streamReply(
        { pull: () => Promise.resolve(pieces.shift() ?? null), cancel() {} },
        { contentType: "text/plain" },
      );
    },
  });
  await withServer([hello, stream], async (server) => {
    const whole = await exchange(server, "GET /hello HTTP/1.0\r\n\r\n");
    assert.equal(whole.body, "hello");
    const streamed = await exchange(server, "GET /stream HTTP/1.0\r\n\r\n");
    assert.equal(streamed.body, "one two");
    assert.equal(streamed.end, "eof");
    assert.doesNotMatch(streamed.text, /transfer-encoding/i);
    const chunked = await exchange(server, `GET /stream HTTP/1.1\r\n${CLOSE}\r\n`);
    assert.match(chunked.body, /^4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n$/);
  });
});

Deno.test("HEAD has the head of GET and no body; 204 has no length", async () => {
  const none = defineRoute({ ...facts, method: "DELETE", path: "/it", handle: () => emptyReply() });
  await withServer([hello, none], async (server) => {
    const head = await exchange(server, `HEAD /hello HTTP/1.1\r\n${CLOSE}\r\n`);
    assert.match(head.text, /^HTTP\/1\.1 200 /);
    assert.match(head.text, /content-length: 5/i);
    assert.equal(head.body, "");
    const empty = await exchange(server, `DELETE /it HTTP/1.1\r\n${CLOSE}\r\n`);
    assert.match(empty.text, /^HTTP\/1\.1 204 /);
    assert.doesNotMatch(empty.text, /content-length|transfer-encoding/i);
  });
});

Deno.test("Expect: 100-continue is granted when the body is read, and not past the cap", async () => {
  await withServer([echo], async (server) => {
    const client = await RawClient.connect(server.port);
    const expect = `${HEAD}expect: 100-continue\r\n`;
    await client.send(
      `POST /echo HTTP/1.1\r\n${expect}content-length: 2\r\nconnection: close\r\n\r\n`,
    );
    await client.readUntil("100 Continue\r\n\r\n");
    await client.send("ok");
    assert.match(await client.readToEnd(), /HTTP\/1\.1 200 [\s\S]*\r\n\r\nok$/);
    client.close();
    const refused = await exchange(
      server,
      `POST /echo HTTP/1.1\r\n${expect}content-length: 20000\r\n\r\n`,
    );
    assert.equal(refused.status, 413);
    assert.match(refused.text, /connection: close/i);
    assert.equal(refused.end, "eof");
  });
});

for (const version of ["1.0", "1.1"]) {
  Deno.test(`a body that fails breaks the connection (HTTP/${version})`, async () => {
    const ended = deferred<CallEnd>();
    const route = defineRoute({
      ...facts,
      method: "GET",
      path: "/cut",
      handle(call) {
        call.onEnd((end) => ended.resolve(end));
        let pulls = 0;
        return streamReply({
          pull: () =>
            pulls++ === 0
              ? Promise.resolve(new TextEncoder().encode("partial"))
              : Promise.reject(new HubError("upstream_cut", "The upstream hung up")),
          cancel: () => assert.fail("a source that failed is not cancelled"),
        }, { contentType: "text/plain" });
      },
    });
    await withServer([route], async (server) => {
      const { text, end } = await exchange(server, `GET /cut HTTP/${version}\r\n${HEAD}\r\n`);
      // HTTP/1.0 has no sign for a broken body but the end of the connection (ADR 0001).
      assert.notEqual(end, "open");
      assert.match(text, /partial/);
      assert.doesNotMatch(text, /\r\n0\r\n\r\n$/);
      const { outcome, bytesOut } = await ended.promise;
      assert.deepEqual({ outcome, bytesOut }, { outcome: "cut", bytesOut: 7 });
    });
  });
}

Deno.test("a reader that does not read is not pulled for, and its leaving cancels the source", () =>
  tookUnder(250, leaveUnread));

/** Gives how long it took until the source was cancelled. */
async function leaveUnread(): Promise<number> {
  let tookMs = NaN;
  const piece = new Uint8Array(64 * 1024);
  let pulled = 0;
  const cancelled = deferred<number>();
  const route = defineRoute({
    ...facts,
    method: "GET",
    path: "/endless",
    handle: () =>
      streamReply({
        pull: () => {
          pulled += piece.length;
          return Promise.resolve(piece);
        },
        cancel: () => cancelled.resolve(performance.now()),
      }, { contentType: "text/plain" }),
  });
  await withServer([route], async (server) => {
    const client = await RawClient.connect(server.port);
    await client.send(`GET /endless HTTP/1.1\r\n${HEAD}\r\n`);
    await client.readUntil("\r\n\r\n");
    let before = -1;
    while (before !== pulled) {
      before = pulled;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    // Kernel buffers of both ends hold a few MiB; without backpressure this would be gigabytes.
    assert.ok(pulled < 32 * 1024 * 1024, `${pulled} bytes were pulled`);
    const closedMs = performance.now();
    client.close();
    tookMs = await cancelled.promise - closedMs;
  });
  return tookMs;
}

Deno.test("a reader that takes nothing for the write timeout is given up", async () => {
  const clock = createFakeClock();
  const cancelled = deferred();
  const stuck = deferred();
  let pulls = 0;
  const route = defineRoute({
    ...facts,
    method: "GET",
    path: "/endless",
    handle: () =>
      streamReply({
        pull: () => {
          if (++pulls === 200) stuck.resolve();
          return Promise.resolve(new Uint8Array(1024 * 1024));
        },
        cancel: () => cancelled.resolve(),
      }, { contentType: "text/plain" }),
  });
  await withServer([route], async (server) => {
    const client = await RawClient.connect(server.port);
    await client.send(`GET /endless HTTP/1.1\r\n${HEAD}\r\n`);
    await client.readUntil("\r\n\r\n");
    while (clock.pending() === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    // While the kernel's buffers take some more, its time begins anew.
    let isOver = false;
    void cancelled.promise.then(() => isOver = true);
    await eventually(async () => {
      await clock.advance(60_000);
      return isOver || null;
    });
    assert.equal(server.active(), 0);
    client.close();
  }, { clock });
});

Deno.test("close lets answers end within their time, then breaks them off", async () => {
  const clock = createFakeClock();
  const release = deferred();
  const reached = deferred();
  let waiting = 0;
  const cancelled = deferred();
  const slow = defineRoute({
    ...facts,
    method: "GET",
    path: "/slow",
    async handle() {
      if (++waiting === 2) reached.resolve();
      await release.promise;
      return bytesReply("late", { contentType: "text/plain" });
    },
  });
  const stream = defineRoute({
    ...facts,
    method: "GET",
    path: "/stream",
    handle() {
      if (++waiting === 2) reached.resolve();
      return streamReply(
        { pull: () => new Promise(() => {}), cancel: () => cancelled.resolve() },
        { contentType: "text/plain", flush: true },
      );
    },
  });
  await withServer([slow, stream, hello], async (server) => {
    const idle = await RawClient.connect(server.port);
    await idle.send(`GET /hello HTTP/1.1\r\n${HEAD}\r\n`);
    await idle.readUntil("hello");
    const first = exchange(server, `GET /slow HTTP/1.1\r\n${HEAD}\r\n`);
    const second = exchange(server, `GET /stream HTTP/1.1\r\n${HEAD}\r\n`);
    await reached.promise;
    const closing = server.close(5000);
    await idle.readToEnd();
    assert.equal(idle.end, "eof");
    idle.close();
    release.resolve();
    const { body, text } = await first;
    assert.equal(body, "late");
    assert.match(text, /connection: close/i);
    assert.equal(server.active(), 1);
    await clock.advance(5000);
    assert.deepEqual(await closing, { cut: 1 });
    await cancelled.promise;
    assert.doesNotMatch((await second).text, /\r\n0\r\n\r\n$/);
    await assert.rejects(RawClient.connect(server.port));
  }, { clock });
});

Deno.test("an address in use is told as a mistake of the configuration", async () => {
  await withServer([hello], (server) => {
    const again = () =>
      startServer({
        app: { handle: () => emptyReply() },
        host: "127.0.0.1",
        port: server.port,
        clock: REAL_CLOCK,
        log: SILENT_LOG,
      });
    assert.throws(again, (error: HubError) => {
      assert.equal(error.code, "invalid_configuration");
      assert.match(error.message, /another program uses it/);
      return true;
    });
    return Promise.resolve();
  });
});

Deno.test("a request that the app does not answer breaks its connection", async () => {
  const server = startServer({
    app: { handle: () => Promise.reject(new Error("broken")) },
    host: "127.0.0.1",
    port: 0,
    clock: REAL_CLOCK,
    log: SILENT_LOG,
  });
  const { end, text } = await exchange(server, `GET / HTTP/1.1\r\n${HEAD}\r\n`);
  assert.notEqual(end, "open");
  assert.equal(text, "");
  assert.equal(server.active(), 0);
  await server.close(0);
});
