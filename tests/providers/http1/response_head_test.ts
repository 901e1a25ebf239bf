import assert from "node:assert/strict";
import { HubError } from "../../../src/core/error.ts";
import { planBody } from "../../../src/providers/http1/body_plan.ts";
import {
  findHeadEnd,
  MAX_HEAD_BYTES,
  MAX_HEADERS,
  parseHead,
} from "../../../src/providers/http1/response_head.ts";
import { bytesOf } from "./memory_socket.ts";

const parse = (text: string) => parseHead(bytesOf(text));
const isMalformed = (error: unknown) =>
  error instanceof HubError && error.code === "upstream_malformed";

Deno.test("a head gives its status and fields", () => {
  const head = parse(
    "HTTP/1.1 200 OK\r\nContent-Type:text/plain\r\nX-A: \t b c \t\r\nx-a: d\r\nx-empty:\r\nx-latin: caf\xe9\r\n\r\n",
  );
  assert.equal(head.status, 200);
  assert.equal(head.minor, 1);
  assert.equal(head.fields.get("content-type"), "text/plain");
  assert.equal(head.fields.get("x-a"), "b c");
  assert.deepEqual(head.fields.all("x-a"), ["b c", "d"]);
  assert.equal(head.fields.get("x-empty"), "");
  assert.equal(head.fields.get("x-latin"), "caf\xe9");
  assert.equal(head.fields.get("x-none"), null);
  assert.deepEqual(head.fields.pairs().map(([name]) => name), [
    "content-type",
    "x-a",
    "x-a",
    "x-empty",
    "x-latin",
  ]);
  assert.equal(parse("HTTP/1.0 404 \r\n\r\n").minor, 0);
  assert.equal(parse("HTTP/1.1 599\r\n\r\n").status, 599);
});

Deno.test("what is no head of HTTP/1 is refused", () => {
  const wrong = [
    "HTTP/1.2 200 OK\r\n\r\n",
    "HTTP/1.1  200 OK\r\n\r\n",
    "HTTP/1.1 20 OK\r\n\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/1.1 099 OK\r\n\r\n",
    "HTTP/1.1 600 OK\r\n\r\n",
    "HTTP/1.1 200 O\0K\r\n\r\n",
    "HTTP/1.1 200 OK\r\na: b\r\n folded\r\n\r\n",
    "HTTP/1.1 200 OK\r\na : b\r\n\r\n",
    "HTTP/1.1 200 OK\r\n: b\r\n\r\n",
    "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    "HTTP/1.1 200 OK\r\na: b\nc: d\r\n\r\n",
    "HTTP/1.1 200 OK\r\na: b\rc: d\r\n\r\n",
    "HTTP/1.1 200 OK\r\na: b\0\r\n\r\n",
    "HTTP/1.1 200 OK\r\na: \x7f\r\n\r\n",
    "HTTP/1.1 200 OK\r\n(a): b\r\n\r\n",
  ];
  for (const text of wrong) assert.throws(() => parse(text), isMalformed, JSON.stringify(text));
});

Deno.test("the end of a head is found wherever its bytes are cut", () => {
  const text = "HTTP/1.1 200 OK\r\na: b\r\nc: \r\n\r\nbody\r\n\r\n";
  const bytes = bytesOf(text);
  const end = text.indexOf("\r\n\r\n") + 4;
  for (let cut = 0; cut <= bytes.length; cut++) {
    const found = findHeadEnd(bytes.subarray(0, cut), 0);
    assert.equal(found, cut >= end ? end : -1);
    if (found < 0) assert.equal(findHeadEnd(bytes, cut), end, `seen ${cut}`);
  }
});

Deno.test("a head is bounded in bytes and fields, and another protocol is noticed at its first bytes", () => {
  assert.throws(() => findHeadEnd(bytesOf("SSH-2.0"), 0), isMalformed);
  assert.throws(() => findHeadEnd(bytesOf("HTTP/2"), 0), isMalformed);
  assert.equal(findHeadEnd(bytesOf("HTT"), 0), -1);
  const large = `HTTP/1.1 200 OK\r\na: ${"x".repeat(MAX_HEAD_BYTES)}`;
  assert.throws(() => findHeadEnd(bytesOf(large), 0), isMalformed);
  assert.throws(() => findHeadEnd(bytesOf(`${large}\r\n\r\n`), 0), isMalformed);
  const fields = (count: number) => `HTTP/1.1 200 OK\r\n${"a: b\r\n".repeat(count)}\r\n`;
  assert.equal(parse(fields(MAX_HEADERS)).fields.all("a").length, MAX_HEADERS);
  assert.throws(() => parse(fields(MAX_HEADERS + 1)), isMalformed);
});

const plan = (fields: string, { method = "POST", status = 200, minor = 1 } = {}) =>
  planBody(parse(`HTTP/1.${minor} ${status} X\r\n${fields}\r\n`), method);

Deno.test("the framing of a body follows from its head", () => {
  const length = { kind: "length", length: 5 };
  assert.deepEqual(plan("content-length: 5\r\n").framing, length);
  assert.deepEqual(plan("content-length: 0\r\n").framing, { kind: "none" });
  assert.deepEqual(plan("Transfer-Encoding: Chunked\r\n").framing, { kind: "chunked" });
  assert.deepEqual(plan("").framing, { kind: "close" });
  assert.deepEqual(plan("content-length: 5\r\n", { method: "HEAD" }).framing, { kind: "none" });
  assert.deepEqual(plan("content-length: 5\r\n", { status: 304 }).framing, { kind: "none" });
  assert.deepEqual(plan("", { status: 204 }).framing, { kind: "none" });
  assert.deepEqual(plan("", { status: 204 }).keep, true);
  assert.deepEqual(plan("content-length: 5\r\n", { status: 204 }).keep, false);
  assert.deepEqual(plan("content-length: 5\r\n", { minor: 0 }).framing, length);
});

Deno.test("framing that contradicts itself is refused", () => {
  const wrong = [
    "content-length: 5\r\ncontent-length: 5\r\n",
    "content-length: 5\r\ncontent-length: 6\r\n",
    "content-length: 5, 5\r\n",
    "content-length: -5\r\n",
    "content-length: +5\r\n",
    "content-length: 5x\r\n",
    "content-length:\r\n",
    "content-length: 9999999999999999\r\n",
    "content-length: 5\r\ntransfer-encoding: chunked\r\n",
    "transfer-encoding: gzip, chunked\r\n",
    "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
    "transfer-encoding: identity\r\n",
    "transfer-encoding:\r\n",
  ];
  for (const fields of wrong) {
    assert.throws(() => plan(fields), isMalformed, fields);
    assert.throws(() => plan(fields, { method: "HEAD" }), isMalformed, fields);
  }
  assert.throws(() => plan("transfer-encoding: chunked\r\n", { minor: 0 }), isMalformed);
});

Deno.test("a connection is kept only when its server means to", () => {
  const sized = "content-length: 5\r\n";
  assert.equal(plan(sized).keep, true);
  assert.equal(plan(`${sized}connection: keep-alive\r\n`).keep, true);
  assert.equal(plan(`${sized}connection: Close\r\n`).keep, false);
  assert.equal(plan(`${sized}connection: x, close\r\n`).keep, false);
  assert.equal(plan(`${sized}connection: closed\r\n`).keep, true);
  assert.equal(plan(`${sized}connection: x\r\nconnection: close\r\n`).keep, false);
  assert.equal(plan(sized, { minor: 0 }).keep, false);
  assert.equal(plan("").keep, false);
});

Deno.test("the coding of the content is told, identity is none", () => {
  assert.equal(plan("content-encoding: GZIP\r\n").coding, "gzip");
  assert.equal(plan("content-encoding: identity\r\n").coding, null);
  assert.equal(plan("").coding, null);
  assert.equal(plan("content-encoding: gzip\r\ncontent-encoding: br\r\n").coding, "gzip,br");
});
