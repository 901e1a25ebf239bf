-- Runs that a call of another run has begun: whoever stops that one stops them, and whoever answers for it may answer for them.
alter table hub.runs add column parent_run_id uuid;
alter table hub.runs add column parent_call_id text;
create index runs_parent on hub.runs (tenant_id, parent_run_id) where parent_run_id is not null;
