-- Where a call's result comes from, when it may hold the words of others: what such a call has given stays in its session.
alter table hub.tool_calls add column outside text;
-- What a run had read of others when it asked, and what a grant was given in sight of.
alter table hub.approvals add column tainted json;
alter table hub.approval_grants add column tainted jsonb not null default '[]';
