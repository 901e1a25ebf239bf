-- Money with six decimals: a millionth of a US dollar is what is counted.
create or replace view hub.session_overview as
select s.tenant_id, hub.public_id('ses', s.session_id) as session, s.external_id, s.title, s.agent,
       s.created_at, s.updated_at, s.message_count as messages, s.run_count as runs,
       coalesce(a.status, 'idle') as status, s.prompt_tokens, s.completion_tokens,
       case when s.unpriced_runs = 0 then round(s.cost_micros / 1e6, 6) end as cost_usd
from hub.sessions s
left join hub.runs a on a.tenant_id = s.tenant_id and a.session_id = s.session_id
  and a.status in ('queued', 'running', 'waiting');

create or replace view hub.usage_daily as
select tenant_id, date_trunc('day', started_at at time zone 'UTC')::date as day, provider, model,
       hub.public_id('key', key_id) as key, count(*) as requests,
       count(*) filter (where outcome <> 'ok') as failed,
       sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens,
       sum(cached_tokens) as cached_tokens, round(sum(cost_micros) / 1e6, 6) as cost_usd,
       count(*) filter (where cost_micros is null) as unpriced
from hub.usage
group by 1, 2, 3, 4, 5;

-- Replacing a view resets its options.
do $$
begin
  if current_setting('server_version_num')::int < 150000 then return; end if;
  alter view hub.session_overview set (security_invoker = true);
  alter view hub.usage_daily set (security_invoker = true);
end $$;
