-- Which definitions of tools count for those who have authorized a server themselves. The owner is a key (its uuid), or
-- `tenant` for what an operator let in for all keys of a tenant other than the hub's own.
create table hub.mcp_owner_pins (
  tenant_id uuid not null,
  server text not null,
  owner text not null,
  -- SHA-256 of how the server is reached, as in hub.mcp_catalogues.
  config_hash text not null,
  -- Hash of each tool's definition as it was first seen or approved.
  pins jsonb not null,
  primary key (tenant_id, server, owner)
);
alter table hub.mcp_owner_pins enable row level security;
create policy tenant on hub.mcp_owner_pins
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
