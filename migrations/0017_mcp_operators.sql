-- Names of the MCP servers that a run's caller handed credentials over for: whoever goes on with the run asks for them again.
-- The credentials themselves are nowhere.
alter table hub.runs add column handed_servers jsonb;

-- Each call of a tool of a connected server, of runs and over /mcp alike. Rows are only ever added, and dropped when old.
create table hub.mcp_calls (
  tenant_id uuid not null,
  mcp_call_id uuid not null,
  server text not null,
  -- The server's own name of it.
  tool text not null,
  key_id uuid,
  -- That of the model's call; null for both of the next with calls over /mcp.
  tool_call_id uuid not null,
  run_id uuid,
  session_id uuid,
  -- Whether a credential that the caller handed over was sent.
  handed boolean not null,
  -- The first 16 digits of SHA-256 of the arguments.
  args_hash text not null,
  outcome text not null check (outcome in ('succeeded', 'failed', 'aborted')),
  duration_ms int not null,
  bytes_in bigint not null,
  bytes_out bigint not null,
  called_at timestamptz not null,
  primary key (tenant_id, mcp_call_id)
);
create index mcp_calls_called on hub.mcp_calls (called_at);
alter table hub.mcp_calls enable row level security;
create policy tenant on hub.mcp_calls
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);

create view hub.mcp_activity as
select tenant_id, called_at, hub.public_id('call', tool_call_id) as call, server, tool,
       hub.public_id('key', key_id) as key, hub.public_id('run', run_id) as run, handed, args_hash, outcome, duration_ms,
       bytes_in, bytes_out
from hub.mcp_calls;
do $$
begin
  if current_setting('server_version_num')::int >= 150000 then
    alter view hub.mcp_activity set (security_invoker = true);
  end if;
end $$;
