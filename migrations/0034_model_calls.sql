-- Model calls of runs that were sent and have no usage row yet. Whoever takes the run over books them from here, under
-- the usage row's own id, so that the row of the owner and the row of the takeover are one.
create table hub.model_calls (
  tenant_id uuid not null,
  usage_id uuid not null,
  run_id uuid not null,
  -- Epoch of the owner that sent it.
  epoch bigint not null,
  -- Null for a call of a tool (sampling).
  step int,
  -- The usage row as it stands when nothing of the answer is known, with the price that the call was sent at.
  facts jsonb not null,
  began_at timestamptz not null default now(),
  primary key (tenant_id, usage_id)
);
create index model_calls_run on hub.model_calls (tenant_id, run_id);
create index model_calls_began on hub.model_calls (began_at);
alter table hub.model_calls enable row level security;
create policy tenant on hub.model_calls
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);

-- What a reservation was settled with before real figures replaced an estimate; null while it was settled once.
alter table hub.reservations add column former_micros bigint;
