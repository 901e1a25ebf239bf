-- Whose key began a run, and by which request its model calls are booked, also after another replica took it over.
-- Null for runs from before: they have their session's key.
alter table hub.runs
  add column key_id uuid,
  add column request_id text;
