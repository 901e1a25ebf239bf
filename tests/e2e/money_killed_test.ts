import assert from "node:assert/strict";
import postgres from "postgres";
import { createRandom } from "../support/random.ts";
import { type HubProcess, startHubProcess } from "../support/hub_process.ts";
import { withPostgresServer } from "../support/postgres_server.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";
import { MONEY_CONFIG, sampleBudgets, used } from "./money_rig.ts";

const CAP = 1_000_000;
const CALLS = 200;
const MAX_TOKENS = 10_000;
/** Calls that the replica which is not killed has before the others reserve what is left. */
const FIRST_CALLS = 10;
const MESSAGES = [{ role: "user", content: "Hi" }];

Deno.test("200 calls against a key with a dollar while replicas are killed: the cap holds, and what is lost is bounded and told", async () => {
  await withPostgresServer(async (server) => {
    const random = createRandom(20_261_122);
    const upstream = await startScriptedUpstream();
    upstream.script((request) => {
      const usage = { promptTokens: 20, completionTokens: Math.floor(random() * MAX_TOKENS) };
      if (request.json.stream !== true) return used(usage);
      const whole = { deltas: Array(20).fill("word "), usage, delayMs: Math.ceil(random() * 20) };
      return random() < 0.2
        ? chatStream({ ...whole, endAfter: 8, end: "reset" })
        : chatStream(whole);
    });
    const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-money-" });
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(MONEY_CONFIG(upstream.url)));
    const start = () => startHubProcess(folder, { DATABASE_URL: server.url });
    const hubs: HubProcess[] = [await start()];
    const sql = postgres(server.url, { max: 2 });
    try {
      const admin = await eventually(() => Promise.resolve(hubs[0]?.key() ?? null));
      hubs.push(...await Promise.all([start(), start()]));
      const post = (hub: HubProcess | undefined, path: string, token: string, body: object) =>
        fetch(`${hub?.url}${path}`, {
          method: "POST",
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
          body: JSON.stringify(body),
        });
      const policy = { budgets: { total: { hardMicros: CAP } } };
      const made = await post(hubs[0], "/v1/admin/keys", admin, { name: "k", policy });
      const { token } = await made.json();

      const sampling = sampleBudgets(sql, CAP);
      let ended = 0;
      const begun = [false, false, false];
      const call = async (index: number) => {
        const at = index < FIRST_CALLS ? 0 : index % hubs.length;
        try {
          const answer = await post(hubs[at], "/v1/chat/completions", token, {
            model: "up/m",
            stream: random() < 0.8,
            max_tokens: MAX_TOKENS,
            messages: MESSAGES,
          });
          if (answer.ok) begun[at] = true;
          await answer.text();
        } catch {
          // Its replica was killed, or the provider hung up.
        }
        ended++;
      };
      const first = Array.from({ length: FIRST_CALLS }, (_, index) => call(index));
      await eventually(() => Promise.resolve(begun[0] || null));
      const calls = Promise.all([
        ...first,
        ...Array.from({ length: CALLS - FIRST_CALLS }, (_, index) => call(FIRST_CALLS + index)),
      ]);
      for (const at of [2, 1]) {
        await eventually(() => Promise.resolve(begun[at] === true || ended === CALLS || null));
        await hubs[at]?.end("SIGKILL");
      }
      await calls;

      // The last one writes its rows and goes; the next one finds what the killed ones left.
      await hubs[0]?.end("SIGTERM");
      const next = await start();
      hubs.push(next);
      // A killed one may have written rows that it had no time to settle: these are not lost. Nor are those of its
      // journal, which the next one books while this looks.
      const [lost] = await sql`select count(*)::int as count from hub.reservations r
        where settled_at is null and released_at is null
          and not exists (select 1 from hub.usage u
            where u.tenant_id = r.tenant_id and u.usage_id = r.reservation_id)`;
      await sql`update hub.reservations set lease_until = now() - interval '1 second'
        where settled_at is null and released_at is null`;
      const settled = await eventually(async () => {
        const [row] = await sql`
          select spent_micros::float8 as spent, reserved_micros::float8 as reserved,
            (select sum(cost_micros)::float8 from hub.usage) as cost,
            (select count(*)::int from hub.usage) as rows,
            (select count(*)::int from hub.reservations where released_at is not null) as freed
          from hub.budget_windows where window_id = 'total'`;
        return row?.["reserved"] === 0 && row["spent"] === row["cost"] ? row : null;
      });
      const freed = Number(settled["freed"]);
      assert.ok(freed <= lost?.["count"], `${freed} freed, ${lost?.["count"]} lost`);
      const missing = upstream.requests.length - settled["rows"];
      assert.ok(missing >= 0 && missing <= settled["freed"], `${missing} rows are missing`);
      assert.ok(settled["rows"] > 0, "The replica that was not killed has rows");
      const told = () =>
        next.logged("Reservations of lost calls were freed")
          .reduce((sum, line) => sum + line.freed, 0);
      await eventually(() => Promise.resolve(told() === settled["freed"] || null));
      const { samples } = await sampling.end();
      assert.ok(samples > 20, `${samples} samples`);
    } finally {
      await sql.end();
      for (const hub of hubs) await hub.end("SIGTERM").catch(() => {});
      await upstream.stop();
      await Deno.remove(folder, { recursive: true });
    }
  });
});
