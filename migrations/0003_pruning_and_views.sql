-- Which runs still have their event log: pruning finds the next ones by an index that holds only those.
alter table hub.runs add column events_pruned_at timestamptz;
create index runs_unpruned on hub.runs (finished_at)
  where finished_at is not null and events_pruned_at is null;

-- A view reads as whoever asks, so that row-level security holds behind it too. PostgreSQL 14 does not know the option.
do $$
declare v text;
begin
  if current_setting('server_version_num')::int < 150000 then return; end if;
  foreach v in array array['session_overview', 'transcript', 'tool_activity', 'usage_daily', 'run_failures',
    'pending_approvals'] loop
    execute format('alter view hub.%I set (security_invoker = true)', v);
  end loop;
end $$;
