-- What MCP servers ask people in the middle of a call of a run. An answer is sealed, and stays until the call has it.
create table hub.questions (
  tenant_id uuid not null,
  question_id uuid not null,
  run_id uuid not null,
  tool_call_id uuid not null,
  -- The server, as its tools are known by.
  source text not null,
  kind text not null,
  message text not null,
  -- What else there is to see: the schema of a form, an address.
  asked json not null,
  state text not null check (state in ('pending', 'answered', 'declined', 'expired', 'cancelled')),
  decided_by uuid,
  master_key_id text,
  nonce bytea,
  ciphertext bytea,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  decided_at timestamptz,
  primary key (tenant_id, question_id),
  foreign key (tenant_id, run_id) references hub.runs on delete cascade
);
create index questions_run on hub.questions (tenant_id, run_id);
alter table hub.questions enable row level security;
create policy tenant on hub.questions
  using (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);

create view hub.pending_questions as
select q.tenant_id, hub.public_id('run', q.run_id) as run, hub.public_id('call', q.tool_call_id) as call, q.source,
       q.kind, q.message, q.created_at, q.expires_at, hub.public_id('qst', q.question_id) as question
from hub.questions q
join hub.runs r on r.tenant_id = q.tenant_id and r.run_id = q.run_id
where q.state = 'pending' and r.status in ('queued', 'running', 'waiting') and r.cancel_requested_at is null;
do $$
begin
  if current_setting('server_version_num')::int >= 150000 then
    alter view hub.pending_questions set (security_invoker = true);
  end if;
end $$;
