-- Until then a secret holds that was followed by another; null while the one behind it has not been seen to work.
alter table hub.client_secrets add column expires_at timestamptz;

-- The hub's own secrets, sealed as those of providers are.
create table hub.secrets (
  tenant_id uuid not null,
  name text not null,
  master_key_id text not null,
  nonce bytea not null,
  ciphertext bytea not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, name)
);
alter table hub.secrets enable row level security;
create policy tenant on hub.secrets
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
