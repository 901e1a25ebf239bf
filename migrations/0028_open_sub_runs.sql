-- Runs below others that are not over: whoever stops what nobody waits for any more looks at these alone.
create index runs_open_below on hub.runs (tenant_id, parent_run_id)
  where parent_run_id is not null and status in ('queued', 'running', 'waiting');
