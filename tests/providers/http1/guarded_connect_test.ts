import assert from "node:assert/strict";
import { createHttpClient } from "../../../src/providers/http1/client.ts";
import { createConnect, type Destination } from "../../../src/providers/http1/dial.ts";
import { createGuardedConnect, resolveName } from "../../../src/providers/http1/guarded_connect.ts";
import { chatCompletion, startScriptedUpstream } from "../../support/scripted_upstream.ts";
import { bytesOf, memorySocket } from "./memory_socket.ts";
import { errorOf, post, realClock, textOf } from "./with_client.ts";

const OK = bytesOf("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");

/** A client whose names are resolved by a table that each look at a name moves on by one. */
function createRig(
  names: Record<string, readonly (readonly string[])[]>,
  { privateNames = false, refusing = [] as string[] } = {},
) {
  const dialled: string[] = [];
  const looks: string[] = [];
  const connect = createGuardedConnect({
    privateNames,
    resolve(name) {
      const turns = names[name] ?? [];
      const turn = looks.filter((look) => look === name).length;
      looks.push(name);
      const found = turns[Math.min(turn, turns.length - 1)];
      if (found === undefined) return Promise.reject(new Error(`getaddrinfo ENOTFOUND ${name}`));
      return Promise.resolve(found);
    },
    connect({ hostname, address = hostname, port }: Destination) {
      dialled.push(`${hostname} ${address} ${port}`);
      if (refusing.includes(address)) return Promise.reject(new Deno.errors.ConnectionRefused());
      return Promise.resolve(memorySocket([OK]));
    },
  });
  const client = createHttpClient({ clock: realClock, connect });
  return { client, dialled, looks };
}

Deno.test("a name that leads to this machine, a private network or a metadata service is not dialled", async () => {
  const refused: Record<string, readonly string[]> = {
    "loop.test": ["127.0.0.1"],
    "six.test": ["::1"],
    "mapped.test": ["::ffff:10.0.0.1"],
    "lan.test": ["192.168.1.1"],
    "mixed.test": ["8.8.8.8", "10.0.0.1"],
    "meta.test": ["169.254.169.254"],
    "zone.test": ["fe80::1%eth0"],
    "odd.test": ["no address"],
  };
  const names = Object.fromEntries(Object.entries(refused).map(([name, all]) => [name, [all]]));
  for (const privateNames of [false, true]) {
    const { client, dialled } = createRig(names, { privateNames });
    for (const name of Object.keys(refused)) {
      const isFine = privateNames && !/meta|zone|odd/.test(name);
      if (isFine) {
        assert.equal(await textOf(await client.send(post(`http://${name}/v1`))), "ok");
        continue;
      }
      const error = await errorOf(client.send(post(`http://${name}/v1`)));
      assert.equal(error.code, "upstream_unreachable", name);
      assert.match(
        error.message,
        /its name leads (into a private network|to a link-local)/,
        error.message,
      );
      // Whoever asks is not told what is inside.
      assert.doesNotMatch(error.message, /\d+\.\d+\.\d+\.\d+|::/);
    }
    assert.deepEqual(
      dialled.map((to) => to.split(" ")[0]),
      privateNames ? ["loop.test", "six.test", "mapped.test", "lan.test", "mixed.test"] : [],
    );
    client.close();
  }
});

Deno.test("the address that was looked at is dialled, though the name means another one by then", async () => {
  const { client, dialled, looks } = createRig({
    "rebind.test": [["8.8.8.8"], ["127.0.0.1"]],
  });
  assert.equal(await textOf(await client.send(post("http://rebind.test:81/v1"))), "ok");
  assert.deepEqual([dialled, looks], [["rebind.test 8.8.8.8 81"], ["rebind.test"]]);
  // The socket has ended; the next dial looks again.
  assert.equal(
    (await errorOf(client.send(post("http://rebind.test:81/v1", { once: true })))).code,
    "upstream_unreachable",
  );
  assert.deepEqual([dialled.length, looks.length], [1, 2]);
  client.close();
});

Deno.test("addresses are dialled in turn; one that is written out is dialled as it is", async () => {
  const names = { "two.test": [["8.8.8.8", "2606:4700::1"]] };
  const { client, dialled, looks } = createRig(names, { refusing: ["8.8.8.8"] });
  assert.equal(await textOf(await client.send(post("http://two.test/"))), "ok");
  assert.equal(await textOf(await client.send(post("http://127.0.0.1:1/"))), "ok");
  assert.equal(await textOf(await client.send(post("http://[::1]:1/"))), "ok");
  assert.deepEqual(dialled, [
    "two.test 8.8.8.8 80",
    "two.test 2606:4700::1 80",
    "127.0.0.1 127.0.0.1 1",
    "::1 ::1 1",
  ]);
  assert.deepEqual(looks, ["two.test"]);
  const error = await errorOf(client.send(post("http://none.test/")));
  assert.match(error.message, /^Connecting to the upstream failed: its name cannot be resolved$/);
  client.close();
});

Deno.test("a real name of this machine is refused, or dialled once when it may be: Host stays the name", async () => {
  const upstream = await startScriptedUpstream(chatCompletion({ text: "Hi" }));
  let looks = 0;
  const clientOf = (privateNames: boolean) =>
    createHttpClient({
      clock: realClock,
      connect: createGuardedConnect({
        connect: createConnect(),
        resolve(name) {
          looks++;
          return resolveName(name);
        },
        privateNames,
      }),
    });
  const [closed, open] = [clientOf(false), clientOf(true)];
  try {
    const url = `http://localhost:${upstream.port}/v1/chat/completions`;
    const error = await errorOf(closed.send(post(url)));
    assert.equal(error.code, "upstream_unreachable");
    assert.equal(upstream.accepted, 0);
    for (let turn = 0; turn < 3; turn++) await textOf(await open.send(post(url)));
    assert.equal(upstream.requests[0]?.header("host"), `localhost:${upstream.port}`);
    // Requests on a kept connection ask for no name.
    assert.deepEqual([upstream.accepted, upstream.requests.length, looks], [1, 3, 2]);
  } finally {
    closed.close();
    open.close();
    await upstream.stop();
  }
});
