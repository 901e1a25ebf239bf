import assert from "node:assert/strict";
import { fromWebRequest } from "../../src/http/hub_request.ts";
import { createMetricsAccess } from "../../src/http/middleware/metrics_access.ts";

Deno.test("only a loopback client that asks for a loopback name gets metrics without a key", () => {
  const needsNoKey = createMetricsAccess({ metrics: "local" });
  const isLocal = (remoteAddress: string, host: string) =>
    needsNoKey({ ...fromWebRequest(new Request(`http://${host}/metrics`)), remoteAddress });
  for (const host of ["localhost", "127.0.0.1:4141", "[::1]:4141", "hub.localhost"]) {
    for (const address of ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]) {
      assert.ok(isLocal(address, host), `${address} ${host}`);
    }
    for (const address of ["10.0.0.2", "203.0.113.7", "::ffff:10.0.0.2", "fe80::1", "::", ""]) {
      assert.ok(!isLocal(address, host), `${address} ${host}`);
    }
  }
  for (const host of ["hub.example", "10.0.0.2:4141", "127.0.0.1.example", "localhost.example"]) {
    assert.ok(!isLocal("127.0.0.1", host), host);
  }
});
