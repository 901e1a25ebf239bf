import assert from "node:assert/strict";
import { createHostPolicy } from "../../src/http/middleware/host_check.ts";
import { fromWebRequest } from "../../src/http/hub_request.ts";
import { emptyReply, jsonReply } from "../../src/http/reply.ts";
import { defineRoute } from "../../src/http/route.ts";
import { createTestApp, exchange, withServer } from "./fixture.ts";

const facts = { method: "GET" as const, tag: "test", summary: "test", responses: {} };
const admin = defineRoute({ ...facts, path: "/admin", auth: "admin", handle: () => emptyReply() });
const open = defineRoute({
  ...facts,
  path: "/public/:x",
  auth: "public",
  handle: () => jsonReply("open"),
});

const HOSTILE = [
  "a/admin?",
  "a/admin#",
  "localhost/admin",
  "localhost\\admin",
  "user@localhost",
  "localhost:80:80",
  "localhost:",
  "localhost:999999",
  "[::1",
  "[::1]/admin",
  "local host",
  "localhost,evil",
  "evil.example",
  "localhost.evil.example",
];

Deno.test("hostile Hosts are refused before anything is routed", async () => {
  await withServer([admin, open], async (server) => {
    for (const host of HOSTILE) {
      const request = `GET /public/x HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`;
      const { status, body } = await exchange(server, request);
      assert.equal(status, 400, host);
      assert.equal(JSON.parse(body).error.code, "invalid_host", host);
    }
    for (const host of ["localhost", "LOCALHOST:4141", "127.0.0.1", `[::1]:${server.port}`]) {
      const request = `GET /public/x HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`;
      assert.equal((await exchange(server, request)).status, 200, host);
    }
  });
});

Deno.test("bound to other addresses, every well-formed name or only trusted ones", () => {
  const allows = (policy: ReturnType<typeof createHostPolicy>, host: string) => {
    try {
      policy.assert(fromWebRequest(new Request("http://x/", { headers: { host } })));
      return true;
    } catch {
      return false;
    }
  };
  const any = createHostPolicy({ boundHost: "0.0.0.0" });
  assert.ok(allows(any, "hub.example:80") && allows(any, "10.0.0.1") && !allows(any, "a/b"));
  const some = createHostPolicy({ boundHost: "0.0.0.0", trustedHosts: ["Hub.Example"] });
  assert.ok(allows(some, "hub.example:443") && allows(some, "localhost"));
  assert.ok(!allows(some, "other.example"));
  const local = createHostPolicy({ boundHost: "127.0.0.1", trustedHosts: ["hub.example"] });
  assert.ok(allows(local, "hub.example") && !allows(local, "other.example"));
});

Deno.test("without a socket the check runs too", async () => {
  const app = createTestApp([open]);
  const response = await app.request("/public/x", { headers: { host: "evil.example" } });
  assert.equal(response.status, 400);
});
