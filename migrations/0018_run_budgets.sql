-- What a run may use up, and what each of its steps has cost: a replica that takes it over goes on counting.
alter table hub.runs add column budget jsonb;
alter table hub.steps add column cost_micros bigint;
