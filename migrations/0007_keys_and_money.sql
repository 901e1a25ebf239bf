-- What keys may do, and the token that a key had before it was rotated.
alter table hub.api_keys
  add column owner text,
  add column tags jsonb not null default '[]',
  add column policy jsonb not null default '{}',
  add column former_lookup_id text,
  add column former_hash bytea,
  add column former_until timestamptz;
create unique index api_keys_former on hub.api_keys (tenant_id, former_lookup_id)
  where former_lookup_id is not null;

-- The windows whose budgets a call counts in are written down with it; null for a key without budgets.
alter table hub.usage
  add column cache_write_tokens bigint,
  add column budget_windows jsonb;

-- Money of a key in one window: '2026-11-21', '2026-11', 'total', each also as 'agent NAME …'.
create table hub.budget_windows (
  tenant_id uuid not null,
  key_id uuid not null,
  window_id text not null,
  spent_micros bigint not null default 0,
  reserved_micros bigint not null default 0,
  -- Of `spent_micros`, what calls had cost before the key had a budget.
  seeded_micros bigint not null default 0,
  created_at timestamptz not null default now(),
  primary key (tenant_id, key_id, window_id)
) with (fillfactor = 50);

-- A reservation has the id of its call's usage row. It counts until it is settled or, its lease over, released.
alter table hub.reservations
  add column windows jsonb not null default '[]',
  add column released_at timestamptz;
create index reservations_lease on hub.reservations (lease_until)
  where settled_at is null and released_at is null;
create index reservations_settled on hub.reservations (settled_at) where settled_at is not null;

-- Requests and tokens of a key in one minute.
create table hub.rate_windows (
  tenant_id uuid not null,
  key_id uuid not null,
  window_id text not null,
  requests bigint not null default 0,
  tokens bigint not null default 0,
  created_at timestamptz not null default now(),
  primary key (tenant_id, key_id, window_id)
) with (fillfactor = 50);

do $$
declare t text;
begin
  foreach t in array array['budget_windows', 'rate_windows'] loop
    execute format('alter table hub.%I enable row level security', t);
    execute format($p$create policy tenant on hub.%I
      using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid)$p$, t);
  end loop;
end $$;

create or replace view hub.usage_daily as
select tenant_id, date_trunc('day', started_at at time zone 'UTC')::date as day, provider, model,
       hub.public_id('key', key_id) as key, count(*) as requests,
       count(*) filter (where outcome <> 'ok') as failed,
       sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens,
       sum(cached_tokens) as cached_tokens, round(sum(cost_micros) / 1e6, 6) as cost_usd,
       count(*) filter (where cost_micros is null) as unpriced,
       sum(cache_write_tokens) as cache_write_tokens, sum(reasoning_tokens) as reasoning_tokens
from hub.usage
group by 1, 2, 3, 4, 5;

-- Replacing a view resets its options.
do $$
begin
  if current_setting('server_version_num')::int < 150000 then return; end if;
  alter view hub.usage_daily set (security_invoker = true);
end $$;
