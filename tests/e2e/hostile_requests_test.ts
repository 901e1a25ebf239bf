import assert from "node:assert/strict";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";

const BAD_HOSTS = [
  "evil.example",
  "evil.example:80",
  "localhost.evil.example",
  "127.0.0.1.evil.example",
  "localhost@evil.example",
  "evil.example#localhost",
  "localhost/evil",
  "localhost:80:80",
  "localhost:999999",
  "127.0.0.1, evil.example",
  "127.0.0.2",
  "0.0.0.0",
  "[::1",
  "[::ffff:127.0.0.1%25lo]",
  "localhost\\evil",
  "",
];

/** Sends these bytes and gives the status and the body of the JSON answer, then leaves. */
async function raw(hub: TestHub, text: string): Promise<{ status: number; body: string }> {
  const { hostname, port } = new URL(hub.url);
  const socket = await Deno.connect({ hostname, port: Number(port) });
  await socket.write(new TextEncoder().encode(text));
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(65_536);
  let answer = "";
  while (!/\r\n\r\n.*\}$/s.test(answer)) {
    const size = await socket.read(buffer);
    assert.ok(size !== null, `The connection ended after ${answer}`);
    answer += decoder.decode(buffer.subarray(0, size));
  }
  socket.close();
  const [head = "", body = ""] = answer.split("\r\n\r\n");
  return { status: Number(head.split(" ")[1]), body };
}

const post = (hub: TestHub, body: string | Uint8Array<ArrayBuffer>) =>
  fetch(`${hub.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${hub.key}`, "content-type": "application/json" },
    body,
  });

Deno.test("hostile requests are refused and reach nobody", async (t) => {
  const upstream = await startScriptedUpstream(chatStream({ text: "Hi you" }));
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-up" } },
    defaultModel: "up/m",
    server: { maxBodyBytes: 64 * 1024 },
  };
  try {
    await withHub(config, async (hub) => {
      await t.step("Host headers of others", async () => {
        const get = (hosts: string[]) =>
          raw(
            hub,
            [
              "GET /v1/models HTTP/1.1",
              ...hosts.map((host) => `host: ${host}`),
              `authorization: Bearer ${hub.key}`,
              "connection: close",
            ].join("\r\n") + "\r\n\r\n",
          );
        for (const host of BAD_HOSTS) {
          const { status, body } = await get([host]);
          assert.ok(status === 403 || status === 421 || status === 400, `${host}: ${status}`);
          assert.equal(JSON.parse(body).error.code, "invalid_host", host);
        }
        for (const hosts of [[], ["localhost", "localhost"], ["localhost", "evil.example"]]) {
          const { status } = await get(hosts);
          assert.ok(status >= 400 && status < 500, `${hosts}: ${status}`);
        }
        for (const host of ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:4141"]) {
          assert.equal((await get([host])).status, 200, host);
        }
      });

      await t.step("bodies that are wrong, with the place", async () => {
        const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
        const cases: [string | Uint8Array<ArrayBuffer>, string, RegExp][] = [
          ["", "invalid_json", /at byte 0/],
          ['{"model":"up/m",}', "invalid_json", /at byte 16/],
          ['{"model":"up/m"} x', "invalid_json", /at byte 17/],
          ['{"model":"up/m","a":01}', "invalid_json", /at byte 21/],
          ['{"model":"up/m","a":"\t"}', "invalid_json", /at byte 21/],
          ['{"model":"up/m","a":NaN}', "invalid_json", /at byte 20/],
          [`{"model":"up/m","a":${nested(64)}}`, "invalid_request", /deep/],
          [`{"model":"up/m","a":${nested(20_000)}}`, "invalid_request", /deep/],
          ['{"model":"up/m","model":"up/other"}', "invalid_request", /model twice/],
          ['{"model":"up/m","\\u006dodel":"up/other"}', "invalid_request", /model twice/],
          ['{"model":"up/m","stream":true,"stream":false}', "invalid_request", /stream twice/],
          ['{"model":"up/m","stream":"yes"}', "invalid_request", /stream must be/],
          ['{"messages":[]}', "invalid_request", /model must be/],
          [`{"model":"up/${"x".repeat(201)}"}`, "invalid_request", /model must be/],
          ['{"model":"up/a\\u0000b"}', "invalid_request", /model must be/],
          ['{"model":"up/\\ud800"}', "invalid_request", /model must be/],
        ];
        for (const [body, code, message] of cases) {
          const answer = await post(hub, body);
          const { error } = await answer.json();
          assert.equal(answer.status, 400, String(body).slice(0, 80));
          assert.match(error.message, message);
          assert.equal(error.code, code, String(body).slice(0, 80));
        }
      });

      await t.step("a body over the bound, announced or not, is 413", async () => {
        const large = `{"model":"up/m","a":"${"x".repeat(70_000)}"}`;
        const announced = await post(hub, large);
        assert.equal(announced.status, 413);
        assert.equal((await announced.json()).error.code, "body_too_large");
        const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: ` +
          `Bearer ${hub.key}\r\ncontent-type: application/json\r\n`;
        const chunk = `${large.length.toString(16)}\r\n${large}\r\n0\r\n\r\n`;
        assert.equal(
          (await raw(hub, `${head}transfer-encoding: chunked\r\n\r\n${chunk}`)).status,
          413,
        );
        const unsent = await raw(hub, `${head}content-length: 99999999999\r\n\r\n{`);
        assert.equal(unsent.status, 413);
      });

      await t.step("bytes that are no UTF-8 never become another request", async () => {
        const bytes = new TextEncoder().encode('{"model":"up/m","stream":true,"a":"??"}');
        bytes[35] = 0xff;
        bytes[36] = 0xc0;
        const before = upstream.requests.length;
        const answer = await post(hub, bytes);
        await answer.body?.cancel();
        if (answer.status === 400) assert.equal(upstream.requests.length, before);
        else assert.deepEqual(upstream.requests.at(-1)?.body.subarray(-5), bytes.subarray(-5));
      });

      await t.step("after all that the same request as a UIMessage stream works", async () => {
        const answer = await hub.call("/v1/chat/completions", {
          body: { model: "up/m", stream: true, messages: [{ role: "user", content: "Hi" }] },
          headers: { "hub-stream": "ui" },
        });
        const text = await answer.text();
        assert.equal(answer.headers.get("x-vercel-ai-ui-message-stream") ?? "v1", "v1");
        const types = [...text.matchAll(/"type":"([a-z-]+)"/g)].map(([, type]) => type);
        assert.equal(types[0], "start");
        assert.equal(types.at(-1), "finish");
        assert.ok(types.includes("text-delta"));
        assert.ok(text.endsWith("data: [DONE]\n\n"));
        const got = [...text.matchAll(/"delta":"([^"]*)"/g)].map(([, delta]) => delta).join("");
        assert.equal(got, "Hi you");
      });
    });
  } finally {
    await upstream.stop();
  }
});
