-- Whole answers that requests asked to be kept, for all keys of a tenant.
create table hub.cached_answers (
  tenant_id uuid not null,
  -- SHA-256 of all that the answer depends on; of the request nothing else is here.
  cache_key bytea not null,
  -- Whose request it was that the provider answered.
  key_id uuid not null,
  head jsonb not null,
  body bytea not null,
  size int not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  primary key (tenant_id, cache_key)
);
create index cached_answers_expiry on hub.cached_answers (expires_at);
create index cached_answers_age on hub.cached_answers (created_at);
create index cached_answers_key on hub.cached_answers (tenant_id, key_id);
alter table hub.cached_answers enable row level security;
create policy tenant on hub.cached_answers
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);

-- A row of an answer that no provider was asked for.
alter table hub.usage add column from_cache boolean not null default false;

create or replace view hub.usage_daily as
select tenant_id, date_trunc('day', started_at at time zone 'UTC')::date as day, provider, model,
       hub.public_id('key', key_id) as key, count(*) filter (where not from_cache) as requests,
       count(*) filter (where outcome <> 'ok' and not from_cache) as failed,
       sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens,
       sum(cached_tokens) as cached_tokens, round(sum(cost_micros) / 1e6, 6) as cost_usd,
       count(*) filter (where cost_micros is null) as unpriced,
       sum(cache_write_tokens) as cache_write_tokens, sum(reasoning_tokens) as reasoning_tokens,
       count(*) filter (where from_cache) as from_cache
from hub.usage
group by 1, 2, 3, 4, 5;

-- Replacing a view resets its options.
do $$
begin
  if current_setting('server_version_num')::int < 150000 then return; end if;
  alter view hub.usage_daily set (security_invoker = true);
end $$;
