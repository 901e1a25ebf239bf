import assert from "node:assert/strict";
import type { ByteSource } from "../../src/http/byte_source.ts";
import {
  bytesReply,
  emptyReply,
  fromResponse,
  isSource,
  jsonReply,
  type Reply,
  type ReplyEnd,
  streamReply,
  toResponse,
} from "../../src/http/reply.ts";

const encoder = new TextEncoder();

/** A source of these pieces; an error among them breaks it there. `reasons` holds what it was cancelled with. */
function sourceOf(pieces: (string | Error)[]) {
  const left = [...pieces];
  const reasons: unknown[] = [];
  const source: ByteSource = {
    pull() {
      const piece = left.shift();
      if (piece instanceof Error) return Promise.reject(piece);
      return Promise.resolve(piece === undefined ? null : encoder.encode(piece));
    },
    cancel: (reason) => void reasons.push(reason),
  };
  return { source, reasons };
}

/** The ends that a reply tells. */
function watch(reply: Reply): ReplyEnd[] {
  const ends: ReplyEnd[] = [];
  reply.listener = { ended: (end) => ends.push(end) };
  return ends;
}

Deno.test("a value is sent as JSON, 200 unless told", async () => {
  const reply = jsonReply({ a: 1, b: undefined, at: new Date(0) });
  const ends = watch(reply);
  const response = toResponse(reply);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "application/json");
  assert.equal(await response.text(), '{"a":1,"at":"1970-01-01T00:00:00.000Z"}');
  assert.deepEqual(ends, [{ outcome: "done", bytesOut: 39 }]);
});

Deno.test("further fields stand beside the content type, and may replace it", () => {
  const { status, headers } = jsonReply({}, { status: 201, headers: { "x-a": "1" } });
  assert.equal(status, 201);
  assert.deepEqual({ ...headers }, { "content-type": "application/json", "x-a": "1" });
  const other = jsonReply({}, { headers: { "content-type": "application/problem+json" } });
  assert.equal(other.headers["content-type"], "application/problem+json");
});

Deno.test("replies share no field that one of them sets", () => {
  const first = jsonReply({});
  const second = jsonReply({});
  first.extra.push("x-request-id", "1");
  assert.deepEqual(second.extra, []);
  assert.throws(() => {
    (first.headers as Record<string, string>)["x-a"] = "1";
  }, TypeError);
});

Deno.test("bytes count as bytes, not as characters", async () => {
  for (const body of ["é🌍", encoder.encode("é🌍")]) {
    const reply = bytesReply(body, { contentType: "text/plain" });
    const ends = watch(reply);
    assert.equal(await toResponse(reply).text(), "é🌍");
    assert.deepEqual(ends, [{ outcome: "done", bytesOut: 6 }]);
  }
});

Deno.test("an empty reply has no body", async () => {
  const reply = emptyReply(304, { etag: '"1"' });
  const ends = watch(reply);
  const response = toResponse(reply);
  assert.equal(response.status, 304);
  assert.equal(response.headers.get("etag"), '"1"');
  assert.equal(response.body, null);
  assert.equal(emptyReply().status, 204);
  assert.deepEqual(ends, [{ outcome: "done", bytesOut: 0 }]);
  await response.text();
});

Deno.test("fields of the app come behind those of the reply, also twice by one name", () => {
  const reply = emptyReply();
  reply.extra.push("x-request-id", "req_1", "set-cookie", "a=1", "set-cookie", "b=2");
  const { headers } = toResponse(reply);
  assert.equal(headers.get("x-request-id"), "req_1");
  assert.deepEqual(headers.getSetCookie(), ["a=1", "b=2"]);
});

Deno.test("only a body that is made while it is sent is a source", () => {
  assert.equal(isSource(sourceOf([]).source), true);
  for (const body of [null, "", "text", new Uint8Array(1)]) assert.equal(isSource(body), false);
});

Deno.test("a stream is pulled as it is read, and its end is told with its bytes", async () => {
  const { source } = sourceOf(["one ", "two"]);
  const reply = streamReply(source, { contentType: "text/event-stream" });
  assert.equal(reply.flush, false);
  const ends = watch(reply);
  const response = toResponse(reply);
  assert.deepEqual(ends, []);
  assert.equal(await response.text(), "one two");
  assert.deepEqual(ends, [{ outcome: "done", bytesOut: 7 }]);
});

Deno.test("a source that fails breaks the body off, and the failure is told", async () => {
  const failure = new Error("cut");
  const { source } = sourceOf(["one", failure]);
  const reply = streamReply(source, { contentType: "text/plain" });
  const ends = watch(reply);
  await assert.rejects(toResponse(reply).text(), failure);
  assert.deepEqual(ends, [{ outcome: "cut", bytesOut: 3, error: failure }]);
});

Deno.test("a reader that leaves cancels the source with its reason", async () => {
  const { source, reasons } = sourceOf(["one", "two"]);
  const reply = streamReply(source, { contentType: "text/plain" });
  const ends = watch(reply);
  const reader = toResponse(reply).body?.getReader();
  await reader?.read();
  await reader?.cancel("gone");
  assert.deepEqual(reasons, ["gone"]);
  assert.deepEqual(ends, [{ outcome: "left", bytesOut: 3 }]);
});

Deno.test("a Response becomes a reply and back, cookies apart, its length left to the server", async () => {
  const given = new Response("hello", {
    status: 202,
    headers: [["x-a", "1"], ["set-cookie", "a=1"], ["set-cookie", "b=2"], ["content-length", "5"]],
  });
  const reply = fromResponse(given);
  assert.equal(reply.status, 202);
  assert.equal("content-length" in reply.headers, false);
  assert.equal("set-cookie" in reply.headers, false);
  const response = toResponse(reply);
  assert.equal(response.headers.get("x-a"), "1");
  assert.deepEqual(response.headers.getSetCookie(), ["a=1", "b=2"]);
  assert.equal(await response.text(), "hello");
  assert.equal(fromResponse(new Response(null, { status: 204 })).body, null);
});

Deno.test("a Response's fields about its connection stay behind", () => {
  const headers = {
    "connection": "close",
    "keep-alive": "timeout=5",
    "transfer-encoding": "chunked",
    "content-length": "3",
    "date": "Thu, 01 Jan 1970 00:00:00 GMT",
    "content-type": "text/plain",
  };
  assert.deepEqual(fromResponse(new Response("abc", { headers })).headers, {
    "content-type": "text/plain",
  });
});
