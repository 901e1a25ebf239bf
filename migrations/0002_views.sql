-- What operators read. Public ids are the prefix and the uuid without dashes.
create function hub.public_id(prefix text, id uuid) returns text
  language sql immutable as $$ select prefix || '_' || replace(id::text, '-', '') $$;

create view hub.session_overview as
select s.tenant_id, hub.public_id('ses', s.session_id) as session, s.external_id, s.title, s.agent,
       s.created_at, s.updated_at, s.message_count as messages, s.run_count as runs,
       coalesce(a.status, 'idle') as status, s.prompt_tokens, s.completion_tokens,
       case when s.unpriced_runs = 0 then s.cost_micros / 1e6 end as cost_usd
from hub.sessions s
left join hub.runs a on a.tenant_id = s.tenant_id and a.session_id = s.session_id
  and a.status in ('queued', 'running', 'waiting');

create view hub.transcript as
select m.tenant_id, hub.public_id('ses', m.session_id) as session, m.position, p.part_index as part,
       m.created_at as at, m.role,
       case when p.type = 'tool' then 'tool ' || p.tool_name else p.type end as kind,
       case p.type
         when 'text' then p.content ->> 'text'
         when 'reasoning' then p.content ->> 'text'
         when 'tool' then coalesce(p.content ->> 'input', p.content ->> 'inputText', '') || ' => '
           || coalesce(p.content ->> 'output', 'error: ' || (p.content ->> 'errorText'), p.state)
         when 'file' then coalesce(p.content ->> 'filename', p.content ->> 'mediaType')
         when 'source-url' then p.content ->> 'url'
         else p.content::text
       end as text,
       m.superseded_at is not null as superseded
from hub.messages m
join hub.parts p on p.tenant_id = m.tenant_id and p.message_id = m.message_id
where p.content is not null and p.type <> 'step-start';

create view hub.tool_activity as
select c.tenant_id, hub.public_id('run', c.run_id) as run, hub.public_id('call', c.tool_call_id) as call,
       c.step, c.idx, c.tool_name, c.effect, c.state, c.duration_ms, c.input, c.output, c.error_text,
       c.created_at, c.started_at, c.finished_at
from hub.tool_calls c;

create view hub.usage_daily as
select tenant_id, date_trunc('day', started_at at time zone 'UTC')::date as day, provider, model,
       hub.public_id('key', key_id) as key, count(*) as requests,
       count(*) filter (where outcome <> 'ok') as failed,
       sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens,
       sum(cached_tokens) as cached_tokens, sum(cost_micros) / 1e6 as cost_usd,
       count(*) filter (where cost_micros is null) as unpriced
from hub.usage
group by 1, 2, 3, 4, 5;

create view hub.run_failures as
select r.tenant_id, hub.public_id('run', r.run_id) as run, hub.public_id('ses', r.session_id) as session,
       r.agent, r.model, r.provider, r.error ->> 'code' as code, r.error ->> 'message' as message,
       r.created_at, r.finished_at, r.attempts
from hub.runs r
where r.status = 'failed';

create view hub.pending_approvals as
select a.tenant_id, hub.public_id('run', a.run_id) as run, hub.public_id('call', a.tool_call_id) as call,
       a.tool_name, a.risk, a.created_at, a.expires_at
from hub.approvals a
where a.state = 'pending';
