-- Responses that can be found again: those that the hub keeps itself, and where the others are kept.
create table hub.responses (
  tenant_id uuid not null,
  response_id text not null,
  key_id uuid not null,
  -- `provider/model` that keeps it; null for what the hub keeps itself.
  target text,
  -- Which key of that provider's pool asked for it.
  lane int,
  previous_id text,
  status text not null check (
    status in ('elsewhere', 'queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled')
  ),
  background boolean not null default false,
  -- What this response added to the conversation: items, and the response as clients see it.
  input jsonb,
  response jsonb,
  -- Until then whoever makes a background response is at work on it.
  lease_until timestamptz,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  primary key (tenant_id, response_id)
);
create index responses_expiry on hub.responses (expires_at);
create index responses_previous on hub.responses (tenant_id, previous_id);
alter table hub.responses enable row level security;
create policy tenant on hub.responses
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);

-- Events of a background response, for those who read along or come back.
create table hub.response_events (
  tenant_id uuid not null,
  response_id text not null,
  seq_from int not null,
  events jsonb not null,
  primary key (tenant_id, response_id, seq_from),
  foreign key (tenant_id, response_id) references hub.responses on delete cascade
);
alter table hub.response_events enable row level security;
create policy tenant on hub.response_events
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);

-- Items that a provider keeps, to tell whose they are.
create table hub.response_items (
  tenant_id uuid not null,
  item_id text not null,
  response_id text not null,
  primary key (tenant_id, item_id),
  foreign key (tenant_id, response_id) references hub.responses on delete cascade
);
create index response_items_response on hub.response_items (tenant_id, response_id);
alter table hub.response_items enable row level security;
create policy tenant on hub.response_items
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
