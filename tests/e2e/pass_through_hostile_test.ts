import assert from "node:assert/strict";
import { PASS_TABLE } from "../../src/http/routes/pass_through_table.ts";
import { startScriptedUpstream } from "../support/scripted_upstream.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";

/** Sends these bytes and gives the status of the answer, then leaves. */
async function raw(hub: TestHub, text: string): Promise<number> {
  const { hostname, port } = new URL(hub.url);
  const socket = await Deno.connect({ hostname, port: Number(port) });
  await socket.write(new TextEncoder().encode(text));
  const buffer = new Uint8Array(65_536);
  let answer = "";
  while (!answer.includes("\r\n\r\n")) {
    const size = await socket.read(buffer);
    if (size === null) break;
    answer += new TextDecoder().decode(buffer.subarray(0, size));
  }
  socket.close();
  return Number(answer.split(" ")[1]);
}

const PATHS = [
  "/v1/files/../admin",
  "/v1/files/..",
  "/v1/files/.",
  "/v1/files/%2e%2e",
  "/v1/files/%2E%2E/content",
  "/v1/files/..%2fadmin",
  "/v1/files/a%2fb",
  "/v1/files/a%5cb",
  "/v1/files/a%00",
  "/v1/files/a%0d%0ax-injected:%201",
  "/v1/files/a%3fx=1",
  "/v1/files/a%23",
  "/v1/files/a%20b",
  "/v1/files/-a",
  "/v1/files/@evil.example",
  "/v1/files/a@b",
  "/v1/files/a;b",
  "/v1/files/%252e%252e",
  "/v1/files/%e4",
  `/v1/files/${"a".repeat(201)}`,
  "/v1/files//content",
  "/v1//files",
  "/v1/files?x=%",
  "/v1/files?provider=%",
  "/v1/files#x",
  "http://evil.example/v1/files",
  "//evil.example/v1/files",
];
const UNKNOWN = [
  "/v1/organization/api_keys",
  "/v1/files/a/b",
  "/v1/filesx",
  "/v1/files/",
  "/v1/FILES",
  "/v1/realtime",
  "/v1/engines",
  "/v1/audio",
  "/v1/images/generations/x",
  "/v2/rerank",
  "/files",
];
/** What must never decide anything behind the hub. */
const SMUGGLED = [
  "connection: content-type",
  "connection: close, Content-Type",
  "connection: close\r\nconnection: accept",
  "content-type: application/json",
  "transfer-encoding: chunked",
  "transfer-encoding: xchunked",
  "content-length: 4",
  "accept: a\r\naccept: b",
  "openai-beta: a\r\nopenai-beta: b",
  "x-loophub-provider: openai\r\nx-loophub-provider: other",
  "x-loophub-provider: http://evil.example",
  "x-loophub-provider: ../other",
  "x-loophub-provider: __proto__",
];
/** Fields that no provider may see. */
const HIDDEN = [
  "cookie: session=hidden",
  "proxy-authorization: Basic hidden",
  "x-api-key: hidden",
  "openai-organization: hidden",
  "openai-project: hidden",
  "x-base-url: http://hidden",
  "x-forwarded-for: hidden",
  "forwarded: for=hidden",
  "x-request-id: req_hidden",
  "idempotency-key: hidden",
  "te: trailers",
  "upgrade: hidden",
  "expect: 100-continue",
  "keep-alive: hidden",
  "trailer: hidden",
  "range: bytes=0-1",
  "referer: http://hidden",
  "user-agent: hidden",
  "accept-encoding: hidden",
  "content-location: hidden",
];

Deno.test("hostile requests never pass through", async (t) => {
  const upstream = await startScriptedUpstream({ body: { ok: true } });
  const config = {
    providers: {
      openai: { baseUrl: upstream.url, apiKey: "sk-own", maxRetries: 0 },
      other: { baseUrl: upstream.url, apiKey: "sk-other", maxRetries: 0 },
    },
    defaultModel: "openai/m",
  };
  try {
    await withHub(config, async (hub) => {
      const host = `host: ${new URL(hub.url).host}`;
      const key = `authorization: Bearer ${hub.key}`;
      const get = (path: string) => raw(hub, `GET ${path} HTTP/1.1\r\n${host}\r\n${key}\r\n\r\n`);
      const post = (path: string, more: string, body: string) =>
        raw(
          hub,
          `POST ${path} HTTP/1.1\r\n${host}\r\n${key}\r\ncontent-type: application/json\r\n` +
            `content-length: ${body.length}\r\n${more}\r\n\r\n${body}`,
        );
      const nobodyAsked = () => assert.equal(upstream.requests.length, 0);

      await t.step("paths that mean something else elsewhere", async () => {
        for (const path of PATHS) {
          const status = await get(path);
          assert.ok(status === 400 || status === 404, `${path}: ${status}`);
          nobodyAsked();
        }
      });

      await t.step("what is not in the table is 404, with another method 405", async () => {
        for (const path of UNKNOWN) {
          assert.equal(await get(path), 404, path);
          assert.equal(await post(path, "x: 1", '{"model":"openai/m"}'), 404, path);
        }
        assert.equal(await get("/v1/images/generations"), 405);
        assert.equal(await post("/v1/files/a/content", "x: 1", "{}"), 405);
        nobodyAsked();
      });

      await t.step("nobody without a key", async () => {
        for (const { method, path } of PASS_TABLE) {
          const address = path.replaceAll(/:\w+/g, "a1");
          for (const bad of ["x: 1", "authorization: Bearer lh_x", "authorization: Basic eDp5"]) {
            const status = await raw(
              hub,
              `${method} ${address} HTTP/1.1\r\n${host}\r\n${bad}\r\n\r\n`,
            );
            assert.equal(status, 401, `${method} ${path}`);
          }
        }
        nobodyAsked();
      });

      await t.step("headers that smuggle", async () => {
        for (const line of SMUGGLED) {
          const status = await post("/v1/moderations", line, '{"input":"x"}');
          assert.equal(status, 400, line);
          nobodyAsked();
        }
        assert.equal(
          await raw(hub, `GET /v1/files HTTP/1.1\r\n${host}\r\n${key}\r\nx: a\r\n b\r\n\r\n`),
          400,
        );
        nobodyAsked();
      });

      await t.step("bodies that smuggle", async () => {
        for (
          const body of [
            '{"model":"openai/m","model":"other/m"}',
            '{"model":"openai/m","mod\\u0065l":"other/m"}',
            '{"model":["openai/m"]}',
            '{"model":"openai/m"} {"model":"other/m"}',
            '[{"model":"openai/m"}]',
            '{"model":"nobody/m"}',
            '{"model":""}',
            "{",
          ]
        ) {
          const status = await post("/v1/images/generations", "x: 1", body);
          assert.ok(status === 400 || status === 404, `${body}: ${status}`);
          nobodyAsked();
        }
        const text = await raw(
          hub,
          `POST /v1/images/generations HTTP/1.1\r\n${host}\r\n${key}\r\n` +
            "content-type: text/plain\r\ncontent-length: 2\r\n\r\n{}",
        );
        assert.equal(text, 415);
        const coded = await raw(
          hub,
          `POST /v1/files HTTP/1.1\r\n${host}\r\n${key}\r\ncontent-encoding: gzip\r\n` +
            "content-type: multipart/form-data; boundary=b\r\ncontent-length: 2\r\n\r\n{}",
        );
        assert.equal(coded, 415);
        nobodyAsked();
      });

      await t.step("addresses of the client's own are no addresses", async () => {
        const body =
          '{"input":"x","base_url":"http://127.0.0.1:1","api_base":"http://127.0.0.1:1"}';
        assert.equal(await post("/v1/moderations", "x-base-url: http://127.0.0.1:1", body), 200);
        assert.equal(upstream.requests.at(-1)?.text, body);
      });

      await t.step("fields that stay here", async () => {
        for (const line of HIDDEN) {
          const status = await post("/v1/moderations", line, '{"input":"x"}');
          assert.ok(status === 200 || status === 100, `${line}: ${status}`);
          const sent = upstream.requests.at(-1);
          const name = line.slice(0, line.indexOf(":"));
          const text = JSON.stringify(sent?.headers);
          assert.ok(!text.includes("hidden") && !text.includes(hub.key), `${line} ${text}`);
          if (!["user-agent", "accept-encoding"].includes(name)) {
            assert.equal(sent?.header(name), null, line);
          }
          assert.equal(sent?.header("authorization"), "Bearer sk-own");
        }
        assert.equal(
          await post("/v1/moderations", "connection: accept\r\naccept: x/y", '{"input":"x"}'),
          200,
        );
        assert.equal(upstream.requests.at(-1)?.header("accept"), null, "the connection claims it");
        assert.equal(upstream.requests.at(-1)?.header("connection"), null);
      });
    });
  } finally {
    await upstream.stop();
  }
});
