-- Answers kept under an Idempotency-Key: who asks the provider for one, and what has come of it.
alter table hub.idempotency
  add column claim_id uuid,
  add column state text check (state in ('running', 'done', 'too_large')),
  add column lease_until timestamptz,
  -- Until then a request on another replica waits for it.
  add column followed_until timestamptz;
create index idempotency_expiry on hub.idempotency (expires_at);

create table hub.idempotency_pieces (
  tenant_id uuid not null,
  idem_key text not null,
  claim_id uuid not null,
  piece int not null,
  bytes bytea not null,
  primary key (tenant_id, idem_key, claim_id, piece),
  foreign key (tenant_id, idem_key) references hub.idempotency on delete cascade
);
alter table hub.idempotency_pieces enable row level security;
create policy tenant on hub.idempotency_pieces
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
