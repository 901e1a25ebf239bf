-- What operators ask: what happened in a session, what today has cost, how models answer, and what each run waits for.

-- A line of `part` 0 and up is of that part of the message, one without a part of its run: `order by position, part, line`.
create or replace view hub.transcript as
select m.tenant_id, hub.public_id('ses', m.session_id) as session, m.position, p.part_index as part,
       m.created_at as at, m.role,
       case p.type when 'tool' then 'tool ' || p.tool_name when 'data' then 'data ' || (p.content ->> 'name')
         else p.type end as kind,
       case p.type
         when 'text' then p.content ->> 'text'
         when 'reasoning' then p.content ->> 'text'
         when 'tool' then coalesce(p.content ->> 'input', p.content ->> 'inputText', '') || ' => '
           || coalesce(p.content ->> 'output',
             case when p.content ->> 'denied' = 'true' then 'denied: ' else 'error: ' end || (p.content ->> 'errorText'),
             p.state)
         when 'file' then coalesce(p.content ->> 'filename', p.content ->> 'mediaType')
         when 'source-url' then p.content ->> 'url'
         when 'data' then p.content ->> 'data'
         else p.content::text
       end as text,
       m.superseded_at is not null as superseded, 1 as line, hub.public_id('run', m.run_id) as run,
       null::numeric as cost_usd, m.session_id
from hub.messages m
join hub.parts p on p.tenant_id = m.tenant_id and p.message_id = m.message_id
where p.content is not null and p.type <> 'step-start'
  -- These have lines of their own below.
  and not (p.type = 'data' and p.content ->> 'name' in ('question', 'sub-run'))
union all
-- Each step, where it begins: which model answered, how it ended, what it has cost.
select m.tenant_id, hub.public_id('ses', m.session_id), m.position, p.part_index, coalesce(s.started_at, m.created_at),
       'hub', 'step ' || (p.content ->> 'step'),
       case when s.state = 'done' then concat_ws(', ', nullif(concat_ws('/', s.provider, s.model), ''), s.finish_reason,
           coalesce(s.usage ->> 'promptTokens', '0') || ' + ' || coalesce(s.usage ->> 'completionTokens', '0') || ' tokens',
           round(extract(epoch from s.finished_at - s.started_at) * 1000) || ' ms')
         else 'not ended' end,
       m.superseded_at is not null, 0, hub.public_id('run', m.run_id), round(s.cost_micros / 1e6, 6), m.session_id
from hub.messages m
join hub.parts p on p.tenant_id = m.tenant_id and p.message_id = m.message_id
left join hub.steps s on s.tenant_id = m.tenant_id and s.run_id = m.run_id and s.step = (p.content ->> 'step')::int
where p.content is not null and p.type = 'step-start'
union all
-- What people were asked before a call, and who has answered what.
select a.tenant_id, hub.public_id('ses', m.session_id), m.position,
       (select p.part_index from hub.parts p where p.tenant_id = m.tenant_id and p.message_id = m.message_id
         and p.tool_call_id = hub.public_id('call', a.tool_call_id)),
       coalesce(a.decided_at, a.created_at), 'person', 'approval ' || a.tool_name,
       concat_ws(', ', a.risk || ' risk', 'asked ' || to_char(a.created_at at time zone 'UTC', 'HH24:MI:SS') || ' UTC')
         || ': ' || case a.state
           when 'pending' then 'nobody has answered yet'
           when 'expired' then 'nobody has answered in time'
           when 'cancelled' then 'not answered before its run ended'
           else a.state || ' by ' || case when a.decided_by is null then 'the command line'
               else coalesce(k.name, hub.public_id('key', a.decided_by)) end
             || case when a.remember <> 'once' then ', holds for later calls: ' || a.remember else '' end
             || coalesce(': ' || a.reason, '')
         end,
       m.superseded_at is not null, 2, hub.public_id('run', a.run_id), null, m.session_id
from hub.messages m
join hub.approvals a on a.tenant_id = m.tenant_id and a.run_id = m.run_id
left join hub.api_keys k on k.tenant_id = a.tenant_id and k.key_id = a.decided_by
union all
-- What tools have asked people during a call. Answers are secret.
select q.tenant_id, hub.public_id('ses', m.session_id), m.position,
       (select p.part_index from hub.parts p where p.tenant_id = m.tenant_id and p.message_id = m.message_id
         and p.tool_call_id = hub.public_id('call', q.tool_call_id)),
       coalesce(q.decided_at, q.created_at), 'person', 'question ' || q.source,
       q.message || ': ' || case q.state
         when 'pending' then 'nobody has answered yet'
         when 'expired' then 'nobody has answered in time'
         when 'cancelled' then 'not answered before its call ended'
         else q.state || ' by ' || case when q.decided_by is null then 'the command line'
           else coalesce(k.name, hub.public_id('key', q.decided_by)) end
       end,
       m.superseded_at is not null, 3, hub.public_id('run', q.run_id), null, m.session_id
from hub.messages m
join hub.questions q on q.tenant_id = m.tenant_id and q.run_id = m.run_id
left join hub.api_keys k on k.tenant_id = q.tenant_id and k.key_id = q.decided_by
union all
-- Runs that calls of this one have begun.
select r.tenant_id, hub.public_id('ses', m.session_id), m.position,
       (select p.part_index from hub.parts p where p.tenant_id = m.tenant_id and p.message_id = m.message_id
         and p.tool_call_id = r.parent_call_id),
       coalesce(r.finished_at, r.created_at), 'hub', 'sub-run ' || r.agent,
       hub.public_id('run', r.run_id) || ' of ' || hub.public_id('ses', r.session_id) || ': ' || r.status
         || coalesce(': ' || (r.error ->> 'code') || ': ' || (r.error ->> 'message'), ''),
       m.superseded_at is not null, 4, hub.public_id('run', m.run_id), round(r.cost_micros / 1e6, 6), m.session_id
from hub.messages m
join hub.runs r on r.tenant_id = m.tenant_id and r.parent_run_id = m.run_id
union all
-- How each run ended, or how it stands.
select m.tenant_id, hub.public_id('ses', m.session_id), m.position, null, coalesce(r.finished_at, r.created_at), 'hub',
       'run ' || r.status,
       concat_ws(', ', case r.status
           when 'failed' then coalesce((r.error ->> 'code') || ': ' || (r.error ->> 'message'), 'no reason is known')
           when 'cancelled' then coalesce(m.metadata ->> 'abortReason', 'stopped')
           else coalesce(r.finish_reason, case when r.cancel_requested_at is not null then 'asked to stop' end)
         end,
         'agent ' || r.agent, nullif(concat_ws('/', r.provider, m.metadata ->> 'model'), ''),
         case when r.finished_at is not null then r.prompt_tokens || ' + ' || r.completion_tokens || ' tokens' end,
         case when r.finished_at is not null
           then round(extract(epoch from r.finished_at - r.created_at) * 1000) || ' ms' end),
       m.superseded_at is not null, 5, hub.public_id('run', m.run_id), round(r.cost_micros / 1e6, 6), m.session_id
from hub.messages m
join hub.runs r on r.tenant_id = m.tenant_id and r.run_id = m.run_id;

-- The transcript of one session from top to bottom, found by the indexes of its tables. The tenant is the reader's, or
-- else that of a hub with one tenant.
create function hub.transcript_of(session text,
  tenant uuid default coalesce(nullif(current_setting('app.tenant', true), '')::uuid,
    '00000000-0000-7000-8000-000000000001'))
returns table ("position" int, part int, at timestamptz, role text, kind text, "text" text, cost_usd numeric,
  superseded boolean, run text)
language sql stable as $$
  select t.position, t.part, t.at, t.role, t.kind, t.text, t.cost_usd, t.superseded, t.run
  from hub.transcript t
  where t.tenant_id = transcript_of.tenant
    and t.session_id = substr(transcript_of.session, strpos(transcript_of.session, '_') + 1)::uuid
  order by t.position, t.part, t.line
$$;

-- What today has cost, five times over: in all, by key, by owner and by tag of the key, and by agent. A day is one of UTC,
-- as it is for budgets. A call counts once for each tag of its key.
create view hub.spend_today as
with today as (
  select u.tenant_id, u.key_id, r.agent, count(*) filter (where not u.from_cache) as calls,
         count(*) filter (where u.outcome <> 'ok' and not u.from_cache) as failed,
         count(*) filter (where u.from_cache) as from_cache,
         sum(u.prompt_tokens) as prompt_tokens, sum(u.completion_tokens) as completion_tokens,
         sum(u.cost_micros) as cost_micros, count(*) filter (where u.cost_micros is null and u.prompt_tokens is not null) as unpriced
  from hub.usage u
  left join hub.runs r on r.tenant_id = u.tenant_id and r.run_id = u.run_id
  where u.started_at >= date_trunc('day', now() at time zone 'UTC') at time zone 'UTC'
  group by 1, 2, 3
)
select t.tenant_id, g.grouped_by, g.name, g.key, sum(t.calls) as calls, sum(t.failed) as failed,
       sum(t.from_cache) as from_cache, sum(t.prompt_tokens) as prompt_tokens,
       sum(t.completion_tokens) as completion_tokens, round(sum(t.cost_micros) / 1e6, 6) as cost_usd,
       sum(t.unpriced) as unpriced
from today t
left join hub.api_keys k on k.tenant_id = t.tenant_id and k.key_id = t.key_id
cross join lateral (
  select 'total' as grouped_by, null as name, null as key
  union all select 'key', k.name, hub.public_id('key', t.key_id)
  union all select 'owner', k.owner, null
  union all select 'agent', t.agent, null
  union all select 'tag', tag.name, null
    from jsonb_array_elements_text(
      case when jsonb_array_length(k.tags) > 0 then k.tags else '[null]'::jsonb end) as tag (name)
) g
group by 1, 2, 3, 4;

-- How each model answers: calls and errors of today (UTC) and of the last hour, milliseconds of the calls of the last 24
-- hours that succeeded. Answers from the cache and calls that the client left are no errors, and have no part in times.
create view hub.model_latency as
with recent as (
  select u.*, u.started_at >= date_trunc('day', now() at time zone 'UTC') at time zone 'UTC' as is_today,
         u.started_at >= now() - interval '1 hour' as is_last_hour, u.outcome not in ('ok', 'aborted') as is_error
  from hub.usage u
  where u.started_at >= now() - interval '24 hours' and not u.from_cache
)
select tenant_id, provider, model, count(*) filter (where is_today) as calls_today,
       count(*) filter (where is_error and is_today) as errors_today,
       count(*) filter (where is_last_hour) as calls_last_hour,
       count(*) filter (where is_error and is_last_hour) as errors_last_hour,
       percentile_disc(0.5) within group (order by first_token_ms) filter (where outcome = 'ok') as first_p50_ms,
       percentile_disc(0.95) within group (order by first_token_ms) filter (where outcome = 'ok') as first_p95_ms,
       percentile_disc(0.5) within group (order by duration_ms) filter (where outcome = 'ok') as total_p50_ms,
       percentile_disc(0.95) within group (order by duration_ms) filter (where outcome = 'ok') as total_p95_ms
from recent
group by 1, 2, 3;

-- Runs that are not over, and what each waits for: the first that is true, from the top.
create view hub.runs_now as
select r.tenant_id, hub.public_id('run', r.run_id) as run, hub.public_id('ses', r.session_id) as session, r.agent, r.model,
       k.name as key, r.status, r.created_at, now() - r.created_at as age, s.step, w.waits_for, w.detail,
       now() - w.since as waiting, r.lease_owner as replica, r.lease_until,
       hub.public_id('run', r.parent_run_id) as parent
from hub.runs r
left join hub.api_keys k on k.tenant_id = r.tenant_id and k.key_id = r.key_id
left join lateral (
  select s.step, s.state, s.started_at, s.finished_at from hub.steps s
  where s.tenant_id = r.tenant_id and s.run_id = r.run_id order by s.step desc limit 1) s on true
left join lateral (
  select count(*) as open, min(a.created_at) as since,
         string_agg(a.tool_name || ' (' || a.risk || ' risk)', ', ' order by a.approval_id) as names
  from hub.approvals a
  where a.tenant_id = r.tenant_id and a.run_id = r.run_id and a.state = 'pending') a on true
left join lateral (
  select count(*) as open, min(q.created_at) as since, string_agg(q.source || ': ' || q.message, ', '
         order by q.question_id) as names
  from hub.questions q
  where q.tenant_id = r.tenant_id and q.run_id = r.run_id and q.state = 'pending') q on true
left join lateral (
  select count(*) as open, min(c.started_at) as since, string_agg(c.tool_name, ', ' order by c.idx) as names
  from hub.tool_calls c
  where c.tenant_id = r.tenant_id and c.run_id = r.run_id and c.state = 'started') c on true
left join lateral (
  select count(*) as open, min(m.began_at) as since,
         string_agg((m.facts #>> '{row,provider}') || '/' || (m.facts #>> '{row,model}'), ', ' order by m.usage_id) as names
  from hub.model_calls m
  where m.tenant_id = r.tenant_id and m.run_id = r.run_id and m.epoch = r.lease_epoch) m on true
cross join lateral (
  select v.waits_for, v.detail, v.since from (values
    (1, r.cancel_requested_at is not null, 'stop', 'it was asked to stop', r.cancel_requested_at),
    (2, r.status = 'running' and r.lease_until < now(), 'replica',
      'the lease of ' || r.lease_owner || ' has run out: another replica takes it over', r.lease_until),
    (3, r.status = 'queued' and r.run_after > now(), 'queue', 'it goes on at ' || to_char(r.run_after at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC', r.created_at),
    (4, r.status = 'queued' or r.status = 'running' and r.lease_until is null, 'replica',
      'the next replica that is free', coalesce(s.finished_at, r.created_at)),
    (5, q.open > 0, 'question', q.names, q.since),
    (6, a.open > 0 and (r.status = 'waiting' or c.open = 0), 'approval', a.names, a.since),
    (7, r.status = 'waiting', 'client', 'results of the calls that its client executes', s.finished_at),
    (8, c.open > 0, 'tool', c.names, c.since),
    (9, m.open > 0, 'model', m.names, m.since),
    (10, s.state = 'started', 'budget or place',
      'its call is not sent yet: money of the key''s budget, its limits, or a free place at the provider', s.started_at),
    (11, true, 'hub', 'the next step', coalesce(s.finished_at, r.created_at))
  ) as v (place, holds, waits_for, detail, since)
  where v.holds order by v.place limit 1) w
where r.status in ('queued', 'running', 'waiting');

-- Replacing a view resets its options.
do $$
declare v text;
begin
  if current_setting('server_version_num')::int < 150000 then return; end if;
  foreach v in array array['transcript', 'spend_today', 'model_latency', 'runs_now'] loop
    execute format('alter view hub.%I set (security_invoker = true)', v);
  end loop;
end $$;
