-- The id that a client gave to a message which another text has taken the place of: the new message has the id now.
alter table hub.messages add column former_client_id text;
