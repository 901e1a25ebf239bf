import { type Id, toUuid } from "../core/id.ts";
import { toStorableJson } from "../core/well_formed.ts";
import type { Database } from "./database.ts";
import { modelCallInsert } from "./model_calls.ts";
import type { OwnedRun, RunCommit } from "./run_commit.ts";
import { type AskedRow, askedRuns } from "./runs.ts";
import { usageInsert } from "./usage_rows.ts";

const uuid = (id: string) => toUuid(id as Id);

/**
 * Writes the commits of several runs in one statement. The run row comes first: it is touched only while its epoch
 * is the writer's, so a run that is missing from the answer is fenced and nothing of it was written. So is a commit that
 * comes behind a later one, which a connection may deliver long after it was given up: numbers and reservations only grow.
 * And so is one whose log does not end where its writer left it, since Postgres has lost events: behind a hole nothing is
 * written. And so is the end of a run that was told something its writer does not know of.
 */
export async function commitRuns(
  db: Database,
  options: { commits: readonly RunCommit[]; leaseMs: number },
): Promise<Map<string, OwnedRun>> {
  const { commits, leaseMs } = options;
  const plain = commits.every((commit) =>
    commit.events.length > 0 && commit.finish === undefined && commit.parts.length === 0 &&
    commit.steps.length === 0 && commit.toolCalls.length === 0 && commit.steering === undefined &&
    commit.approvals === undefined && commit.questions === undefined &&
    commit.usage === undefined && commit.calls === undefined &&
    commit.pause === undefined
  );
  const runs = commits.map(runRow);
  const rows = plain ? await appendOnly(db, runs, leaseMs) : await writeAll(db, commits, leaseMs);
  return askedRuns(rows);
}

function runRow(commit: RunCommit) {
  const { finish } = commit;
  return {
    tenant_id: commit.tenantId,
    run_id: uuid(commit.runId),
    session_id: uuid(commit.sessionId),
    message_id: uuid(commit.messageId),
    epoch: commit.epoch,
    follows: commit.follows,
    seq_from: commit.events[0]?.seq ?? null,
    seq_to: commit.events.at(-1)?.seq ?? null,
    reserve: commit.reserveTo,
    events: commit.events.length === 0 ? null : commit.events,
    status: finish?.status ?? "running",
    // A step that ends only because its run does was not finished: how often it was tried stays to be seen.
    stepDone: finish?.status !== "failed" && commit.steps.some(({ state }) => state === "done"),
    steered: commit.steered ?? null,
    pause: commit.pause ?? null,
    finish: finish === undefined ? null : {
      ...finish.usage,
      reason: finish.finishReason,
      cost: finish.costMicros,
      provider: finish.provider,
      model: finish.model,
      error: finish.error ?? null,
      abortReason: finish.abortReason ?? null,
    },
  };
}

function appendOnly(db: Database, runs: ReturnType<typeof runRow>[], leaseMs: number) {
  const sql = db.runs;
  const input = toStorableJson(runs);
  return db.within(sql<AskedRow[]>`
    with input as (
      select * from json_to_recordset(${input}::text::json) as t(tenant_id uuid, run_id uuid, epoch bigint,
        follows bigint, seq_from bigint, seq_to bigint, reserve bigint, events json)
    ), fenced as (
      update hub.runs r set last_seq = i.seq_to, seq_reserved = greatest(r.seq_reserved, i.reserve),
        lease_until = now() + ${leaseMs}::int * interval '1 millisecond'
      from input i
      where r.tenant_id = i.tenant_id and r.run_id = i.run_id and r.lease_epoch = i.epoch
        and r.status = 'running' and r.last_seq = i.follows and r.last_seq < i.seq_from
      returning r.tenant_id, r.run_id, r.cancel_requested_at is not null as stop, r.steer_count as steered
    ), logged as (
      insert into hub.run_events (tenant_id, run_id, seq_from, seq_to, epoch, events)
      select i.tenant_id, i.run_id, i.seq_from, i.seq_to, i.epoch, i.events
      from input i join fenced f on f.tenant_id = i.tenant_id and f.run_id = i.run_id
    )
    select run_id, stop, steered from fenced`);
}

function writeAll(db: Database, commits: readonly RunCommit[], leaseMs: number) {
  const sql = db.runs;
  // As text: the driver's own JSON parameters are jsonb, which sorts members.
  const json = toStorableJson;
  const key = (commit: RunCommit) => ({ tenant_id: commit.tenantId, run_id: uuid(commit.runId) });
  const runs = commits.map(runRow);
  const parts = commits.flatMap((commit) =>
    commit.parts.map(({ index, part }) => ({
      ...key(commit),
      message_id: uuid(commit.messageId),
      part_index: index,
      type: part?.type ?? "void",
      tool_name: part?.type === "tool" ? part.toolName : null,
      tool_call_id: part?.type === "tool" ? part.toolCallId : null,
      state: part !== null && "state" in part ? part.state : null,
      content: part,
    }))
  );
  const steps = commits.flatMap((commit) =>
    commit.steps.map((row) => ({ ...key(commit), epoch: commit.epoch, ...row }))
  );
  const calls = commits.flatMap((commit) =>
    commit.toolCalls.map((row) => ({
      ...key(commit),
      epoch: commit.epoch,
      ...row,
      toolCallId: uuid(row.toolCallId),
    }))
  );
  const steering = commits.flatMap((commit) =>
    (commit.steering ?? []).map(({ steeringId, state }) => ({
      ...key(commit),
      steering_id: uuid(steeringId),
      state,
    }))
  );
  const approvals = commits.flatMap((commit) =>
    (commit.approvals ?? []).map((row) => ({
      ...key(commit),
      ...row,
      approvalId: uuid(row.approvalId),
      toolCallId: uuid(row.toolCallId),
    }))
  );
  const questions = commits.flatMap((commit) =>
    (commit.questions ?? []).map((row) => ({
      ...key(commit),
      ...row,
      questionId: uuid(row.questionId),
      toolCallId: uuid(row.toolCallId),
    }))
  );
  const usage = commits.flatMap((commit) => commit.usage ?? []);
  const begun = commits.flatMap((commit) => commit.calls ?? []);
  return db.within(sql<AskedRow[]>`
    with input as (
      select * from json_to_recordset(${
    json(runs)
  }::text::json) as t(tenant_id uuid, run_id uuid, session_id uuid,
        message_id uuid, epoch bigint, follows bigint, seq_from bigint, seq_to bigint, reserve bigint, events json, status text,
        "stepDone" boolean, finish jsonb, steered int, pause jsonb)
    ), fenced as (
      update hub.runs r set
        last_seq = coalesce(i.seq_to, r.last_seq),
        seq_reserved = greatest(r.seq_reserved, i.reserve),
        status = case when i.pause is null then i.status
          when r.cancel_requested_at is not null or r.decision_count > (i.pause ->> 'decisions')::int then 'queued'
          else 'waiting' end,
        attempts = greatest(case when i."stepDone" then 0 else r.attempts end
          - case when i.pause is null then 0 else 1 end, 0),
        lease_until = case when i.finish is null and i.pause is null
          then now() + ${leaseMs}::int * interval '1 millisecond' end,
        lease_owner = case when i.finish is null and i.pause is null then r.lease_owner end,
        finish_reason = i.finish ->> 'reason',
        finished_at = case when i.finish is not null and i.status <> 'waiting' then now() end,
        prompt_tokens = coalesce((i.finish ->> 'promptTokens')::bigint, r.prompt_tokens),
        completion_tokens = coalesce((i.finish ->> 'completionTokens')::bigint, r.completion_tokens),
        total_tokens = coalesce((i.finish ->> 'totalTokens')::bigint, r.total_tokens),
        cached_tokens = coalesce((i.finish ->> 'cachedTokens')::bigint, r.cached_tokens),
        reasoning_tokens = coalesce((i.finish ->> 'reasoningTokens')::bigint, r.reasoning_tokens),
        cost_micros = coalesce(i.finish ->> 'cost', i.pause ->> 'costMicros')::bigint,
        provider = coalesce(nullif(i.finish ->> 'provider', ''), r.provider),
        error = nullif(i.finish -> 'error', 'null'::jsonb)
      from input i
      where r.tenant_id = i.tenant_id and r.run_id = i.run_id and r.lease_epoch = i.epoch
        and r.status = 'running' and r.last_seq = i.follows
        and case when i.seq_from is null then r.seq_reserved <= i.reserve else r.last_seq < i.seq_from end
        and (i.finish is null or i.steered is null or r.steer_count <= i.steered)
      returning r.tenant_id, r.run_id, r.cancel_requested_at is not null as stop, r.steer_count as steered
    ), owned as (
      select i.* from input i join fenced f on f.tenant_id = i.tenant_id and f.run_id = i.run_id
    ), logged as (
      insert into hub.run_events (tenant_id, run_id, seq_from, seq_to, epoch, events)
      select tenant_id, run_id, seq_from, seq_to, epoch, events from owned where seq_from is not null
    ), part_rows as (
      insert into hub.parts (tenant_id, message_id, part_index, type, tool_name, tool_call_id, state, content)
      select p.tenant_id, p.message_id, p.part_index, p.type, p.tool_name, p.tool_call_id, p.state, p.content
      from json_to_recordset(${
    json(parts)
  }::text::json) as p(tenant_id uuid, run_id uuid, message_id uuid,
        part_index int, type text, tool_name text, tool_call_id text, state text, content json)
      join owned o on o.tenant_id = p.tenant_id and o.run_id = p.run_id
      on conflict (tenant_id, message_id, part_index) do update set type = excluded.type,
        tool_name = excluded.tool_name, tool_call_id = excluded.tool_call_id, state = excluded.state,
        content = excluded.content
    ), step_rows as (
      insert into hub.steps (tenant_id, run_id, step, epoch, state, attempt, finish_reason, provider, model, usage,
        cost_micros, finished_at)
      select s.tenant_id, s.run_id, s.step, s.epoch, s.state, s.attempt, s."finishReason", s.provider, s.model,
        s.usage, s."costMicros", case when s.state = 'done' then now() end
      from json_to_recordset(${
    json(steps)
  }::text::json) as s(tenant_id uuid, run_id uuid, step int, epoch bigint,
        state text, attempt int, "finishReason" text, provider text, model text, usage jsonb, "costMicros" bigint)
      join owned o on o.tenant_id = s.tenant_id and o.run_id = s.run_id
      on conflict (tenant_id, run_id, step) do update set epoch = excluded.epoch, state = excluded.state,
        attempt = excluded.attempt, finish_reason = excluded.finish_reason, provider = excluded.provider,
        model = excluded.model, usage = excluded.usage, cost_micros = excluded.cost_micros, finished_at = excluded.finished_at
    ), call_rows as (
      insert into hub.tool_calls (tenant_id, run_id, tool_call_id, step, idx, tool_name, provider_call_id, input,
        input_text, args_hash, effect, def_hash, outside, idempotency_key, state, epoch, output, error_text, duration_ms,
        started_at, finished_at)
      select c.tenant_id, c.run_id, c."toolCallId", c.step, c.index, c."toolName", c."providerCallId", c.input,
        c."inputText", c."argsHash", c.effect, c."defHash", c.outside, c."idempotencyKey", c.state, c.epoch, c.output,
        c."errorText", c."durationMs", case when c.state = 'started' then now() end,
        case when c.state not in ('started', 'ready', 'awaiting_approval') then now() end
      from json_to_recordset(${
    json(calls)
  }::text::json) as c(tenant_id uuid, run_id uuid, "toolCallId" uuid, step int,
        index int, "toolName" text, "providerCallId" text, input json, "inputText" text, "argsHash" text,
        effect text, "defHash" text, outside text, "idempotencyKey" text, state text, epoch bigint, output json, "errorText" text,
        "durationMs" double precision)
      join owned o on o.tenant_id = c.tenant_id and o.run_id = c.run_id
      on conflict (tenant_id, run_id, tool_call_id) do update set state = excluded.state, epoch = excluded.epoch,
        effect = excluded.effect, def_hash = excluded.def_hash, outside = coalesce(excluded.outside, tool_calls.outside),
        output = excluded.output, error_text = excluded.error_text, duration_ms = excluded.duration_ms,
        started_at = coalesce(excluded.started_at, tool_calls.started_at),
        finished_at = coalesce(excluded.finished_at, tool_calls.finished_at)
    ), steering_rows as (
      update hub.steering s set state = t.state, decided_at = now()
      from json_to_recordset(${
    json(steering)
  }::text::json) as t(tenant_id uuid, run_id uuid, steering_id uuid, state text)
      join owned o on o.tenant_id = t.tenant_id and o.run_id = t.run_id
      where s.tenant_id = t.tenant_id and s.run_id = t.run_id and s.steering_id = t.steering_id
        and s.state = 'pending'
    ), approval_rows as (
      insert into hub.approvals (tenant_id, approval_id, run_id, tool_call_id, tool_name, args_hash, def_hash, risk,
        tier, preview, shown_state, tainted, expires_at, plan)
      select a.tenant_id, a."approvalId", a.run_id, a."toolCallId", a."toolName", a."argsHash", a."defHash", a.risk,
        a.tier, a.preview, a."shownState", a.tainted, now() + a."timeoutMs" * interval '1 millisecond', a.plan
      from json_to_recordset(${
    json(approvals)
  }::text::json) as a(tenant_id uuid, run_id uuid, "approvalId" uuid,
        "toolCallId" uuid, "toolName" text, "argsHash" text, "defHash" text, risk text, tier text,
        preview json, "shownState" text, tainted json, "timeoutMs" float8, plan jsonb)
      join owned o on o.tenant_id = a.tenant_id and o.run_id = a.run_id
    ), question_rows as (
      insert into hub.questions (tenant_id, question_id, run_id, tool_call_id, source, kind, message, asked, state,
        expires_at, decided_at)
      select q.tenant_id, q."questionId", q.run_id, q."toolCallId", q.source, q.kind, q.message, q.asked, q.state,
        now() + q."timeoutMs" * interval '1 millisecond', case when q.state <> 'pending' then now() end
      from json_to_recordset(${
    json(questions)
  }::text::json) as q(tenant_id uuid, run_id uuid, "questionId" uuid,
        "toolCallId" uuid, source text, kind text, message text, asked json, state text, "timeoutMs" float8)
      join owned o on o.tenant_id = q.tenant_id and o.run_id = q.run_id
      on conflict (tenant_id, question_id) do update set
        state = case when questions.state = 'pending' then excluded.state else questions.state end,
        decided_at = coalesce(questions.decided_at, excluded.decided_at), master_key_id = null, nonce = null,
        ciphertext = null
    ), finished as (
      update hub.messages m set metadata = jsonb_strip_nulls(jsonb_build_object(
          'provider', o.finish ->> 'provider', 'model', o.finish ->> 'model',
          'finishReason', o.finish ->> 'reason', 'costMicros', o.finish -> 'cost',
          'usage', (o.finish - '{reason,cost,provider,model,error,abortReason}'::text[]),
          'abortReason', o.finish -> 'abortReason',
          'error', case when o.finish ->> 'error' is not null then jsonb_build_object(
            'errorText', o.finish #> '{error,message}', 'code', o.finish #> '{error,code}',
            'retryable', o.finish #> '{error,retryable}') end))
      from owned o
      where o.finish is not null and m.tenant_id = o.tenant_id and m.message_id = o.message_id
    ), totals as (
      update hub.sessions s set updated_at = now(),
        prompt_tokens = s.prompt_tokens + (o.finish ->> 'promptTokens')::bigint,
        completion_tokens = s.completion_tokens + (o.finish ->> 'completionTokens')::bigint,
        cost_micros = s.cost_micros + coalesce((o.finish ->> 'cost')::bigint, 0),
        unpriced_runs = s.unpriced_runs + case when o.finish ->> 'cost' is null then 1 else 0 end
      from owned o
      where o.finish is not null and s.tenant_id = o.tenant_id and s.session_id = o.session_id
    )${usage.length === 0 ? sql`` : sql`, usage_rows as (${usageInsert(sql, usage)})`}${
    begun.length === 0 ? sql`` : sql`, begun_rows as (${modelCallInsert(sql, begun)})`
  }
    select run_id, stop, steered from fenced`);
}
