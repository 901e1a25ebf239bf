-- Whose sessions and stored responses are. The keys of an owner share; a row without one belongs to its key alone, and a
-- row without either is reached by keys with the policy sessions: "all" only. What belongs to a session is its owner's.
alter table hub.sessions add column owner text;
alter table hub.responses add column owner text;

-- Earlier rows: the key of the session's first run, where the session names none, and the owner that its key has now.
update hub.sessions s set key_id = r.key_id
from (
  select distinct on (tenant_id, session_id) tenant_id, session_id, key_id from hub.runs
  where key_id is not null order by tenant_id, session_id, created_at, run_id) r
where s.key_id is null and r.tenant_id = s.tenant_id and r.session_id = s.session_id;
update hub.sessions s set owner = k.owner from hub.api_keys k
where k.tenant_id = s.tenant_id and k.key_id = s.key_id and k.owner is not null;
update hub.responses r set owner = k.owner from hub.api_keys k
where k.tenant_id = r.tenant_id and k.key_id = r.key_id and k.owner is not null;

-- `ownerRef` of src/store/ownership.ts has the same expression.
create index sessions_of_owner on hub.sessions (tenant_id,
  (coalesce('owner:' || owner, 'key:' || key_id::text)), created_at desc, session_id desc);
create index sessions_of_key on hub.sessions (tenant_id, key_id, created_at desc, session_id desc);
-- Two owners may use the same external id.
create unique index sessions_external_of_owner on hub.sessions (tenant_id,
  (coalesce('owner:' || owner, 'key:' || key_id::text)), external_id) where external_id is not null;
create index sessions_external_id on hub.sessions (tenant_id, external_id) where external_id is not null;
drop index hub.sessions_external;
