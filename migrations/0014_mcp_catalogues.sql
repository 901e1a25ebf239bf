-- What MCP servers listed last, so that no run waits for one that was reached before; and which definitions count.
create table hub.mcp_catalogues (
  tenant_id uuid not null,
  server text not null,
  -- SHA-256 of how the server is reached: another program, address or variable is another server.
  config_hash text not null,
  tools jsonb not null,
  instructions text not null,
  -- Hash of each tool's definition as it was first seen or approved; null for servers that are trusted.
  pins jsonb,
  listed_at timestamptz not null,
  primary key (tenant_id, server)
);
alter table hub.mcp_catalogues enable row level security;
create policy tenant on hub.mcp_catalogues
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
