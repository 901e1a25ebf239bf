import assert from "node:assert/strict";
import postgres from "postgres";
import { checkLog } from "../../src/core/check_log.ts";
import type { Clock } from "../../src/core/clock.ts";
import { logOf } from "../support/log_of.ts";
import { withPostgresServer } from "../support/postgres_server.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { systemClock } from "../support/system_clock.ts";
import { startTcpProxy } from "../support/tcp_proxy.ts";
import { eventually, startTestHub } from "../support/test_hub.ts";

const HOUR_MS = 3_600_000;

const skewed = (byMs: number): Clock => ({ ...systemClock, now: () => systemClock.now() + byMs });

Deno.test("clocks that are hours apart neither take a run too early nor leave one alone", async () => {
  await Promise.all([HOUR_MS, -HOUR_MS].map((skewMs) =>
    withPostgresServer(async (server) => {
      const upstream = await startScriptedUpstream();
      upstream.script([
        chatStream({ text: "One two", endAfter: 2, end: "stall" }),
        chatStream({ text: "Three four" }),
      ]);
      const proxy = await startTcpProxy(server.url);
      const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-skew-" });
      const config = {
        providers: { one: { baseUrl: upstream.url } },
        defaultModel: "one/m",
        runs: { leaseMs: 6000 },
        database: { statementTimeoutMs: 1000 },
      };
      const owner = await startTestHub(config, {
        databaseUrl: proxy.through(server.url),
        dataDir,
        clock: skewed(-skewMs),
      });
      const { key } = owner;
      const other = await startTestHub(config, {
        databaseUrl: server.url,
        dataDir,
        key,
        clock: skewed(skewMs),
      });
      const sql = postgres(server.url, { max: 1 });
      try {
        const { id } = await (await owner.call("/v1/sessions", { body: {} })).json();
        const answer = await owner.call(`/v1/sessions/${id}/messages`, { body: { text: "Go" } });
        const runId = answer.headers.get("x-loophub-run") ?? "";
        const look = async () =>
          (await sql`select lease_epoch::int as epoch, lease_until::text as until from hub.runs`)[
            0
          ];
        const leases = new Set<string>();
        await eventually(async () => {
          leases.add((await look())?.["until"]);
          return leases.size > 2 || null;
        });
        assert.equal((await look())?.["epoch"], 1, "nobody takes a run whose lease is renewed");
        await answer.body?.cancel();
        await proxy.set("refuse");
        proxy.cut();
        await eventually(async () => (await look())?.["epoch"] === 2 || null);
        const followed = await other.call(`/v1/runs/${runId}/stream`);
        const log = logOf(await followed.text());
        assert.deepEqual(checkLog(log), []);
        assert.deepEqual(log.filter(({ event }) => event.type === "finish").length, 1);
        assert.ok(log.some(({ event }) => event.type === "step-reset"));
      } finally {
        await proxy.set("pass");
        await sql.end();
        await other.close();
        await owner.close();
        await proxy.stop();
        await upstream.stop();
        await Deno.remove(dataDir, { recursive: true });
      }
    })
  ));
});
