import assert from "node:assert/strict";
import { acceptOf } from "../../src/wire/websocket/handshake.ts";
import { eventually } from "../support/test_hub.ts";
import { peakMemoryOf, withProgram } from "./memory_of.ts";

const MIB = 1024 * 1024;
const FLOOD_BYTES = 64 * MIB;
const ignore = Deno.build.os !== "linux";

/** One block of a flood, sent again and again behind the start of a message that never ends. */
const FLOODS: Record<string, (mask: boolean) => Uint8Array> = {
  "empty continuation frames": (mask) => repeat(frame(0x00, 0, mask), 20_000),
  "continuation frames of 1 byte": (mask) => repeat(frame(0x00, 1, mask), 20_000),
  "continuation frames of 1 MiB": (mask) => frame(0x00, MIB, mask),
  "pings": (mask) => repeat(frame(0x89, 125, mask), 1000),
  "empty pings": (mask) => repeat(frame(0x89, 0, mask), 20_000),
  "pongs": (mask) => repeat(frame(0x8a, 125, mask), 1000),
};

function frame(first: number, length: number, isMasked: boolean): Uint8Array {
  const size = length < 126 ? 2 : 10;
  const bytes = new Uint8Array(size + (isMasked ? 4 : 0) + length).fill(0x20);
  bytes[0] = first;
  bytes[1] = (isMasked ? 0x80 : 0) | (length < 126 ? length : 127);
  if (size === 10) new DataView(bytes.buffer).setBigUint64(2, BigInt(length));
  if (isMasked) bytes.fill(0, size, size + 4);
  return bytes;
}

function repeat(piece: Uint8Array, times: number): Uint8Array {
  const bytes = new Uint8Array(piece.length * times);
  for (let at = 0; at < times; at++) bytes.set(piece, at * piece.length);
  return bytes;
}

/** Sends a flood until the other side has gone, `FLOOD_BYTES` at most, and reads nothing; true when it has gone. */
async function flood(
  socket: Deno.Conn,
  block: Uint8Array,
  { isMasked }: { isMasked: boolean },
): Promise<boolean> {
  try {
    const start = frame(0x01, 1, isMasked);
    await socket.write(start);
    for (let sent = 0; sent < FLOOD_BYTES; sent += block.length) {
      for (let at = 0; at < block.length;) at += await socket.write(block.subarray(at));
    }
    return false;
  } catch {
    return true;
  }
}

async function readHead(socket: Deno.Conn): Promise<string> {
  const bytes = new Uint8Array(8192);
  let head = "";
  while (!head.includes("\r\n\r\n")) {
    const count = await socket.read(bytes);
    if (count === null) throw new Error("ended before the head was whole");
    head += new TextDecoder().decode(bytes.subarray(0, count));
  }
  return head;
}

Deno.test(
  "WsConnection ends floods of frames in bounded memory, and other requests are served meanwhile",
  {
    ignore,
  },
  () =>
    withProgram("web_socket_server.ts", [], async ({ pid, ready }) => {
      const seen = async () => {
        const answer = await fetch(`http://127.0.0.1:${ready}/`);
        return await answer.json() as { ends: number; longestMs: number };
      };
      await seen();
      const before = await peakMemoryOf(pid);
      let ends = 0;
      for (const [name, make] of Object.entries(FLOODS)) {
        const socket = await Deno.connect({ hostname: "127.0.0.1", port: Number(ready) });
        await socket.write(new TextEncoder().encode(
          [
            "GET /ws HTTP/1.1",
            "host: localhost",
            "upgrade: websocket",
            "connection: upgrade",
            "sec-websocket-version: 13",
            "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
            "",
            "",
          ].join("\r\n"),
        ));
        assert.match(await readHead(socket), /^HTTP\/1\.1 101/);
        assert.ok(await flood(socket, make(true), { isMasked: true }), `${name} went on`);
        socket.close();
        ends++;
        await eventually(async () => (await seen()).ends === ends || null);
        const { longestMs } = await seen();
        assert.ok(longestMs < 250, `${name} held the event loop for ${Math.round(longestMs)} ms`);
      }
      const grown = await peakMemoryOf(pid) - before;
      assert.ok(grown < 100 * MIB, `floods took ${Math.round(grown / MIB)} MiB`);
    }),
);

for (const [name, make] of Object.entries(FLOODS)) {
  Deno.test(`WebSocketTransport ends a server's flood of ${name} in bounded memory`, {
    ignore,
  }, async () => {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr;
    try {
      const accepted = listener.accept();
      await withProgramOpen(port, accepted, async (pid, socket) => {
        const before = await peakMemoryOf(pid);
        assert.ok(await flood(socket, make(false), { isMasked: false }), "the flood went on");
        const grown = await peakMemoryOf(pid) - before;
        assert.ok(grown < 60 * MIB, `the flood took ${Math.round(grown / MIB)} MiB`);
      });
    } finally {
      listener.close();
    }
  });
}

/** Runs the client program and shakes hands with it. */
async function withProgramOpen(
  port: number,
  accepted: Promise<Deno.Conn>,
  use: (pid: number, socket: Deno.Conn) => Promise<void>,
): Promise<void> {
  const opened = accepted.then(async (socket) => {
    const key = /sec-websocket-key: (\S+)/i.exec(await readHead(socket))?.[1] ?? "";
    const head = [
      "HTTP/1.1 101 Switching Protocols",
      "upgrade: websocket",
      "connection: upgrade",
      `sec-websocket-accept: ${acceptOf(key)}`,
      "",
      "",
    ].join("\r\n");
    await socket.write(new TextEncoder().encode(head));
    return socket;
  });
  await withProgram("web_socket_client.ts", [String(port)], async ({ pid }) => {
    const socket = await opened;
    try {
      await use(pid, socket);
    } finally {
      socket.close();
    }
  });
}
