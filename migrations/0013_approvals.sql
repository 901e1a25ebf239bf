-- Answers of people to calls that wait for one. The run counts what was decided, so that it begins to wait and is woken
-- by its own row, and no answer can come between the two unseen.
alter table hub.runs add column decision_count int not null default 0;

-- A question ends as `cancelled` too, with its run. The hub alone writes rows, and its type has the states.
alter table hub.approvals drop constraint approvals_state_check;
create index approvals_due on hub.approvals (expires_at) where state = 'pending';
create index approvals_run on hub.approvals (tenant_id, run_id);

create or replace view hub.pending_approvals as
select a.tenant_id, hub.public_id('run', a.run_id) as run, hub.public_id('call', a.tool_call_id) as call,
       a.tool_name, a.risk, a.created_at, a.expires_at, hub.public_id('apr', a.approval_id) as approval
from hub.approvals a
join hub.runs r on r.tenant_id = a.tenant_id and r.run_id = a.run_id
where a.state = 'pending' and r.status in ('queued', 'running', 'waiting') and r.cancel_requested_at is null;

-- Replacing a view resets its options.
do $$
begin
  if current_setting('server_version_num')::int < 150000 then return; end if;
  alter view hub.pending_approvals set (security_invoker = true);
end $$;
