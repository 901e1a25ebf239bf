import assert from "node:assert/strict";
import { HubError } from "../../../src/core/error.ts";
import { createEndpointCache, parseEndpoint } from "../../../src/providers/http1/endpoint.ts";
import { createRequestEncoder } from "../../../src/providers/http1/request_bytes.ts";
import type { HeaderPairs, UpstreamRequest } from "../../../src/providers/transport.ts";
import { bytesOf } from "./memory_socket.ts";

const request = (change: Partial<UpstreamRequest> = {}): UpstreamRequest => ({
  method: "POST",
  url: "http://up.test/v1/chat?x=1#frag",
  headers: [],
  body: null,
  signal: new AbortController().signal,
  connectTimeoutMs: 1000,
  ...change,
});

const endpointOf = createEndpointCache();
const encode = createRequestEncoder();
const wire = (change: Partial<UpstreamRequest>) => {
  const asked = request(change);
  const { bytes, tail } = encode(asked, endpointOf(asked.url));
  const text = new TextDecoder("latin1").decode(bytes);
  return tail === null ? text : text + new TextDecoder("latin1").decode(tail);
};
const isInvalid = (error: unknown) =>
  error instanceof HubError && error.code === "invalid_configuration";

Deno.test("a request is written as RFC 9112 wants it", () => {
  assert.equal(
    wire({ headers: [["X-One", "a\tb"], ["x-two", "caf\xe9"]], body: bytesOf("hello") }),
    "POST /v1/chat?x=1 HTTP/1.1\r\nhost: up.test\r\naccept-encoding: identity\r\n" +
      "X-One: a\tb\r\nx-two: caf\xe9\r\ncontent-length: 5\r\n\r\nhello",
  );
  assert.equal(
    wire({ method: "GET", url: "https://[::1]:8443" }),
    "GET / HTTP/1.1\r\nhost: [::1]:8443\r\naccept-encoding: identity\r\n\r\n",
  );
  assert.match(wire({}), /\r\ncontent-length: 0\r\n\r\n$/);
});

Deno.test("fixed headers come first and are taken per array, URL and method", () => {
  const fixedHeaders: HeaderPairs = [["authorization", "Bearer one"]];
  const first = wire({ fixedHeaders, headers: [["x-a", "1"]] });
  assert.match(first, /identity\r\nauthorization: Bearer one\r\nx-a: 1\r\n/);
  assert.equal(wire({ fixedHeaders, headers: [["x-a", "1"]] }), first);
  assert.match(
    wire({ fixedHeaders, url: "http://b.test/" }),
    /^POST \/ HTTP.*\r\nhost: b\.test\r\n/,
  );
  assert.match(wire({ fixedHeaders, method: "PUT" }), /^PUT \/v1/);
  assert.match(wire({ fixedHeaders: [["authorization", "Bearer two"]] }), /Bearer two/);
});

Deno.test("a buffer is used again only after it was given back", () => {
  const asked = request({ body: bytesOf("first") });
  const one = encode(asked, endpointOf(asked.url));
  const before = new TextDecoder().decode(one.bytes);
  const two = encode(request({ body: bytesOf("other") }), endpointOf(asked.url));
  assert.notEqual(one.bytes.buffer, two.bytes.buffer);
  assert.equal(new TextDecoder().decode(one.bytes), before);
  one.release();
  assert.equal(encode(asked, endpointOf(asked.url)).bytes.buffer, one.bytes.buffer);
});

Deno.test("a large body is not copied", () => {
  const body = new Uint8Array(100_000).fill(97);
  const asked = request({ body });
  const { bytes, tail } = encode(asked, endpointOf(asked.url));
  assert.equal(tail, body);
  assert.match(new TextDecoder().decode(bytes), /content-length: 100000\r\n\r\n$/);
  const middle = request({ body: new Uint8Array(50_000) });
  assert.equal(encode(middle, endpointOf(asked.url)).tail, null);
});

Deno.test("nothing can be smuggled through a header, and no value gets into the message", () => {
  const wrong: [string, string][] = [
    ["x-a", "secret\r\nx-b: 1"],
    ["x-a", "secret\n"],
    ["x-a", "secret\r"],
    ["x-a", "secret\0"],
    ["x-a", "secret\x7f"],
    ["x-a", "secret\u2028"],
    ["x-a", "secret\u010a"],
    ["x a", "secret"],
    ["x-a\r\n", "secret"],
    ["x-a:", "secret"],
    ["", "secret"],
    ["Host", "secret"],
    ["Content-Length", "0"],
    ["transfer-encoding", "chunked"],
    ["Connection", "close"],
    ["expect", "100-continue"],
    ["upgrade", "h2c"],
    ["te", "trailers"],
    ["accept-encoding", "gzip"],
  ];
  for (const header of wrong) {
    for (const change of [{ headers: [header] }, { fixedHeaders: [header] }]) {
      assert.throws(
        () => wire(change),
        (error) => isInvalid(error) && !String(error).includes("secret"),
        JSON.stringify(header),
      );
    }
  }
});

Deno.test("a URL gives its endpoint; others than http(s) without credentials are refused", () => {
  assert.deepEqual(parseEndpoint("https://API.test/v1/x?k=v#f"), {
    key: "https://api.test:443",
    tls: true,
    hostname: "api.test",
    port: 443,
    host: "api.test",
    target: "/v1/x?k=v",
    label: "api.test:443",
  });
  const six = parseEndpoint("http://[2001:db8::1]/");
  assert.deepEqual([six.hostname, six.host, six.port, six.label], [
    "2001:db8::1",
    "[2001:db8::1]",
    80,
    "[2001:db8::1]:80",
  ]);
  assert.equal(parseEndpoint("http://a.test/a b").target, "/a%20b");
  for (
    const url of [
      "ftp://a.test/",
      "file:///etc/passwd",
      "a.test/v1",
      "",
      "http://user:secret@a.test/",
      "http://secret@a.test/",
    ]
  ) {
    assert.throws(
      () => parseEndpoint(url),
      (error) => isInvalid(error) && !String(error).includes("secret"),
      url,
    );
  }
  const cached = createEndpointCache();
  const first = cached("http://a.test/0");
  assert.equal(cached("http://a.test/0"), first);
  for (let i = 0; i < 600; i++) cached(`http://a.test/${i}`);
  assert.deepEqual(cached("http://a.test/0"), first);
});
