-- Approvals that hold for later calls, and for a time: those whose time is over are deleted.
create index approval_grants_expiry on hub.approval_grants (expires_at) where expires_at is not null;
