-- Runs that go on or wait, by their key: those of a revoked or expired key are stopped.
create index runs_open_of_key on hub.runs (tenant_id, key_id) where status in ('queued', 'running', 'waiting');
