import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { withPostgresServer } from "../support/postgres_server.ts";
import { startScriptedUpstream } from "../support/scripted_upstream.ts";
import { startTcpProxy } from "../support/tcp_proxy.ts";
import { eventually, startTestHub } from "../support/test_hub.ts";
import { MONEY_CONFIG, used } from "./money_rig.ts";

Deno.test("without Postgres: keys without budgets are served, those with one as they were told, and all is charged later", async () => {
  await withPostgresServer(async (server) => {
    const upstream = await startScriptedUpstream(used({ promptTokens: 100, completionTokens: 50 }));
    const proxy = await startTcpProxy(server.url);
    const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-money-" });
    const hub = await startTestHub({
      ...MONEY_CONFIG(upstream.url),
      database: { statementTimeoutMs: 3000 },
    }, { databaseUrl: proxy.through(server.url), dataDir });
    try {
      const make = async (policy: JsonObject) => {
        const made = await (await hub.call("/v1/admin/keys", { body: { name: "k", policy } }))
          .json();
        return { id: String(made.key.id), token: String(made.token) };
      };
      const ask = async (token: string) => {
        const answer = await hub.call("/v1/chat/completions", {
          headers: { authorization: `Bearer ${token}` },
          body: { model: "up/m", max_tokens: 50, messages: [{ role: "user", content: "Hi" }] },
        });
        await answer.body?.cancel();
        return answer.status;
      };
      const budgets = { total: { hardMicros: 1000 } };
      const free = await make({});
      const refusing = await make({ budgets, requestsPerMinute: 100 });
      const serving = await make({ budgets, requestsPerMinute: 100, withoutDatabase: "serve" });
      for (const { token } of [free, refusing, serving]) assert.equal(await ask(token), 200);

      await server.stop("immediate");
      const before = upstream.requests.length;
      assert.equal(await ask(refusing.token), 503);
      assert.equal(upstream.requests.length, before);
      for (let call = 0; call < 3; call++) assert.equal(await ask(free.token), 200);
      for (let call = 0; call < 3; call++) assert.equal(await ask(serving.token), 200);

      await server.start();
      const spent = await eventually(async () => {
        const answer = await hub.call(`/v1/admin/keys/${serving.id}`);
        if (answer.status !== 200) return void await answer.body?.cancel();
        const { spend } = await answer.json();
        const total = spend.find(({ id }: { id: string }) => id === "total");
        return total?.spentMicros === 800 ? total : null;
      });
      assert.equal(spent.reservedMicros, 0);
      assert.equal(await ask(serving.token), 200);
      await eventually(async () => await ask(refusing.token) === 200 ? true : null);
    } finally {
      await hub.close();
      await proxy.stop();
      await upstream.stop();
      await Deno.remove(dataDir, { recursive: true });
    }
  });
});
