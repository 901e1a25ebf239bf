import assert from "node:assert/strict";
import { createPinnedFetch } from "../../src/hub/pinned_fetch.ts";
import { createGuardedFetch } from "../../src/mcp/oauth/guarded_fetch.ts";
import { createConnect, type Destination } from "../../src/providers/http1/dial.ts";
import { bytesOf, memorySocket } from "../providers/http1/memory_socket.ts";
import { systemClock } from "../support/system_clock.ts";

Deno.test("a name that stands for this machine once it was looked at is not followed there", async () => {
  const dialled: string[] = [];
  const turns = [["93.184.216.34", "93.184.216.35"], ["127.0.0.1"]];
  const fetch = createGuardedFetch({
    serverUrl: "https://public.example/mcp",
    clock: systemClock,
    lookup: () => Promise.resolve(turns.shift() ?? []),
    fetch: createPinnedFetch({
      clock: systemClock,
      connect({ hostname, address = hostname }: Destination) {
        dialled.push(address);
        if (address.endsWith(".34")) return Promise.reject(new Deno.errors.ConnectionRefused());
        const head =
          "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n";
        return Promise.resolve(memorySocket([bytesOf(`${head}{}`)]));
      },
    }),
  });
  const answer = await fetch("https://rebinding.example/.well-known/oauth-authorization-server");
  assert.deepEqual(await answer.json(), {});
  assert.deepEqual(dialled, ["93.184.216.34", "93.184.216.35"]);
  await assert.rejects(fetch("https://rebinding.example/token"), /private network/);
  assert.deepEqual(dialled.length, 2);
});

Deno.test("it sends a form under the name, takes the answer whole, and keeps no connection", async () => {
  const seen: string[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const { method, headers } = request;
    seen.push(
      `${method} ${headers.get("host")} ${headers.get("content-type")} ${await request.text()}`,
    );
    if (request.url.endsWith("/gone")) return new Response(null, { status: 204 });
    return new Response("x".repeat(300_000), { headers: { location: "/next" }, status: 302 });
  });
  const { port } = server.addr;
  const sockets: { closed: boolean }[] = [];
  const connect = createConnect();
  const fetch = createPinnedFetch({
    clock: systemClock,
    async connect(to) {
      const socket = await connect(to);
      const watched = { closed: false };
      sockets.push(watched);
      const close = socket.close.bind(socket);
      return {
        read: (into) => socket.read(into),
        write: (bytes) => socket.write(bytes),
        close() {
          watched.closed = true;
          close();
        },
      };
    },
  });
  try {
    const url = new URL(`http://name.example:${port}/token`);
    const body = new URLSearchParams({ code: "c d" });
    const answer = await fetch(url, { method: "POST", body }, ["127.0.0.1"]);
    assert.equal(answer.status, 302);
    assert.equal(answer.headers.get("location"), "/next");
    assert.equal((await answer.text()).length, 300_000);
    const gone = await fetch(new URL("/gone", url), {}, ["127.0.0.1"]);
    assert.deepEqual([gone.status, await gone.text()], [204, ""]);
    const host = `name.example:${port}`;
    assert.deepEqual(seen, [
      `POST ${host} application/x-www-form-urlencoded;charset=UTF-8 code=c+d`,
      `GET ${host} null `,
    ]);
    const half = await fetch(url, {}, ["127.0.0.1"]);
    await half.body?.cancel();
    assert.deepEqual(sockets.map(({ closed }) => closed), [true, true, true]);
    await assert.rejects(fetch(url, { signal: AbortSignal.abort() }, ["127.0.0.1"]));
    await assert.rejects(fetch(url, {}, []), TypeError);
  } finally {
    await server.shutdown();
  }
});
