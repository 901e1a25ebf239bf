import assert from "node:assert/strict";
import { SocketReader } from "../../../src/http/server/socket_reader.ts";
import { settle } from "../../support/fake_clock.ts";
import { MemoryClient } from "./memory_client.ts";

Deno.test("what is read ahead is bounded", async () => {
  const client = new MemoryClient();
  const reader = new SocketReader(client, () => {});
  reader.watch();
  client.deliver(new Uint8Array(1_000_000));
  await settle();
  const ahead = reader.size;
  assert.ok(ahead >= 64 * 1024 && ahead <= 128 * 1024, `${ahead} bytes`);
  assert.equal(reader.take(ahead).length, ahead);
  for (let come = ahead; come < 1_000_000; come += reader.take(reader.size).length) {
    assert.equal(await reader.more(), true);
  }
  assert.deepEqual(client.faults, []);
});

Deno.test("a connection that waits keeps no large buffer, whatever was read ahead on it", async () => {
  for (const size of [5_000, 33_000, 70_000]) {
    const client = new MemoryClient();
    let length = 0;
    const read = client.read.bind(client);
    client.read = (into) => {
      length = into.buffer.byteLength;
      return read(into);
    };
    const reader = new SocketReader(client, () => {});
    reader.watch();
    client.deliver(new Uint8Array(size));
    await settle();
    for (let come = 0; come < size; come += reader.take(reader.size).length) {
      if (reader.size === 0) await reader.more();
    }
    const waiting = reader.more();
    client.deliver(new Uint8Array(1));
    await waiting;
    reader.take(1);
    const idle = reader.more();
    assert.equal(length, 4096, `${size} bytes`);
    client.deliver(null);
    assert.equal(await idle, false);
  }
});

Deno.test("a reader tells once that its client is gone", async () => {
  let gone = 0;
  const client = new MemoryClient();
  const reader = new SocketReader(client, () => gone++);
  reader.watch();
  client.deliver(null);
  await settle();
  assert.equal(reader.gone, true);
  assert.equal(await reader.more(), false);
  assert.equal(await reader.fill(new Uint8Array(3), 0), false);
  reader.watch();
  await settle();
  assert.equal(gone, 1);
});
