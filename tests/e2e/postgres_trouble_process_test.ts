import assert from "node:assert/strict";
import { startHubProcess } from "../support/hub_process.ts";
import { withPostgresServer } from "../support/postgres_server.ts";
import { chatCompletion, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { startTcpProxy } from "../support/tcp_proxy.ts";
import { eventually } from "../support/test_hub.ts";
import { statusOf } from "../support/trouble_rig.ts";

const ROUNDS = 2;

Deno.test("the hub's process lives through restarts, frost, cuts and killed backends of its Postgres", async () => {
  await withPostgresServer(async (server) => {
    const upstream = await startScriptedUpstream(chatCompletion({ text: "Hello" }));
    const proxy = await startTcpProxy(server.url);
    const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-trouble-process-" });
    await Deno.writeTextFile(
      `${folder}/loophub.json`,
      JSON.stringify({
        providers: { one: { baseUrl: upstream.url } },
        defaultModel: "one/m",
        database: { statementTimeoutMs: 1500 },
      }),
    );
    const hub = await startHubProcess(folder, { DATABASE_URL: proxy.through(server.url) });
    try {
      const key = await eventually(() => Promise.resolve(hub.key()));
      const call = (path: string, body?: unknown) =>
        statusOf(fetch(hub.url + path, {
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
        }));
      let proxied = 0;
      const proxyGoesOn = async () => {
        const messages = [{ role: "user", content: "Hi" }];
        assert.equal(await call("/v1/chat/completions", { model: "one/m", messages }), 200);
        proxied++;
      };
      /** Requests of all kinds while there is trouble, until one that needs Postgres was refused. */
      const away = async () => {
        for (let refused = false; !refused;) {
          const [status] = await Promise.all([
            call("/v1/sessions", {}),
            call("/readyz"),
            proxyGoesOn(),
            proxyGoesOn(),
          ]);
          refused = status === 503;
        }
        assert.equal(await call("/healthz"), 200);
      };
      const back = async () => {
        await eventually(async () => (await call("/readyz")) === 200 || null);
        await eventually(async () => (await call("/v1/sessions", {})) === 201 || null);
      };
      for (let round = 0; round < ROUNDS; round++) {
        await server.stop(round % 2 === 0 ? "immediate" : "fast");
        await away();
        await server.start();
        await back();
        await server.freeze();
        await away();
        server.thaw();
        await back();
        await proxy.set("slam");
        proxy.cut();
        await away();
        await proxy.set("pass");
        await back();
        proxy.forget();
        await proxyGoesOn();
        await back();
        for (let kill = 0; kill < 5; kill++) {
          await Promise.all([
            server.admin(
              "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'loophub'",
            ),
            call("/v1/sessions", {}),
            call("/v1/sessions"),
            proxyGoesOn(),
          ]);
        }
        await back();
      }
      // Each proxied answer has its row, once.
      const rows = await eventually(async () => {
        const [row] = await server.admin<{ total: number }>(
          "select count(*)::int as total from hub.usage",
        );
        return row !== undefined && row.total >= proxied ? row.total : null;
      });
      assert.equal(rows, proxied);
    } finally {
      assert.equal(await hub.end("SIGTERM"), 0);
      await proxy.stop();
      await upstream.stop();
      await Deno.remove(folder, { recursive: true });
    }
  });
});
