-- Names of the MCP servers that a run's caller handed credentials over for: whoever goes on with the run asks for them again.
-- The credentials themselves are nowhere.
alter table hub.runs add column handed_servers jsonb;
