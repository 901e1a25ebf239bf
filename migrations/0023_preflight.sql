-- What the caller of a run wants to be asked before its tools run, beside what its agent says.
alter table hub.runs add column preflight text;

-- A plan is a question like that for a call: what was shown of it, and the steps that were agreed on where somebody
-- has changed them.
alter table hub.approvals add column plan jsonb;
alter table hub.approvals add column answer jsonb;
