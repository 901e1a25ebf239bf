import assert from "node:assert/strict";
import { toHubError } from "../../../src/core/error.ts";
import { errorReply } from "../../../src/http/on_error.ts";
import { bytesReply } from "../../../src/http/reply.ts";
import { settle } from "../../support/fake_clock.ts";
import { bytesOf, cutAt } from "../../providers/http1/memory_socket.ts";
import { MemoryClient, MemoryServer, readAnswers } from "./memory_client.ts";

const HEAD = "host: localhost\r\n";

function echoServer() {
  const targets: string[] = [];
  const server = new MemoryServer(async (request) => {
    targets.push(request.target);
    try {
      return bytesReply(await request.collectBody(1000), { contentType: "text/plain" });
    } catch (error) {
      return errorReply(toHubError(error));
    }
  });
  return { server, targets };
}

/** Sends the bytes one a second until the server ends; tells how many seconds it took. */
async function drip(server: MemoryServer, first: string, byte: string) {
  const client = new MemoryClient();
  const { ran } = server.serve(client);
  client.deliver(bytesOf(first));
  await settle();
  let seconds = 0;
  for (; seconds < 1000 && !client.writesClosed && !client.closed; seconds++) {
    client.deliver(bytesOf(byte));
    await server.clock.advance(1000);
  }
  client.deliver(null);
  await ran;
  assert.deepEqual(client.faults, []);
  assert.equal(server.active, 0);
  assert.equal(server.deadlines.size, 0);
  return { seconds, statuses: readAnswers(client.text)?.map(({ status }) => status) };
}

Deno.test("a client that drips is given up at the limit of its phase, however steadily it drips", async () => {
  const { server } = echoServer();
  const post = `POST / HTTP/1.1\r\n${HEAD}`;
  assert.deepEqual(await drip(server, "", "G"), { seconds: 10, statuses: [408] });
  assert.deepEqual(await drip(server, "", "\r\n"), { seconds: 10, statuses: [] });
  assert.deepEqual(await drip(server, `GET / HTTP/1.1\r\n${HEAD}`, "a: b\r\n"), {
    seconds: 10,
    statuses: [408],
  });
  assert.deepEqual(await drip(server, `${post}content-length: 900\r\n\r\n`, "x"), {
    seconds: 30,
    statuses: [408],
  });
  const chunked = `${post}transfer-encoding: chunked\r\n\r\n`;
  assert.deepEqual(await drip(server, chunked, "1\r\nx\r\n"), { seconds: 30, statuses: [408] });
  assert.deepEqual(await drip(server, `${chunked}1;`, "x"), { seconds: 30, statuses: [408] });
  assert.deepEqual(await drip(server, `${chunked}0\r\n`, "a: b\r\n"), {
    seconds: 30,
    statuses: [408],
  });
  const idle = `GET / HTTP/1.1\r\n${HEAD}\r\n`;
  assert.deepEqual(await drip(server, idle, "\r\n"), { seconds: 75, statuses: [200] });
  const next = await drip(server, `${idle}G`, "E");
  assert.deepEqual(next, { seconds: 10, statuses: [200, 408] });
});

Deno.test("requests cut at every byte are the same requests", async () => {
  const wire = bytesOf(
    `\r\nPOST /1 HTTP/1.1\r\n${HEAD}content-length: 5\r\n\r\nhello\r\n` +
      `POST /2 HTTP/1.1\r\n${HEAD}transfer-encoding: chunked\r\n\r\n` +
      `3;a="b"\r\nGET\r\n2\r\n /\r\n0\r\nx: y\r\n\r\n` +
      `POST /3 HTTP/1.1\r\n${HEAD}content-length: 0\r\n\r\n` +
      `POST /4 HTTP/1.0\r\n${HEAD}connection: keep-alive\r\ncontent-length: 2\r\n\r\nok` +
      `GET /5 HTTP/1.1\r\n${HEAD}connection: close\r\n\r\nGET /6 HTTP/1.1\r\n${HEAD}\r\n`,
  );
  for (let cut = 0; cut < wire.length; cut++) {
    // Two pieces, and from there on every byte by itself.
    for (const places of [[cut], Array.from({ length: 40 }, (_, n) => cut + n)]) {
      const { server, targets } = echoServer();
      const client = new MemoryClient();
      const { ran } = server.serve(client);
      for (const piece of cutAt(wire, places.filter((place) => place < wire.length))) {
        client.deliver(piece);
        for (let turn = 0; turn < 40; turn++) await Promise.resolve();
      }
      await settle();
      client.deliver(null);
      await ran;
      const bodies = readAnswers(client.text)?.map(({ body }) => body);
      assert.deepEqual(bodies, ["hello", "GET /", "", "ok", ""], `cut at ${cut}`);
      assert.deepEqual(targets, ["/1", "/2", "/3", "/4", "/5"]);
      assert.deepEqual(client.faults, []);
      assert.equal(server.active, 0);
      server.deadlines.close();
    }
  }
});

Deno.test("after a chunked body that breaks its framing nothing is read as a request", async () => {
  for (
    const body of [
      "5\r\nhelloX\r\n0\r\n\r\n",
      "5\r\nhello\r0\r\n\r\n",
      "5\nhello\r\n0\r\n\r\n",
      "-5\r\nhello\r\n0\r\n\r\n",
      "5 5\n\r\nhello\r\n0\r\n\r\n",
      "0x5\r\nhello\r\n0\r\n\r\n",
      "5;\n\r\nhello\r\n0\r\n\r\n",
      "ffffffffffffffff5\r\nhello\r\n0\r\n\r\n",
      "0\r\n\n",
      "0\r\na: b\n\r\n",
      "\r\n5\r\nhello\r\n0\r\n\r\n",
      ";a\r\n\r\n",
    ]
  ) {
    for (const reads of [true, false]) {
      const targets: string[] = [];
      const server = new MemoryServer(async (request) => {
        targets.push(request.target);
        if (reads) {
          const failed = await request.collectBody(1000).then(() => null, toHubError);
          if (failed !== null) return errorReply(failed);
        }
        return bytesReply("answer", { contentType: "text/plain" });
      });
      const client = new MemoryClient();
      const { ran } = server.serve(client);
      const post = `POST /post HTTP/1.1\r\n${HEAD}transfer-encoding: chunked\r\n\r\n`;
      client.deliver(bytesOf(`${post}${body}GET /hidden HTTP/1.1\r\n${HEAD}\r\n`));
      await settle();
      client.deliver(null);
      await ran;
      assert.deepEqual(targets, ["/post"], JSON.stringify(body));
      assert.match(client.text, reads ? /^HTTP\/1\.1 400 / : /^HTTP\/1\.1 200 /);
      assert.equal(server.active, 0);
      server.deadlines.close();
    }
  }
});

Deno.test("a body that comes when it was given up is not read as a request", async () => {
  for (const framing of ["content-length: 60", "transfer-encoding: chunked"]) {
    const { server, targets } = echoServer();
    const client = new MemoryClient();
    const { ran } = server.serve(client);
    client.deliver(bytesOf(`POST /post HTTP/1.1\r\n${HEAD}${framing}\r\n\r\n3\r\n`));
    await settle();
    await server.clock.advance(30_000);
    assert.match(client.text, /^HTTP\/1\.1 408 [^]*connection: close/);
    client.deliver(bytesOf(`abc\r\n0\r\n\r\n`));
    for (let n = 0; n < 5; n++) client.deliver(bytesOf(`GET /hidden HTTP/1.1\r\n${HEAD}\r\n`));
    await settle();
    client.deliver(null);
    await ran;
    assert.deepEqual(targets, ["/post"]);
    assert.equal(server.active, 0);
  }
});
