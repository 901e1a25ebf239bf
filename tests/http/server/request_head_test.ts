import fc from "fast-check";
import assert from "node:assert/strict";
import { HubError } from "../../../src/core/error.ts";
import { CHUNKED, parseRequestHead } from "../../../src/http/server/request_head.ts";
import { bytesOf } from "../../providers/http1/memory_socket.ts";
import { property } from "../../support/property.ts";

const parse = (text: string) => parseRequestHead(bytesOf(text), 100);
const refused = (text: string) =>
  assert.throws(
    () => parse(text),
    (error) => error instanceof HubError && error.code === "invalid_request",
    JSON.stringify(text),
  );
const withField = (field: string) => `POST / HTTP/1.1\r\nhost: a\r\n${field}\r\n\r\n`;

Deno.test("a bare carriage return never ends a head or a line", () => {
  for (
    const field of [
      "\rcontent-length: 5",
      "\r\rcontent-length: 5",
      "\rtransfer-encoding: chunked",
      "a: b\rcontent-length: 5",
      "a: b\r\r",
      "a\r: b",
      "\r",
    ]
  ) refused(withField(field));
  refused("POST / HTTP/1.1\r\n\rcontent-length: 5\r\n\r\n");
});

Deno.test("framings that two parsers could read in two ways are refused", () => {
  for (
    const field of [
      "content-length: +5",
      "content-length: -5",
      "content-length: 5, 5",
      "content-length: 5 5",
      "content-length: 0x5",
      "content-length: 5.0",
      "content-length: 5e0",
      "content-length:",
      "content-length: 99999999999999999999",
      "content-length: 5\r\nContent-Length: 5",
      "content-length: 5\r\ntransfer-encoding: chunked",
      "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
      "transfer-encoding: chunked, chunked",
      "transfer-encoding: gzip, chunked",
      "transfer-encoding: chunked;q=1",
      "transfer-encoding: xchunked",
      "transfer-encoding: identity",
      "transfer-encoding:",
      "transfer-encoding:\x0bchunked",
      "transfer-encoding: chunked\x0b",
      "transfer-encoding : chunked",
      "transfer-encoding\t: chunked",
      " transfer-encoding: chunked",
      "a: b\r\n transfer-encoding: chunked",
      "a: b\r\n\ttransfer-encoding: chunked",
      "a: b\ntransfer-encoding: chunked",
      "a: b\x00",
      "a\x00: b",
      "\x00: b",
      ": b",
      "no colon",
      "a(b): c",
      "a\xe9: b",
    ]
  ) refused(withField(field));
  refused("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n");
});

Deno.test("request lines that two parsers could read in two ways are refused", () => {
  for (
    const line of [
      "GET  / HTTP/1.1",
      "GET / HTTP/1.1 ",
      "GET /  HTTP/1.1",
      "GET\t/ HTTP/1.1",
      " GET / HTTP/1.1",
      "GET / HTTP/1.2",
      "GET / HTTP/2.0",
      "GET / HTTP/1.10",
      "GET / HTTP/01.1",
      "GET / http/1.1",
      "GET /",
      "GET / HTTP/1.1\r",
      "GET /\x00 HTTP/1.1",
      "GET /\x7f HTTP/1.1",
      "GET /a b HTTP/1.1",
      "G\xe9T / HTTP/1.1",
      "GET / HTTP/1.1\x00",
    ]
  ) refused(`${line}\r\nhost: a\r\n\r\n`);
});

Deno.test("Connection is read in all its fields", () => {
  const keep = (...fields: string[]) => parse(withField(fields.join("\r\n"))).keep;
  assert.equal(keep("connection: keep-alive"), true);
  assert.equal(keep("connection: close"), false);
  assert.equal(keep("connection: keep-alive", "connection: close"), false);
  assert.equal(keep("connection: close", "connection: keep-alive"), false);
  assert.equal(keep("connection: x, Close ,y"), false);
  assert.equal(keep("connection: closed"), true);
});

property(
  "whatever bytes stand in a head, it is refused or its fields are the lines it has",
  fc.tuple(
    fc.array(
      fc.constantFrom(..."\r\n\t :,;ab0\x00\x7f\xe9", "\r\n", "content-length: ", "5", "chunked")
        .map(String),
      { maxLength: 30 },
    ).map((parts) => parts.join("")),
    fc.boolean(),
  ),
  ([junk, close]) => {
    const text = `GET / HTTP/1.1\r\n${junk}${close ? "\r\nconnection: close" : ""}\r\n\r\n`;
    // Only what stands before the first blank line is given to the parser.
    const whole = text.slice(0, text.indexOf("\r\n\r\n") + 4);
    let head;
    try {
      head = parse(whole);
    } catch (error) {
      assert.ok(error instanceof HubError);
      return;
    }
    const lines = whole.slice(0, -4).split("\r\n").slice(1);
    assert.deepEqual(
      head.fields.pairs(),
      lines.map((line) => {
        const [, name = "", value = ""] = /^([^:]*):[ \t]*(.*?)[ \t]*$/.exec(line) ?? [];
        return [name.toLowerCase(), value];
      }),
    );
    assert.ok(!/[\r\n\0]/.test(head.fields.pairs().flat().join("")));
    assert.ok(head.bodyLength === CHUNKED || head.bodyLength >= 0);
  },
  { runs: 3000 },
);
