import fc from "fast-check";
import assert from "node:assert/strict";
import { Reply } from "../../../src/http/reply.ts";
import {
  CHUNK_ROOM,
  createHeadWriter,
  putChunk,
  putHead,
} from "../../../src/http/server/reply_bytes.ts";
import { bytesOf } from "../../providers/http1/memory_socket.ts";
import { createFakeClock } from "../../support/fake_clock.ts";
import { property } from "../../support/property.ts";

property(
  "a head is written byte for byte, whatever is Latin-1 in it and however much room there is",
  fc.tuple(fc.string({ unit: "binary", maxLength: 60 }), fc.nat(40)),
  ([text, room]) => {
    const head = [...text].map((character) =>
      String.fromCharCode((character.codePointAt(0) ?? 0) & 255)
    ).join("");
    const into = new Uint8Array(head.length + room);
    putHead(head, into);
    assert.deepEqual(into.subarray(0, head.length), bytesOf(head));
  },
  { runs: 2000 },
);

property(
  "no value of a header can end its line",
  fc.tuple(fc.string({ unit: "binary" }), fc.string({ unit: "binary" })),
  ([first, second]) => {
    const write = createHeadWriter(createFakeClock(), 1000);
    const reply = new Reply(null, { headers: { "x-first": first } });
    reply.extra = ["x-second", second];
    const head = write(reply, { minor: 1, framing: { kind: "chunked" }, keep: true });
    assert.match(head, /^[\t\r\n\x20-\x7e\x80-\xff]*$/);
    assert.equal(head.split(/\r\n|\r|\n/).length, 8);
    assert.ok(head.endsWith("\r\n\r\n"));
  },
);

property(
  "a chunk has its size in front and fits its room",
  fc.oneof(fc.integer({ min: 1, max: 300 }), fc.constantFrom(4095, 4096, 65535, 65536, 1048576)),
  (length) => {
    const into = new Uint8Array(length + CHUNK_ROOM + 3);
    const payload = new Uint8Array(length).fill(7);
    const end = putChunk(payload, into, 3);
    const line = `${length.toString(16)}\r\n`;
    const text = new TextDecoder("latin1").decode(into.subarray(3, 3 + line.length));
    assert.equal(text, line);
    assert.equal(end, 3 + line.length + length + 2);
    assert.deepEqual(into.subarray(end - 2, end), bytesOf("\r\n"));
  },
  { runs: 50 },
);
