import assert from "node:assert/strict";
import { type Log, type LogLevel, SILENT_LOG } from "../../../src/core/log.ts";
import { healthRoutes } from "../../../src/http/routes/health.ts";
import { createTestApp, USER } from "../fixture.ts";

Deno.test("what machines ask again and again is logged at debug, what goes wrong at info", async () => {
  const lines: string[] = [];
  const note = (level: LogLevel) => (message: string, fields: Record<string, unknown> = {}) => {
    if (message === "request") lines.push(`${level} ${fields["route"]} ${fields["status"]}`);
  };
  const log: Log = { ...SILENT_LOG, writes: () => true, debug: note("debug"), info: note("info") };
  let reason: string | null = null;
  const routes = healthRoutes({
    notReady: () => Promise.resolve(reason),
    metrics: { render: () => Promise.resolve("up 1"), contentType: "text/plain" },
    needsNoKey: () => false,
  });
  const app = createTestApp(routes, { log });
  const ask = async (path: string, init?: RequestInit) => {
    await (await app.request(path, init)).text();
    return lines.splice(0);
  };
  const headers = { authorization: `Bearer ${USER.token}` };
  assert.deepEqual(await ask("/healthz"), ["debug /healthz 200"]);
  assert.deepEqual(await ask("/healthz", { method: "HEAD" }), ["debug /healthz 200"]);
  assert.deepEqual(await ask("/readyz"), ["debug /readyz 200"]);
  assert.deepEqual(await ask("/metrics", { headers }), ["debug /metrics 200"]);
  reason = "it stops";
  assert.deepEqual(await ask("/readyz"), ["info /readyz 503"]);
  assert.deepEqual(await ask("/metrics"), ["info /metrics 401"]);
  assert.deepEqual(await ask("/nowhere"), ["info unmatched 404"]);
});
