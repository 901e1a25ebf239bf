-- What MCP servers list beside tools; null where it was not read yet.
alter table hub.mcp_catalogues add column content jsonb;

-- What tools gave that is neither text nor an image that models take: once for each session, by its SHA-256.
create table hub.files (
  tenant_id uuid not null,
  session_id uuid not null,
  sha256 bytea not null,
  media_type text not null,
  content bytea not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, session_id, sha256),
  foreign key (tenant_id, session_id) references hub.sessions on delete cascade
);
alter table hub.files enable row level security;
create policy tenant on hub.files
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
