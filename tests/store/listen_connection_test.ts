import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { type ListenConnection, openListenConnection } from "../../src/store/listen_connection.ts";
import { notify } from "../../src/store/notify.ts";
import { withDatabase } from "../support/postgres.ts";
import { eventually } from "../support/test_hub.ts";

/** A server that is no Postgres, and how often it was connected to. */
async function withServer(
  onSocket: (socket: Socket) => void,
  body: (url: string, seen: { accepted: number; open: number }) => Promise<void>,
): Promise<void> {
  const seen = { accepted: 0, open: 0 };
  const server = createServer((socket) => {
    seen.accepted++;
    seen.open++;
    socket.on("close", () => seen.open--);
    socket.on("error", () => {});
    onSocket(socket);
    socket.resume();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  try {
    await body(`postgres://hub:secret@127.0.0.1:${address.port}/hub`, seen);
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
}

/** Opens one, and keeps what it tells. */
function open(url: string) {
  const heard: string[] = [];
  const state = { closed: 0 };
  const connection: ListenConnection = openListenConnection(url, {
    onPayload: (payload) => heard.push(payload),
    onClosed: () => state.closed++,
  });
  return { connection, heard, state };
}

for (
  const [name, onSocket] of [
    ["at once", (socket: Socket) => void socket.end()],
    ["in the middle of the greeting", (socket: Socket) => {
      socket.once("data", () => socket.end());
    }],
  ] as const
) {
  Deno.test(`an address that hangs up ${name} is asked once`, async () => {
    await withServer(onSocket, async (url, seen) => {
      const { connection } = open(url);
      await assert.rejects(connection.ready);
      await connection.close();
      assert.equal(seen.accepted, 1);
      await eventually(() => Promise.resolve(seen.open === 0 || null));
    });
  });
}

Deno.test("nothing is left of a connection whose other end is silent", async () => {
  await withServer(() => {}, async (url, seen) => {
    const { connection } = open(url);
    await eventually(() => Promise.resolve(seen.open === 1 || null));
    const ready = assert.rejects(connection.ready);
    await connection.close();
    await ready;
    await eventually(() => Promise.resolve(seen.open === 0 || null));
    assert.equal(seen.accepted, 1);
  });
});

Deno.test("an address that refuses is an error", async () => {
  const { connection } = open("postgres://hub:secret@127.0.0.1:1/hub");
  await assert.rejects(connection.ready);
  await connection.close();
});

Deno.test("notifications of the database arrive, until the connection is ended by either side", async () => {
  await withDatabase(async (db, url) => {
    const address = new URL(url);
    const several = url.replace(address.host, `127.0.0.1:1,${address.host}`);
    const [first, second] = [open(url), open(several)];
    await Promise.all([first.connection.ready, second.connection.ready]);
    const runs = Array.from({ length: 500 }, (_, n) => `run_${String(n).padStart(32, "0")}`);
    await notify(db, { runs, keys: true });
    const all = [first, second];
    await eventually(() => Promise.resolve(all.every(({ heard }) => heard.length === 3) || null));
    assert.deepEqual(first.heard, second.heard);
    assert.deepEqual(first.heard.flatMap((payload) => JSON.parse(payload).runs), runs);

    await second.connection.close();
    await db.read`
      select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'loophub listener' and datname = current_database()`;
    await eventually(() => Promise.resolve(first.state.closed === 1 || null));
    await first.connection.close();
    await notify(db, { keys: true });
    assert.equal(first.heard.length, 3);
    assert.deepEqual([first.state.closed, second.state.closed], [1, 0]);
  });
});
