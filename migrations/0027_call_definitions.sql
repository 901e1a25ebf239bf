-- What the tool of a call said of itself when the call was judged, as approvals keep it: whoever takes the run over compares.
alter table hub.tool_calls add column def_hash text;
