import assert from "node:assert/strict";
import { Type } from "@sinclair/typebox";
import { jsonReply } from "../../src/http/reply.ts";
import { defineRoute } from "../../src/http/route.ts";
import { createTestApp } from "./fixture.ts";

const save = defineRoute({
  method: "POST",
  path: "/save",
  auth: "public",
  tag: "test",
  summary: "Saves",
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 100, default: 20 }),
    full: Type.Optional(Type.Boolean()),
    tag: Type.Optional(Type.Array(Type.String())),
  }, { additionalProperties: false }),
  body: Type.Object({
    title: Type.String({ maxLength: 10 }),
    kind: Type.Optional(Type.Union([Type.Literal("a"), Type.Literal("b")])),
    messages: Type.Optional(Type.Array(Type.Object({ role: Type.String() }))),
    stream: Type.Boolean({ default: true }),
  }, { additionalProperties: false }),
  responses: { 200: { description: "What came", schema: Type.Object({}) } },
  handle: (call) => jsonReply({ query: call.query, body: call.body }),
});
const app = createTestApp([save]);
const JSON_TYPE = { "content-type": "application/json" };

async function post(
  body: BodyInit,
  options: { path?: string; headers?: HeadersInit } = {},
) {
  const { path = "/save", headers = JSON_TYPE } = options;
  const response = await app.request(path, { method: "POST", body, headers });
  return { status: response.status, value: await response.json() };
}

async function gzip(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

Deno.test("query texts are converted where the schema wants it, defaults filled in", async () => {
  const { value } = await post('{"title":"x"}', { path: "/save?limit=5&full=true&tag=a&tag=b" });
  assert.deepEqual(value, {
    query: { limit: 5, full: true, tag: ["a", "b"] },
    body: { title: "x", stream: true },
  });
  assert.deepEqual((await post('{"title":"x"}')).value.query, { limit: 20 });
});

Deno.test("what does not fit is told with its place, what came and what was wanted", async () => {
  const cases: [path: string, body: string, param: string | null, message: RegExp][] = [
    ["/save?limit=0", '{"title":"x"}', "limit", /limit \(in the query\): got 0, wanted an integer/],
    ["/save?limit=x", '{"title":"x"}', "limit", /got "x", wanted an integer/],
    ["/save?limit=1&limit=2", '{"title":"x"}', "limit", /got it twice/],
    ["/save?nope=1", '{"title":"x"}', "nope", /wanted no property of this name/],
    ["/save?__proto__=1", '{"title":"x"}', "__proto__", /wanted no property/],
    ["/save", "{}", "title", /title \(in the body\): got nothing, wanted a string/],
    ["/save", '{"title":5}', "title", /got 5, wanted a string/],
    ["/save", '{"title":"x","kind":"c"}', "kind", /got "c", wanted "a" or "b"/],
    ["/save", '{"title":"x","messages":[{"role":1}]}', "messages[0].role", /got 1/],
    ["/save", "[]", null, /The body: got an empty list, wanted an object/],
  ];
  for (const [path, body, param, message] of cases) {
    const { status, value } = await post(body, { path });
    assert.equal(status, 400, `${path} ${body}`);
    assert.equal(value.error.param, param);
    assert.match(value.error.message, message);
  }
});

Deno.test("a body must be JSON, say so, and decode within the cap", async () => {
  const text = await post("{}", { headers: { "content-type": "text/plain" } });
  assert.equal(text.status, 415);
  assert.equal(text.value.error.code, "unsupported_media_type");
  const broken = await post('{"title": secret');
  assert.equal(broken.value.error.code, "invalid_json");
  assert.doesNotMatch(broken.value.error.message, /secret/);

  const packed = await gzip(new TextEncoder().encode('{"title":"zip"}'));
  const zipped = await post(packed, { headers: { ...JSON_TYPE, "content-encoding": "gzip" } });
  assert.equal(zipped.value.body.title, "zip");
  const bomb = await gzip(new Uint8Array(64 * 1024 * 1024));
  assert.ok(bomb.length < 100_000);
  const burst = await post(bomb, { headers: { ...JSON_TYPE, "content-encoding": "gzip" } });
  assert.equal(burst.status, 413);
  assert.equal(burst.value.error.code, "body_too_large");
  const torn = await post(packed.slice(0, -4), {
    headers: { ...JSON_TYPE, "content-encoding": "gzip" },
  });
  assert.equal(torn.status, 400);
  const other = await post("{}", { headers: { ...JSON_TYPE, "content-encoding": "br" } });
  assert.equal(other.status, 415);
  const large = await post(`{"title":"${"x".repeat(1024 * 1024)}"}`);
  assert.equal(large.status, 413);
});

Deno.test("hostile JSON is refused before it is built", async () => {
  const deep = await post("[".repeat(100_000) + "]".repeat(100_000));
  assert.equal(deep.status, 400);
  assert.match(deep.value.error.message, /levels deep/);
  const proto = await post('{"title":"x","__proto__":{"admin":true}}');
  assert.equal(proto.status, 400);
  assert.equal(proto.value.error.param, "__proto__");
});

Deno.test("the description is made from the same schemas", () => {
  const { openapi, paths } = app.openapi as {
    openapi: string;
    paths: Record<string, Record<string, Record<string, unknown>>>;
  };
  assert.equal(openapi, "3.1.0");
  assert.deepEqual(Object.keys(paths), ["/save", "/openapi.json"]);
  const operation = paths["/save"]?.post;
  assert.ok(operation !== undefined);
  assert.equal(operation.operationId, "post_save");
  assert.deepEqual(operation.security, []);
  assert.deepEqual(
    (operation.parameters as { name: string; required: boolean }[]).map((one) => one.name),
    ["limit", "full", "tag"],
  );
  assert.match(JSON.stringify(operation.requestBody), /"maxLength":10/);
});

Deno.test("/openapi.json is served", async () => {
  const response = await app.request("/openapi.json");
  assert.deepEqual(await response.json(), app.openapi);
});
