import assert from "node:assert/strict";
import { bytesReply } from "../../../src/http/reply.ts";
import { defineRoute } from "../../../src/http/route.ts";
import { deferred, exchange, RawClient, withServer } from "../fixture.ts";

const HEAD = "host: localhost\r\n";
const facts = { tag: "test", summary: "test", auth: "public" as const, responses: {} };

for (const size of [9_000, 200_000]) {
  Deno.test(`the body of a pipelined request (${size} bytes) is never read as a request`, async () => {
    const entered = deferred();
    const release = deferred();
    const bodies: string[] = [];
    const paths: string[] = [];
    const wait = defineRoute({
      ...facts,
      method: "GET",
      path: "/wait",
      async handle() {
        entered.resolve();
        await release.promise;
        return bytesReply("waited", { contentType: "text/plain" });
      },
    });
    const echo = defineRoute({
      ...facts,
      method: "POST",
      path: "/echo",
      body: "raw",
      async handle(call) {
        bodies.push(new TextDecoder().decode(await call.readBody()));
        return bytesReply("echoed", { contentType: "text/plain" });
      },
    });
    const hidden = defineRoute({
      ...facts,
      method: "GET",
      path: "/hidden",
      handle() {
        paths.push("/hidden");
        return bytesReply("smuggled", { contentType: "text/plain" });
      },
    });
    await withServer([wait, echo, hidden], async (server) => {
      const client = await RawClient.connect(server.port);
      const inner = `GET /hidden HTTP/1.1\r\n${HEAD}\r\n`;
      const body = inner.repeat(Math.ceil(size / inner.length));
      await client.send(`GET /wait HTTP/1.1\r\n${HEAD}\r\n`);
      await entered.promise;
      const request = `POST /echo HTTP/1.1\r\n${HEAD}content-length: ${body.length}\r\n\r\n${body}`;
      // The server reads ahead; the rest comes when the body is already awaited.
      await client.send(request.slice(0, size / 2));
      // Answers to requests that came later tell that the server has looked at what came before them.
      for (let turn = 0; turn < 3; turn++) {
        await exchange(server, `GET /none HTTP/1.1\r\n${HEAD}connection: close\r\n\r\n`);
      }
      release.resolve();
      await client.readUntil("waited");
      await client.send(request.slice(size / 2));
      await client.send(`GET /hidden HTTP/1.1\r\n${HEAD}connection: close\r\n\r\n`);
      const text = await client.readToEnd();
      client.close();
      assert.deepEqual(bodies.map((text) => text === body), [true]);
      assert.deepEqual(paths, ["/hidden"]);
      assert.deepEqual(text.match(/\r\n\r\n(waited|echoed|smuggled)/g)?.length, 3);
    });
  });
}
