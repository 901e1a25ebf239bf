-- What the answer of a run has to be: {"schema": …} for JSON, null for text. A replica that takes it over holds it to the same.
alter table hub.runs add column answer_format jsonb;
