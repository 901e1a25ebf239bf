-- Where words of others come from that a run was begun with, or was given by runs below it: so it is known without these.
alter table hub.runs add column outside jsonb not null default '[]';
