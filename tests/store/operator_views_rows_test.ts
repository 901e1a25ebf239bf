import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { withDatabase } from "../support/postgres.ts";
import { query } from "../support/query.ts";

const TENANT = "'00000000-0000-7000-8000-000000000001'::uuid";

/** Columns of a run that goes on, what else there is of it, and what it is said to wait for. */
const WAITS: readonly (readonly [run: JsonObject, more: string, waits: string])[] = [
  [{ status: "queued" }, "", "replica: the next replica that is free"],
  [
    { status: "queued", run_after: "2999-01-01Z" },
    "",
    "queue: it goes on at 2999-01-01 00:00:00 UTC",
  ],
  [{ status: "running", lease_until: "2999-01-01Z" }, "", "hub: the next step"],
  [{ status: "running" }, "", "replica: the next replica that is free"],
  [
    { status: "running", lease_owner: "a", lease_until: "2000-01-01Z" },
    "",
    "replica: the lease of a has run out: another replica takes it over",
  ],
  [{ status: "waiting", cancel_requested_at: "2000-01-01Z" }, "", "stop: it was asked to stop"],
  [{ status: "waiting" }, "", "client: results of the calls that its client executes"],
  [
    { status: "running", lease_until: "2999-01-01Z" },
    `insert into hub.steps (tenant_id, run_id, step, epoch, state, attempt)
      values (${TENANT}, $run, 0, 1, 'started', 1)`,
    "budget or place: its call is not sent yet: money of the key's budget, its limits, or a free place " +
    "at the provider",
  ],
  [
    { status: "running", lease_until: "2999-01-01Z", lease_epoch: 2 },
    `insert into hub.model_calls (tenant_id, usage_id, run_id, epoch, facts)
      values (${TENANT}, gen_random_uuid(), $run, 1, '{"row":{"provider":"old","model":"m"}}'),
        (${TENANT}, gen_random_uuid(), $run, 2, '{"row":{"provider":"new","model":"m"}}')`,
    "model: new/m",
  ],
];

Deno.test("a run that goes on says what it waits for", async () => {
  await withDatabase(async (db) => {
    for (const [columns, more, waits] of WAITS) {
      const runId = crypto.randomUUID();
      const row = {
        ...{ tenant_id: "00000000-0000-7000-8000-000000000001", run_id: runId },
        ...{ session_id: crypto.randomUUID(), message_id: crypto.randomUUID() },
        ...{ agent: "a", model: "m", ...columns },
      };
      await db.control`insert into hub.sessions (tenant_id, session_id, agent)
        values (${row.tenant_id}, ${row.session_id}, 'a')`;
      await db.control`insert into hub.runs ${db.control(row)}`;
      if (more !== "") await db.control.unsafe(more.replaceAll("$run", `'${runId}'`));
      const found = await db.read.begin(async (tx) => {
        await tx`set local timezone = 'Pacific/Auckland'`;
        return await tx`select waits_for || ': ' || detail as waits from hub.runs_now
          where run = hub.public_id('run', ${runId})`;
      });
      assert.deepEqual(found.map((line) => line["waits"]), [waits]);
    }
  });
});

Deno.test("today is a day of UTC, whatever time zone its reader is in", async () => {
  await withDatabase(async (db, url) => {
    const midnight = "date_trunc('day', now() at time zone 'UTC') at time zone 'UTC'";
    await query(
      url,
      `insert into hub.usage (tenant_id, usage_id, request_id, kind, provider, model, public_model, streamed,
          outcome, estimated, started_at, duration_ms, bytes_out, attempts, cost_micros)
        select ${TENANT}, gen_random_uuid(), '', 'proxy', 'p', 'm', 'm', false, 'ok', false, at, 1, 0, '[]', 500000
        from (values (${midnight} - interval '1 ms'), (${midnight}), (now())) as t (at)`,
    );
    for (const zone of ["UTC", "Pacific/Auckland", "America/Los_Angeles"]) {
      const [rows, models] = await db.read.begin(async (tx) => {
        await tx`select set_config('timezone', ${zone}, true)`;
        return [
          await tx`select calls::int, cost_usd::text from hub.spend_today where grouped_by = 'total'`,
          await tx`select calls_today::int as calls from hub.model_latency`,
        ];
      });
      assert.deepEqual([...rows], [{ calls: 2, cost_usd: "1.000000" }], zone);
      assert.deepEqual([...models], [{ calls: 2 }], zone);
    }
  });
});

/** Every plan node of a statement: its kind, and the table or function that it reads. */
async function planOf(url: string, text: string): Promise<string[]> {
  const nodes: string[] = [];
  const walk = (node: JsonObject) => {
    nodes.push(`${node["Node Type"]} ${node["Relation Name"] ?? node["Function Name"] ?? ""}`);
    for (const plan of node["Plans"] as JsonObject[] ?? []) walk(plan);
  };
  for (const row of await query<JsonObject>(url, `explain (format json) ${text}`)) {
    for (const { Plan } of row["QUERY PLAN"] as { Plan: JsonObject }[]) walk(Plan);
  }
  return nodes;
}

Deno.test("among many sessions, views find what they show by indexes", async () => {
  await withDatabase(async (_, url) => {
    const id = (table: string) => `md5('${table}' || n)::uuid`;
    const many = "from generate_series(1, 20000) n";
    await query(
      url,
      `
      insert into hub.sessions (tenant_id, session_id, agent) select ${TENANT}, ${
        id("s")
      }, 'a' ${many};
      insert into hub.runs (tenant_id, run_id, session_id, message_id, agent, model, status, parent_run_id)
        select ${TENANT}, ${id("r")}, ${id("s")}, ${id("m")}, 'a', 'm', 'completed', ${
        id("p")
      } ${many};
      insert into hub.messages (tenant_id, message_id, session_id, run_id, position, role)
        select ${TENANT}, ${id("m")}, ${id("s")}, ${id("r")}, 1, 'assistant' ${many};
      insert into hub.parts (tenant_id, message_id, part_index, type, content)
        select ${TENANT}, ${
        id("m")
      }, i, case i when 0 then 'step-start' else 'text' end, '{"step":0,"text":"t"}'
        ${many}, generate_series(0, 1) i;
      insert into hub.steps (tenant_id, run_id, step, epoch, state, attempt)
        select ${TENANT}, ${id("r")}, 0, 1, 'done', 1 ${many};
      insert into hub.tool_calls (tenant_id, run_id, tool_call_id, step, idx, tool_name, input_text, args_hash,
          effect, idempotency_key, state, epoch)
        select ${TENANT}, ${id("r")}, ${
        id("c")
      }, 0, 0, 't', '', '', 'pure', '', 'succeeded', 1 ${many};
      insert into hub.approvals (tenant_id, approval_id, run_id, tool_call_id, tool_name, args_hash, def_hash, risk,
          state, expires_at)
        select ${TENANT}, ${id("a")}, ${id("r")}, ${
        id("c")
      }, 't', '', '', 'low', 'approved', now() ${many};
      insert into hub.questions (tenant_id, question_id, run_id, tool_call_id, source, kind, message, asked, state,
          expires_at)
        select ${TENANT}, ${id("q")}, ${id("r")}, ${
        id("c")
      }, 's', 'form', '', '{}', 'answered', now() ${many};
      insert into hub.model_calls (tenant_id, usage_id, run_id, epoch, facts)
        select ${TENANT}, ${id("u")}, ${id("r")}, 1, '{}' ${many};
      insert into hub.api_keys (tenant_id, key_id, name, role, lookup_id, secret_hash)
        select ${TENANT}, ${id("k")}, 'k', 'user', n, '' ${many};
      insert into hub.usage (tenant_id, usage_id, request_id, kind, provider, model, public_model, streamed, outcome,
          estimated, started_at, duration_ms, bytes_out, attempts)
        select ${TENANT}, ${id("u")}, '', 'proxy', 'p', 'm', 'm', false, 'ok', false,
          now() - n * interval '1 hour', 1, 0, '[]' ${many};`,
    );
    await query(url, "analyze");
    const scans = async (text: string) =>
      (await planOf(url, text)).filter((node) => /Seq Scan|Function Scan (?!jsonb_)/.test(node));
    const session = "(select hub.public_id('ses', session_id) from hub.sessions limit 1)";
    const [{ session: one } = { session: "" }] = await query<{ session: string }>(
      url,
      `select ${session} as session`,
    );
    assert.deepEqual(await scans(`select * from hub.transcript_of('${one}')`), []);
    assert.deepEqual(await scans("select * from hub.runs_now"), []);
    for (const view of ["spend_today", "model_latency"]) {
      assert.deepEqual(await scans(`select * from hub.${view} where tenant_id = ${TENANT}`), []);
    }
    // What this looks for is there to be found.
    const slow = await scans(`select * from hub.transcript where session = '${one}'`);
    assert.ok(slow.includes("Seq Scan messages"), slow.join(", "));
    const lines = await query<JsonObject>(url, `select kind from hub.transcript_of('${one}')`);
    assert.deepEqual(lines.map(({ kind }) => kind), [
      "step 0",
      "text",
      "approval t",
      "question s",
      "run completed",
    ]);
  });
});
