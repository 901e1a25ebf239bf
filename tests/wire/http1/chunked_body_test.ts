import fc from "fast-check";
import assert from "node:assert/strict";
import {
  ChunkedBody,
  MAX_CHUNK_LINE,
  MAX_TRAILER_BYTES,
} from "../../../src/wire/http1/chunked_body.ts";
import { property } from "../../support/property.ts";
import { bytesOf, cutAt } from "../../providers/http1/memory_socket.ts";

function dechunk(pieces: readonly Uint8Array[]) {
  const body = new ChunkedBody();
  let text = "";
  let surplus = 0;
  for (const piece of pieces) {
    text += new TextDecoder("latin1").decode(body.push(piece.slice()));
    surplus += body.surplus;
  }
  return { text, surplus, done: body.done, failed: body.failure };
}

const chunk = (text: string, extension = "") =>
  `${text.length.toString(16)}${extension}\r\n${text}\r\n`;

const wellFormed = fc.record({
  chunks: fc.array(
    fc.record({
      text: fc.string({ minLength: 1, maxLength: 40, unit: "binary-ascii" }),
      extension: fc.constantFrom("", "", "", ";a=b", ' ; q="x y"'),
    }),
    { maxLength: 8 },
  ),
  trailers: fc.constantFrom("", "x: y\r\n", "x: y\r\nlonger-name: z\r\n"),
  behind: fc.constantFrom("", "HTTP/1.1 200 OK"),
}).map(({ chunks, trailers, behind }) => ({
  payload: chunks.map(({ text }) => text).join(""),
  behind,
  wire: chunks.map(({ text, extension }) => chunk(text, extension)).join("") +
    `0\r\n${trailers}\r\n${behind}`,
}));

property(
  "a chunked body is the same however its bytes are cut",
  fc.tuple(wellFormed, fc.array(fc.nat(400))),
  ([{ payload, wire, behind }, places]) => {
    const bytes = bytesOf(wire);
    const wanted = { text: payload, surplus: behind.length, done: true, failed: null };
    assert.deepEqual(dechunk([bytes]), wanted);
    assert.deepEqual(dechunk(cutAt(bytes, places)), wanted);
    assert.deepEqual(dechunk([...bytes].map((byte) => Uint8Array.of(byte))), wanted);
  },
  { runs: 1000 },
);

property(
  "a damaged chunked body ends the same however it is cut, and never gives more bytes than came",
  fc.tuple(wellFormed, fc.nat(400), fc.nat(255), fc.array(fc.nat(400))),
  ([{ wire }, at, byte, places]) => {
    const bytes = bytesOf(wire);
    bytes[at % bytes.length] = byte;
    const whole = dechunk([bytes]);
    assert.deepEqual(dechunk(cutAt(bytes, places)), whole);
    assert.deepEqual(dechunk([...bytes].map((value) => Uint8Array.of(value))), whole);
    assert.ok(whole.text.length <= bytes.length);
  },
  { runs: 1000 },
);

Deno.test("every cut of a chunked body gives the same", () => {
  const bytes = bytesOf(`${chunk("hello")}${chunk("x".repeat(300), ";e")}0\r\nt: u\r\n\r\n`);
  const whole = dechunk([bytes]);
  assert.equal(whole.done, true);
  for (let cut = 1; cut < bytes.length; cut++) {
    assert.deepEqual(dechunk(cutAt(bytes, [cut])), whole);
    assert.equal(dechunk([bytes.subarray(0, cut)]).done, false);
  }
});

Deno.test("chunk framing that nobody should send is refused", () => {
  const wrong = [
    "\r\n",
    "g\r\n",
    "-1\r\nx\r\n",
    "0x1\r\nx\r\n",
    "1\nx\n",
    "1\rx",
    "1\r\nxx\r\n",
    "1\r\nx\n",
    "1\r\nx\r\r",
    "1;a\nb\r\nx\r\n",
    "fffffffffffff\r\n",
    "0\r\na: b\nc: d\r\n\r\n",
    "0\r\n\rx",
    "7 7\r\n1234567\r\n",
    "7 \r\n1234567\r\n",
    "7\t\r\n1234567\r\n",
    "1;a=\0b\r\nx\r\n",
    "1;a=\x7fb\r\nx\r\n",
    "1;a\x0bb\r\nx\r\n",
    "0\r\nno colon\r\n\r\n",
    "0\r\n: x\r\n\r\n",
    "0\r\na : x\r\n\r\n",
    "0\r\n folded: x\r\n\r\n",
    "0\r\na: \0\r\n\r\n",
    "0\r\nContent-Length: 5\r\n\r\n",
    "0\r\na: b\r\ntransfer-encoding: chunked\r\n\r\n",
    "0\r\nHOST: x\r\n\r\n",
    "0\r\nauthorization: Bearer x\r\n\r\n",
    "0\r\nx-api-key: x\r\n\r\n",
    `1;${"e".repeat(MAX_CHUNK_LINE + 1)}`,
    `0\r\n${"a: b\r\n".repeat(MAX_TRAILER_BYTES / 4 + 1)}`,
  ];
  for (const text of wrong) {
    assert.match(dechunk([bytesOf(text)]).failed ?? "", /^has /, JSON.stringify(text));
  }
});

Deno.test("a single chunk is not moved, several are put together in place", () => {
  const one = bytesOf(chunk("hello"));
  const view = new ChunkedBody().push(one);
  assert.equal(view.buffer, one.buffer);
  assert.equal(view.byteOffset, 3);
  const two = bytesOf(chunk("hello") + chunk("world"));
  const joined = new ChunkedBody().push(two);
  assert.equal(joined.buffer, two.buffer);
  assert.equal(new TextDecoder().decode(joined), "helloworld");
});
