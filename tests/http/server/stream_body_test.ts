import assert from "node:assert/strict";
import { toHubError } from "../../../src/core/error.ts";
import { errorReply } from "../../../src/http/on_error.ts";
import { bytesReply } from "../../../src/http/reply.ts";
import { settle } from "../../support/fake_clock.ts";
import { bytesOf } from "../../providers/http1/memory_socket.ts";
import { MemoryClient, MemoryServer, readAnswers } from "./memory_client.ts";

const HEAD = "host: localhost\r\n";
const post = (framing: string) => `POST / HTTP/1.1\r\n${HEAD}${framing}\r\n\r\n`;
const GET = `GET /next HTTP/1.1\r\n${HEAD}\r\n`;
const decoder = new TextDecoder();

/** Answers with the length of the body and what came of it, after at most `pulls` looks. */
function createServer({ pulls = Infinity, maxBytes = 1_000_000 } = {}) {
  const targets: string[] = [];
  const server = new MemoryServer(async (request) => {
    targets.push(request.target);
    try {
      const body = request.streamBody(maxBytes);
      let text = "";
      for (let pulled = 0; pulled < pulls; pulled++) {
        const piece = await body.pull();
        if (piece === null) break;
        assert.ok(piece.length > 0);
        text += decoder.decode(piece);
      }
      return bytesReply(`${body.length}:${text}`, { contentType: "text/plain" });
    } catch (error) {
      return errorReply(toHubError(error));
    }
  });
  return { server, targets };
}

/** What the server says to these deliveries. */
async function say(deliveries: string[], options: Parameters<typeof createServer>[0] = {}) {
  const { server, targets } = createServer(options);
  const client = new MemoryClient();
  const { ran } = server.serve(client);
  for (const delivery of deliveries) {
    client.deliver(bytesOf(delivery));
    await settle();
  }
  client.deliver(null);
  await ran;
  assert.deepEqual(client.faults, []);
  assert.equal(server.active, 0);
  server.deadlines.close();
  return { targets, text: client.text, answers: readAnswers(client.text) };
}

Deno.test("a streamed body comes whole, whatever its framing, and the connection goes on", async () => {
  const big = "0123456789".repeat(20_000);
  const size = big.length.toString(16);
  for (
    const [framing, body, wanted] of [
      ["content-length: 0", "", "0:"],
      ["content-length: 5", "hello", "5:hello"],
      [`content-length: ${big.length}`, big, `${big.length}:${big}`],
      ["transfer-encoding: chunked", "0\r\n\r\n", "null:"],
      ["transfer-encoding: chunked", "5\r\nhello\r\n0\r\n\r\n", "null:hello"],
      ["transfer-encoding: chunked", `${size}\r\n${big}\r\n0\r\n\r\n`, `null:${big}`],
    ] as const
  ) {
    const whole = post(framing) + body + GET;
    const half = Math.floor(whole.length / 2);
    for (const deliveries of [[whole], [whole.slice(0, half), whole.slice(half)]]) {
      const { targets, answers } = await say(deliveries);
      assert.deepEqual(targets, ["/", "/next"], framing);
      assert.deepEqual(answers?.map(({ body }) => body), [wanted, "0:"], framing);
    }
  }
});

Deno.test("a body that is left in its middle ends the connection: its rest is nobody's request", async () => {
  const length = 200_000;
  const inner = "1\r\nx\r\n0\r\n\r\n" + GET;
  const rest = inner.repeat(Math.ceil(length / inner.length)).slice(0, length);
  for (
    const bytes of [
      post(`content-length: ${length}`) + rest,
      post("transfer-encoding: chunked") + `${length.toString(16)}\r\n${rest}\r\n0\r\n\r\n`,
    ]
  ) {
    const { targets, text } = await say([bytes], { pulls: 1 });
    assert.deepEqual(targets, ["/"]);
    assert.match(text, /connection: close/i);
  }
});

Deno.test("bounds, framing that breaks, and clients that leave", async () => {
  const chunked = post("transfer-encoding: chunked");
  const small = { maxBytes: 4 };
  assert.equal((await say([post("content-length: 5") + "hello"], small)).answers?.[0]?.status, 413);
  assert.equal((await say([`${chunked}5\r\nhello\r\n0\r\n\r\n`], small)).answers?.[0]?.status, 413);
  const broken = await say([`${chunked}5\r\nhelloX0\r\n\r\n${GET}`]);
  assert.equal(broken.answers?.[0]?.status, 400);
  assert.deepEqual(broken.targets, ["/"]);
  assert.equal((await say([`${post("content-length: 9")}hello`])).text, "");
  assert.equal((await say([`${chunked}5\r\nhel`])).text, "");
});

Deno.test("100 Continue is sent when the body is asked for, unless it is there", async () => {
  const expect = "expect: 100-continue\r\ncontent-length: 5";
  const waits = await say([post(expect), "hello"]);
  assert.match(waits.text, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /);
  const eager = await say([`${post(expect)}hello`]);
  assert.deepEqual(eager.answers?.map(({ body }) => body), ["5:hello"]);
  assert.ok(!eager.text.includes("100 Continue"));
});

Deno.test("a client has its time for each part of a streamed body, however it drips", async () => {
  for (
    const [framing, byte] of [["content-length: 900", "x"], [
      "transfer-encoding: chunked",
      "1\r\nx\r\n",
    ]]
  ) {
    const { server } = createServer();
    const client = new MemoryClient();
    const { ran } = server.serve(client);
    client.deliver(bytesOf(post(framing ?? "")));
    await settle();
    let seconds = 0;
    for (; seconds < 100 && !client.writesClosed; seconds++) {
      client.deliver(bytesOf(byte ?? ""));
      await server.clock.advance(1000);
    }
    client.deliver(null);
    await ran;
    assert.equal(seconds, 30, framing);
    assert.equal(readAnswers(client.text)?.[0]?.status, 408);
    server.deadlines.close();
  }
});
