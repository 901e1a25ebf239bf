-- Requests and tokens of a key in slices of its last minute. All of them are in one row, so that a statement decides on
-- what is there when it has the row's lock. Takes the place of rate_windows, which older hubs use.
create table hub.rate_slices (
  tenant_id uuid not null,
  key_id uuid not null,
  -- [requests, tokens] by number of the slice.
  slices jsonb not null,
  changed_at timestamptz not null default now(),
  primary key (tenant_id, key_id)
) with (fillfactor = 50);
alter table hub.rate_slices enable row level security;
create policy tenant on hub.rate_slices
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);

-- What slices from `since` on hold: 0 for requests, 1 for tokens.
create function hub.sum_of_slices(slices jsonb, since bigint, member int) returns bigint
  language sql immutable as $$
    select coalesce(sum((value ->> member)::bigint), 0)::bigint
    from jsonb_each(slices) where key::bigint >= since $$;

-- Adds to a slice and drops those before `since`.
create function hub.add_to_slice(slices jsonb, since bigint, slice bigint, requests bigint, tokens bigint) returns jsonb
  language sql immutable as $$
    select jsonb_object_agg(number, jsonb_build_array(r, t)) from (
      select number, sum(r)::bigint as r, sum(t)::bigint as t from (
        select key::bigint as number, (value ->> 0)::bigint as r, (value ->> 1)::bigint as t from jsonb_each(slices)
        union all select slice, requests, tokens) as added
      where number >= since group by number) as live $$;

-- Adds to the tokens of the slices that `changes` names and that are still there.
create function hub.correct_slices(slices jsonb, changes jsonb) returns jsonb
  language sql immutable as $$
    select coalesce(jsonb_object_agg(key, jsonb_build_array(value -> 0,
      greatest(0, (value ->> 1)::bigint + coalesce((changes ->> key)::bigint, 0)))), '{}'::jsonb)
    from jsonb_each(slices) $$;
