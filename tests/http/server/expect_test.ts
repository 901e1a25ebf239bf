import assert from "node:assert/strict";
import { bytesReply } from "../../../src/http/reply.ts";
import { settle } from "../../support/fake_clock.ts";
import { bytesOf } from "../../providers/http1/memory_socket.ts";
import { MemoryClient, MemoryServer, readAnswers } from "./memory_client.ts";

const POST = "POST / HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n";
const echo = () =>
  new MemoryServer(async (request) =>
    bytesReply(await request.collectBody(1000), { contentType: "text/plain" })
  );

Deno.test("a client that expects 100 Continue and does not wait for it keeps its connection", async () => {
  const server = echo();
  const client = new MemoryClient();
  const { ran } = server.serve(client);
  for (const body of ["one", "two"]) {
    client.deliver(bytesOf(`${POST}content-length: 3\r\n\r\n${body}`));
    await settle();
  }
  for (const body of ["one", "two"]) {
    client.deliver(bytesOf(`${POST}transfer-encoding: chunked\r\n\r\n3\r\n${body}\r\n0\r\n\r\n`));
    await settle();
  }
  const bodies = readAnswers(client.text)?.map(({ body }) => body);
  assert.deepEqual(bodies, ["one", "two", "one", "two"]);
  client.deliver(null);
  await ran;
  server.deadlines.close();
});

Deno.test("an expected 100 Continue is sent once, before the answer, and not to HTTP/1.0", async () => {
  for (const version of ["1.0", "1.1"]) {
    const server = echo();
    const client = new MemoryClient({ sizes: [3] });
    const { ran } = server.serve(client);
    client.deliver(bytesOf(`${POST}content-length: 3\r\n\r\n`.replace("1.1", version)));
    await settle();
    assert.equal(client.text, version === "1.0" ? "" : "HTTP/1.1 100 Continue\r\n\r\n");
    client.deliver(bytesOf("ab"));
    client.deliver(bytesOf("c"));
    await settle();
    assert.deepEqual(readAnswers(client.text)?.map(({ body }) => body), ["abc"]);
    assert.equal(client.text.split("100 Continue").length, version === "1.0" ? 1 : 2);
    client.deliver(null);
    await ran;
    server.deadlines.close();
  }
});
