import assert from "node:assert/strict";
import postgres from "postgres";
import { SWITCHES } from "../support/postgres.ts";
import { eventually } from "../support/test_hub.ts";
import { withMoney } from "./money_rig.ts";

Deno.test("a client that leaves while its call waits to be counted is let go at once, and nothing is reserved for it", async () => {
  await withMoney({}, async ({ hub, upstream, makeKey, ask }) => {
    const { token } = await makeKey({ budgets: { total: { hardMicros: 10_000 } } });
    const sql = postgres(hub.databaseUrl, { max: 2, prepare: SWITCHES.prepare });
    const inside = (count: number) =>
      eventually(async () => {
        const metrics = await (await hub.call("/metrics")).text();
        return metrics.includes(`loophub_gate_inside{gate="provider",name="up"} ${count}\n`) ||
          null;
      });
    try {
      await (await ask(token)).body?.cancel();
      const leave = new AbortController();
      let first: Promise<Response> | undefined;
      await sql.begin(async (tx) => {
        await tx`select 1 from hub.budget_windows for update`;
        first = ask(token);
        await inside(1);
        const second = ask(token, {}, { signal: leave.signal });
        await inside(2);
        leave.abort();
        await assert.rejects(second, { name: "AbortError" });
        await inside(1);
      });
      assert.equal((await first)?.status, 200);
      await (await first)?.body?.cancel();
      const [row] = await sql`select count(*)::int as count from hub.reservations`;
      assert.equal(row?.["count"], 2);
      assert.equal(upstream.requests.length, 2);
    } finally {
      await sql.end();
    }
  });
});
