-- Texts said to a run while it goes on. The run counts what it was told, so that its driver learns of news from the rows
-- it writes anyway, and no end can be written past a text that its driver does not know.
alter table hub.runs add column steer_count int not null default 0;

alter table hub.steering add column position int not null default 0;
-- The id the client gave (idempotency).
alter table hub.steering add column client_id text;
alter table hub.steering add column decided_at timestamptz;
create unique index steering_position on hub.steering (tenant_id, run_id, position);
create unique index steering_client on hub.steering (tenant_id, run_id, client_id) where client_id is not null;
