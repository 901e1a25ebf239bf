-- The hub as an OAuth client of MCP servers. What is secret is sealed as the secrets of providers are. The owner is a key
-- (its uuid), or `tenant` for what an operator let in for all keys of a tenant.
create table hub.mcp_registrations (
  tenant_id uuid not null,
  server text not null,
  owner text not null,
  issuer text not null,
  master_key_id text not null,
  nonce bytea not null,
  ciphertext bytea not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  primary key (tenant_id, server, owner, issuer)
);

create table hub.mcp_grants (
  tenant_id uuid not null,
  server text not null,
  owner text not null,
  issuer text not null,
  state text not null check (state in ('ready', 'needs_auth')),
  reason text,
  scope text,
  wanted_scope text,
  master_key_id text not null,
  nonce bytea not null,
  ciphertext bytea not null,
  -- Another one with each change of the tokens or of the state; whoever refreshes compares it.
  version int not null default 1,
  -- Who refreshes now, and until when nobody else does. Without an owner: not before then, since the last try failed.
  refresh_owner text,
  refresh_until timestamptz,
  failures int not null default 0,
  authorized_at timestamptz not null default now(),
  refreshed_at timestamptz,
  refresh_after timestamptz,
  expires_at timestamptz,
  primary key (tenant_id, server, owner, issuer)
);

-- Authorizations that were begun: one at a time for each owner of a server, each used once.
create table hub.mcp_authorizations (
  tenant_id uuid not null,
  server text not null,
  owner text not null,
  key_id uuid not null,
  state_hash bytea not null,
  master_key_id text not null,
  nonce bytea not null,
  ciphertext bytea not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  primary key (tenant_id, server, owner)
);
create unique index mcp_authorizations_state on hub.mcp_authorizations (tenant_id, state_hash);
create index mcp_authorizations_expired on hub.mcp_authorizations (expires_at);

alter table hub.mcp_registrations enable row level security;
create policy tenant on hub.mcp_registrations
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
alter table hub.mcp_grants enable row level security;
create policy tenant on hub.mcp_grants
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
alter table hub.mcp_authorizations enable row level security;
create policy tenant on hub.mcp_authorizations
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
