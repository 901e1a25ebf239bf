-- The hub's tables. Rules: tenant_id leads every key; ids and times come from the hub; no sequences; no DDL at run time.
create schema if not exists hub;

create table hub.api_keys (
  tenant_id uuid not null,
  key_id uuid not null,
  name text not null,
  role text not null check (role in ('user', 'admin')),
  lookup_id text not null,
  secret_hash bytea not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  primary key (tenant_id, key_id)
);
create unique index api_keys_lookup on hub.api_keys (tenant_id, lookup_id);

-- Providers kept in the database; their secrets are AES-256-GCM boxes.
create table hub.clients (
  tenant_id uuid not null,
  client_id uuid not null,
  name text not null,
  kind text not null,
  settings jsonb not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, client_id)
);
create unique index clients_name on hub.clients (tenant_id, name);

create table hub.client_secrets (
  tenant_id uuid not null,
  client_id uuid not null,
  field text not null,
  master_key_id text not null,
  nonce bytea not null,
  ciphertext bytea not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, client_id, field),
  foreign key (tenant_id, client_id) references hub.clients on delete cascade
);

create table hub.agents (
  tenant_id uuid not null,
  agent_id uuid not null,
  name text not null,
  settings jsonb not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, agent_id)
);
create unique index agents_name on hub.agents (tenant_id, name);

create table hub.sessions (
  tenant_id uuid not null,
  session_id uuid not null,
  external_id text,
  title text,
  agent text not null,
  metadata jsonb not null default '{}',
  key_id uuid,
  message_count int not null default 0,
  run_count int not null default 0,
  prompt_tokens bigint not null default 0,
  completion_tokens bigint not null default 0,
  cost_micros bigint not null default 0,
  unpriced_runs int not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, session_id)
);
create unique index sessions_external on hub.sessions (tenant_id, external_id) where external_id is not null;
create index sessions_recent on hub.sessions (tenant_id, created_at desc, session_id desc);

create table hub.runs (
  tenant_id uuid not null,
  run_id uuid not null,
  session_id uuid not null,
  message_id uuid not null,
  agent text not null,
  model text not null,
  provider text,
  status text not null default 'queued'
    check (status in ('queued', 'running', 'waiting', 'completed', 'failed', 'cancelled')),
  finish_reason text,
  -- Ownership: only now() and the epoch decide it.
  lease_owner text,
  lease_epoch bigint not null default 0,
  lease_until timestamptz,
  run_after timestamptz not null default now(),
  attempts int not null default 0,
  max_attempts int not null default 8,
  -- The log: last_seq is committed, seq_reserved may already have been shown to a client.
  last_seq bigint not null default 0,
  seq_reserved bigint not null default 0,
  cancel_requested_at timestamptz,
  deadline_at timestamptz,
  idem_key text,
  idem_hash bytea,
  prompt_tokens bigint not null default 0,
  completion_tokens bigint not null default 0,
  total_tokens bigint not null default 0,
  cached_tokens bigint not null default 0,
  reasoning_tokens bigint not null default 0,
  cost_micros bigint,
  error jsonb,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  primary key (tenant_id, run_id),
  foreign key (tenant_id, session_id) references hub.sessions on delete cascade
) with (fillfactor = 70);
create unique index runs_idem on hub.runs (tenant_id, idem_key) where idem_key is not null;
create unique index runs_one_active on hub.runs (tenant_id, session_id)
  where status in ('queued', 'running', 'waiting');
create index runs_claim on hub.runs (run_after) where status in ('queued', 'running');
create index runs_session on hub.runs (tenant_id, session_id, created_at);

create table hub.run_events (
  tenant_id uuid not null,
  run_id uuid not null,
  seq_from bigint not null,
  seq_to bigint not null,
  epoch bigint not null,
  -- json keeps the order of members, so a replay gives the very bytes that were sent first.
  events json not null,
  at timestamptz not null default now(),
  primary key (tenant_id, run_id, seq_from),
  foreign key (tenant_id, run_id) references hub.runs on delete cascade
);
create index run_events_at on hub.run_events (at);

create table hub.messages (
  tenant_id uuid not null,
  message_id uuid not null,
  session_id uuid not null,
  run_id uuid,
  position int not null,
  role text not null check (role in ('system', 'user', 'assistant')),
  -- The id the client gave (idempotency), and the hash of what it said.
  client_id text,
  content_hash text,
  metadata jsonb,
  superseded_at timestamptz,
  created_at timestamptz not null default now(),
  primary key (tenant_id, message_id),
  foreign key (tenant_id, session_id) references hub.sessions on delete cascade
);
create unique index messages_position on hub.messages (tenant_id, session_id, position);
create unique index messages_client on hub.messages (tenant_id, session_id, client_id)
  where client_id is not null;

create table hub.parts (
  tenant_id uuid not null,
  message_id uuid not null,
  part_index int not null,
  type text not null,
  tool_name text,
  tool_call_id text,
  state text,
  -- Null: the place is void, a failed attempt had used it. json, so that models read the same bytes again.
  content json,
  primary key (tenant_id, message_id, part_index),
  foreign key (tenant_id, message_id) references hub.messages on delete cascade
);

create table hub.steps (
  tenant_id uuid not null,
  run_id uuid not null,
  step int not null,
  epoch bigint not null,
  state text not null check (state in ('started', 'done')),
  attempt int not null,
  finish_reason text,
  provider text,
  model text,
  usage jsonb,
  started_at timestamptz not null default now(),
  finished_at timestamptz,
  primary key (tenant_id, run_id, step),
  foreign key (tenant_id, run_id) references hub.runs on delete cascade
);

-- The journal: what ran, what may run, what must never run again.
create table hub.tool_calls (
  tenant_id uuid not null,
  run_id uuid not null,
  tool_call_id uuid not null,
  step int not null,
  idx int not null,
  tool_name text not null,
  provider_call_id text,
  input json,
  input_text text not null,
  args_hash text not null,
  effect text not null check (effect in ('pure', 'idempotent', 'effect')),
  idempotency_key text not null,
  state text not null check (state in
    ('awaiting_approval', 'denied', 'ready', 'started', 'succeeded', 'failed', 'unknown', 'cancelled')),
  epoch bigint not null,
  output json,
  error_text text,
  duration_ms int,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  finished_at timestamptz,
  primary key (tenant_id, run_id, tool_call_id),
  foreign key (tenant_id, run_id) references hub.runs on delete cascade
);

create table hub.approvals (
  tenant_id uuid not null,
  approval_id uuid not null,
  run_id uuid not null,
  tool_call_id uuid not null,
  tool_name text not null,
  args_hash text not null,
  def_hash text not null,
  risk text not null,
  state text not null default 'pending' check (state in ('pending', 'approved', 'denied', 'expired')),
  reason text,
  decided_by uuid,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  decided_at timestamptz,
  primary key (tenant_id, approval_id),
  foreign key (tenant_id, run_id) references hub.runs on delete cascade
);

create table hub.steering (
  tenant_id uuid not null,
  steering_id uuid not null,
  run_id uuid not null,
  kind text not null check (kind in ('steer', 'queue')),
  state text not null default 'pending' check (state in ('pending', 'applied', 'undelivered')),
  text text not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, steering_id),
  foreign key (tenant_id, run_id) references hub.runs on delete cascade
);

create table hub.usage (
  tenant_id uuid not null,
  usage_id uuid not null,
  key_id uuid,
  request_id text not null,
  session_id uuid,
  run_id uuid,
  step int,
  kind text not null check (kind in ('proxy', 'run')),
  provider text not null,
  model text not null,
  public_model text not null,
  streamed boolean not null,
  outcome text not null check (outcome in ('ok', 'error', 'aborted', 'cut', 'timeout')),
  status int,
  error_code text,
  prompt_tokens bigint,
  completion_tokens bigint,
  cached_tokens bigint,
  reasoning_tokens bigint,
  estimated boolean not null,
  cost_micros bigint,
  started_at timestamptz not null,
  first_token_ms int,
  duration_ms int not null,
  bytes_out bigint not null,
  attempts jsonb not null,
  primary key (tenant_id, usage_id)
);
create index usage_started on hub.usage (tenant_id, started_at);

create table hub.reservations (
  tenant_id uuid not null,
  reservation_id uuid not null,
  key_id uuid not null,
  request_id text not null,
  amount_micros bigint not null,
  lease_until timestamptz not null,
  settled_micros bigint,
  settled_at timestamptz,
  created_at timestamptz not null default now(),
  primary key (tenant_id, reservation_id)
);

create table hub.blobs (
  tenant_id uuid not null,
  blob_id uuid not null,
  session_id uuid not null,
  run_id uuid,
  tool_call_id uuid,
  content text not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, blob_id),
  foreign key (tenant_id, session_id) references hub.sessions on delete cascade
);

create table hub.audit (
  tenant_id uuid not null,
  audit_id uuid not null,
  actor_key_id uuid,
  action text not null,
  subject text not null,
  details jsonb not null default '{}',
  at timestamptz not null default now(),
  primary key (tenant_id, audit_id)
);

create table hub.idempotency (
  tenant_id uuid not null,
  idem_key text not null,
  body_hash bytea not null,
  run_id uuid,
  status int,
  response jsonb,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  primary key (tenant_id, idem_key)
);

-- Second wall for readers that are not the hub: a role that sees one tenant, the one in app.tenant.
do $$
declare t text;
begin
  foreach t in array array['api_keys', 'clients', 'client_secrets', 'agents', 'sessions', 'runs', 'run_events',
    'messages', 'parts', 'steps', 'tool_calls', 'approvals', 'steering', 'usage', 'reservations', 'blobs', 'audit',
    'idempotency'] loop
    execute format('alter table hub.%I enable row level security', t);
    execute format($p$create policy tenant on hub.%I
      using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid)$p$, t);
  end loop;
end $$;
