import assert from "node:assert/strict";
import { exchange } from "../http/fixture.ts";
import { pathOf, routesOf } from "../support/api_routes.ts";
import { startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";

const FIELDS = ["authorization", "x-api-key", "x-goog-api-key"];
const UPGRADE = [
  "connection: Upgrade, close",
  "upgrade: websocket",
  "sec-websocket-version: 13",
  "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
];

Deno.test("two fields of one credential are refused on every route", async () => {
  const upstream = await startScriptedUpstream();
  const providers = { up: { baseUrl: upstream.url, apiKey: "sk-up" } };
  try {
    await withHub({ providers, defaultModel: "up/m" }, async (hub) => {
      const server = { port: Number(new URL(hub.url).port) };
      const send = async (method: string, path: string, fields: readonly string[]) => {
        const lines = [`${method} ${path} HTTP/1.1`, "host: localhost", ...fields];
        return await exchange(server, `${lines.join("\r\n")}\r\n\r\n`);
      };
      const places = (await routesOf(hub)).map(({ method, pattern }) => ({
        method,
        path: pathOf(pattern, () => "x"),
        more: ["connection: close"],
      }));
      assert.ok(places.length > 60);
      places.push(
        { method: "GET", path: "/mcp", more: UPGRADE },
        { method: "HEAD", path: "/metrics", more: ["connection: close"] },
        { method: "GET", path: "/nothing/here", more: ["connection: close"] },
        { method: "DELETE", path: "/healthz", more: ["connection: close"] },
        {
          method: "OPTIONS",
          path: "/v1/models",
          more: ["origin: http://localhost", "connection: close"],
        },
      );
      for (const field of FIELDS) {
        const value = field === "authorization" ? `Bearer ${hub.key}` : hub.key;
        const upper = field.toUpperCase();
        const pairs = [
          [`${field}: ${value}`, `${upper}: ${value}`],
          [`${field}: ${value}`, "accept: */*", `${upper}: lh_other`],
          [`${field}:`, `${field}: ${value}`],
        ];
        for (const { method, path, more } of places) {
          for (const pair of pairs) {
            const what = `${method} ${path} ${pair.length} ${field}`;
            const { status, body } = await send(method, path, [...pair, ...more]);
            assert.equal(status, 400, what);
            if (method === "HEAD") continue;
            assert.match(body, new RegExp(`The request has two ${field} headers`), what);
            assert.ok(!body.includes(hub.key), what);
          }
        }
      }
      // One of each is no conflict: clients of Anthropic send both.
      const both = [`authorization: Bearer ${hub.key}`, `x-api-key: ${hub.key}`];
      const { status } = await send("GET", "/v1/models", [...both, "connection: close"]);
      assert.equal(status, 200);
      assert.equal(upstream.requests.length, 0);
    });
  } finally {
    await upstream.stop();
  }
});
