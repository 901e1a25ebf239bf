-- The usage rows of a run: whoever takes it over counts them, and its readers are told whether some are estimates.
create index usage_run on hub.usage (tenant_id, run_id) where run_id is not null;
