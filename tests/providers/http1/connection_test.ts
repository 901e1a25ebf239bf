import assert from "node:assert/strict";
import { HubError } from "../../../src/core/error.ts";
import { Connection } from "../../../src/providers/http1/connection.ts";
import type { ByteSocket } from "../../../src/wire/sockets/byte_socket.ts";

/** A socket that notes how much room each read offers, and answers with as much as `next` says. */
function meter(next: (room: number) => number | null) {
  const rooms: number[] = [];
  const buffers = new Set<ArrayBufferLike>();
  let value = 0;
  const socket: ByteSocket = {
    read(into) {
      rooms.push(into.length);
      buffers.add(into.buffer);
      const count = next(into.length);
      if (count !== null) into.fill(++value % 256, 0, count);
      return Promise.resolve(count);
    },
    write: (bytes) => Promise.resolve(Math.min(bytes.length, 3)),
    close() {},
  };
  const told: string[] = [];
  const connection = new Connection(socket, {
    key: "k",
    owner: { closed: () => told.push("closed"), lost: () => told.push("lost") },
  });
  const take = async (wanted?: number) => {
    const count = await connection.read(wanted);
    assert.notEqual(count, null);
    return connection.taken(count ?? 0);
  };
  return { connection, take, rooms, buffers, told };
}

Deno.test("small pieces share a buffer of 4 KiB and are never written over", async () => {
  const { take, rooms, buffers } = meter(() => 200);
  const pieces: Uint8Array[] = [];
  for (let i = 0; i < 60; i++) pieces.push(await take());
  pieces.forEach((piece, i) =>
    assert.ok(piece.length === 200 && piece.every((byte) => byte === i + 1))
  );
  assert.ok(Math.max(...rooms) === 4096 && Math.min(...rooms) >= 512);
  assert.equal(buffers.size, 4);
});

Deno.test("buffers grow while reads fill them, and shrink when they do not", async () => {
  let full = true;
  const { take, rooms } = meter((room) => full ? room : 200);
  for (let i = 0; i < 4; i++) await take();
  assert.deepEqual(rooms, [4096, 16384, 65536, 65536]);
  full = false;
  rooms.length = 0;
  for (let i = 0; i < 500; i++) await take();
  assert.ok(rooms.slice(-15).every((room) => room <= 4096));
});

Deno.test("a known length gets its room at once, within bounds", async () => {
  const { take, rooms } = meter(() => 100);
  await take(10_000);
  await take(10 ** 9);
  assert.deepEqual(rooms, [10_000, 65_536]);
});

Deno.test("everything is written, however little a write takes", async () => {
  const { connection } = meter(() => 1);
  await connection.write(new Uint8Array(10));
});

Deno.test("a parked connection that reads anything is closed, and its owner told", async () => {
  for (const next of [5, null]) {
    const { connection, told } = meter(() => next);
    connection.park();
    await new Promise<void>((resolve) => queueMicrotask(() => queueMicrotask(resolve)));
    assert.deepEqual(told, ["closed", "lost"]);
    assert.equal(connection.closed, true);
    connection.close();
    assert.equal(told.length, 2);
  }
});

Deno.test("a read that was under way belongs to whoever takes the connection", async () => {
  const { connection, take, rooms, told } = meter(() => 5);
  connection.park();
  assert.equal((await take()).length, 5);
  assert.equal(rooms.length, 1);
  assert.deepEqual(told, []);
  assert.equal(connection.reused, true);
});

Deno.test("a transferred buffer is an error, not lost bytes", async () => {
  const { connection } = meter((room) => {
    if (room < 4096) {
      queueMicrotask(() =>
        structuredClone(first.buffer, { transfer: [first.buffer as ArrayBuffer] })
      );
    }
    return 100;
  });
  const first = connection.taken(await connection.read() ?? 0);
  const count = await connection.read();
  await Promise.resolve();
  assert.throws(
    () => connection.taken(count ?? 0),
    (error) => error instanceof HubError && error.code === "internal_error",
  );
});
