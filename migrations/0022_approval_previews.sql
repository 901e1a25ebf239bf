-- What a person is shown of a call beside its arguments, and the state that was made from: the call finds it again, or fails.
alter table hub.approvals
  add column preview json,
  add column shown_state text;
