import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { steadyConnections } from "../../src/http/steady_connections.ts";

Deno.test("the runtime's list of connections still looks as it did, and is made steady", async () => {
  const server = createServer((_request, response) => response.end("ok"));
  assert.equal(steadyConnections(server), false);
  const done: boolean[] = [];
  server.on("connection", () => done.push(steadyConnections(server)));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  for (let n = 0; n < 3; n++) {
    const response = await fetch(`http://127.0.0.1:${port}/`);
    assert.equal(await response.text(), "ok");
  }
  assert.equal(done[0], true);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});
