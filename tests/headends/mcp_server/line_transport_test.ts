import assert from "node:assert/strict";
import type { JSONRPCMessage } from "@modelcontextprotocol/server";
import { LineTransport } from "../../../src/headends/mcp_server/line_transport.ts";
import { settle } from "../../support/fake_clock.ts";

async function open() {
  const input = new TransformStream<Uint8Array, Uint8Array>();
  const writer = input.writable.getWriter();
  const written: string[] = [];
  const decoder = new TextDecoder();
  const transport = new LineTransport({
    input: input.readable,
    output: new WritableStream({ write: (bytes) => void written.push(decoder.decode(bytes)) }),
  });
  const got: JSONRPCMessage[] = [];
  transport.onmessage = got.push.bind(got);
  let closes = 0;
  const onclose = () => void closes++;
  transport.onclose = onclose;
  await transport.start();
  return {
    transport,
    written,
    got,
    closes: () => closes,
    end: () => writer.close(),
    async say(text: string | Uint8Array) {
      await writer.write(typeof text === "string" ? new TextEncoder().encode(text) : text);
      await settle();
    },
  };
}

const ping = (id: number) => ({ jsonrpc: "2.0" as const, id, method: "ping" });
const codeOf = (line: string | undefined) => JSON.parse(line ?? "").error.code;

Deno.test("lines are messages, wherever they are cut", async () => {
  const { transport, say, got, end } = await open();
  const bytes = new TextEncoder().encode(
    `${JSON.stringify(ping(1))}\n\r\n\n${JSON.stringify({ ...ping(2), params: { a: "ä" } })}\r\n`,
  );
  for (const byte of bytes) await say(new Uint8Array([byte]));
  assert.deepEqual(got.map((message) => "id" in message && message.id), [1, 2]);
  await say(`${JSON.stringify(ping(3))}\n${JSON.stringify(ping(4))}\n{"half`);
  assert.equal(got.length, 4);
  await end();
  await transport.closed;
});

Deno.test("what is no message is answered, and the connection goes on", async () => {
  const { transport, say, got, written, end } = await open();
  await say("junk\n");
  await say(`${"[".repeat(100)}\n`);
  await say('{"jsonrpc":"2.0","id":{},"method":1}\n');
  await say(new Uint8Array(17 * 1024 * 1024).fill(0x61));
  await say("\n");
  assert.deepEqual(written.map(codeOf), [-32700, -32600, -32600, -32600]);
  await say(`${JSON.stringify(ping(1))}\n`);
  assert.equal(got.length, 1);
  await end();
  await transport.closed;
});

Deno.test("it ends once, with its input, and takes nothing to send after that", async () => {
  const { transport, end, closes, written } = await open();
  await transport.send({ jsonrpc: "2.0", method: "notifications/x" });
  assert.deepEqual(written, ['{"jsonrpc":"2.0","method":"notifications/x"}\n']);
  await end();
  await transport.closed;
  await transport.close();
  assert.equal(closes(), 1);
  await assert.rejects(transport.send(ping(1)), /has ended/);
});
