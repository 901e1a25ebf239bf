-- How far an answer to a question reaches: `tier` is what the question allows, `remember` what the answer said.
alter table hub.approvals
  add column tier text not null default 'ask',
  add column remember text;

-- Approvals that hold for later calls: of one tool as it was shown, for the runs of one key with one agent. `scope` is the
-- session they hold in, or all zeros for any; a later grant takes the place of an earlier one.
create table hub.approval_grants (
  tenant_id uuid not null,
  key_id uuid not null,
  agent text not null,
  tool_name text not null,
  scope uuid not null,
  grant_id uuid not null,
  def_hash text not null,
  session_id uuid,
  approval_id uuid not null,
  -- Null: the command line.
  granted_by uuid,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  primary key (tenant_id, key_id, agent, tool_name, scope),
  foreign key (tenant_id, session_id) references hub.sessions on delete cascade
);
create unique index approval_grants_id on hub.approval_grants (tenant_id, grant_id);
create index approval_grants_session on hub.approval_grants (tenant_id, session_id);
alter table hub.approval_grants enable row level security;
create policy tenant on hub.approval_grants
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
