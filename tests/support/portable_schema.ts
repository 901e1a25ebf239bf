import type postgres from "postgres";

/** Not the tenants': it says which migrations the database has. */
const TABLES = `select oid, relname, relkind, relpersistence, relrowsecurity from pg_class
  where relnamespace = 'hub'::regnamespace and relkind in ('r', 'p') and relname <> 'schema_migrations'`;

/** What a distributed database can hold: each rule with the query for what breaks it, named by `at`. */
const RULES: readonly (readonly [rule: string, violations: string])[] = [
  [
    "a table has a tenant_id uuid not null, given by the hub",
    `select relname as at from (${TABLES}) t where not exists (select 1 from pg_attribute a
      where a.attrelid = t.oid and a.attname = 'tenant_id' and a.atttypid = 'uuid'::regtype and a.attnotnull
        and not a.atthasdef)`,
  ],
  [
    "a table has a primary key",
    `select relname as at from (${TABLES}) t where not exists (select 1 from pg_index x
      where x.indrelid = t.oid and x.indisprimary)`,
  ],
  [
    "tenant_id leads every primary and unique key",
    `select x.indexrelid::regclass::text as at from (${TABLES}) t join pg_index x on x.indrelid = t.oid
      left join pg_attribute a on a.attrelid = t.oid and a.attnum = x.indkey[0]
      where x.indisunique and a.attname is distinct from 'tenant_id'`,
  ],
  [
    "tenant_id leads every foreign key on both sides",
    `select conname as at from pg_constraint c
      left join pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
      left join pg_attribute f on f.attrelid = c.confrelid and f.attnum = c.confkey[1]
      where c.connamespace = 'hub'::regnamespace and c.contype = 'f'
        and (a.attname <> 'tenant_id' or f.attname <> 'tenant_id')`,
  ],
  [
    "a foreign key changes no column of its own table",
    `select conname as at from pg_constraint where connamespace = 'hub'::regnamespace and contype = 'f'
      and (confdeltype in ('n', 'd') or confupdtype <> 'a')`,
  ],
  [
    "no exclusion constraint, none that is deferred",
    `select conname as at from pg_constraint where connamespace = 'hub'::regnamespace
      and (contype = 'x' or condeferrable)`,
  ],
  [
    "no sequence and no identity",
    `select relname as at from pg_class where relnamespace = 'hub'::regnamespace and relkind = 'S'
      union all select c.relname from pg_attribute a join pg_class c on c.oid = a.attrelid
      where c.relnamespace = 'hub'::regnamespace and a.attidentity <> ''`,
  ],
  [
    "a default is a constant or now()",
    `select t.relname || '.' || a.attname as at from (${TABLES}) t join pg_attribute a on a.attrelid = t.oid
      join pg_attrdef d on d.adrelid = t.oid and d.adnum = a.attnum
      where pg_get_expr(d.adbin, d.adrelid) !~ '^(now\\(\\)|true|false|-?[0-9.]+|''[^'']*''::[a-z ]+)$'`,
  ],
  [
    "no trigger and no rule",
    `select tgname as at from pg_trigger t join pg_class c on c.oid = t.tgrelid
      where c.relnamespace = 'hub'::regnamespace and not tgisinternal
      union all select rulename from pg_rewrite r join pg_class c on c.oid = r.ev_class
      where c.relnamespace = 'hub'::regnamespace and rulename <> '_RETURN'`,
  ],
  [
    "no type but the built-in ones",
    `select t.relname || '.' || a.attname as at from (${TABLES}) t join pg_attribute a on a.attrelid = t.oid
      join pg_type y on y.oid = a.atttypid
      where a.attnum > 0 and not a.attisdropped and y.typnamespace <> 'pg_catalog'::regnamespace`,
  ],
  [
    "plain tables and plain views only",
    `select relname as at from pg_class where relnamespace = 'hub'::regnamespace
      and (relkind in ('m', 'f') or relpersistence <> 'p' or reltablespace <> 0)
      union all select i.inhrelid::regclass::text from pg_inherits i join pg_class p on p.oid = i.inhparent
      where p.relnamespace = 'hub'::regnamespace and p.relkind = 'r'`,
  ],
  [
    "a function is in SQL and changes nothing",
    `select proname as at from pg_proc p join pg_language l on l.oid = p.prolang
      where pronamespace = 'hub'::regnamespace and (provolatile = 'v' or lanname <> 'sql')`,
  ],
  [
    "a table has row-level security by app.tenant",
    `select relname as at from (${TABLES}) t where not relrowsecurity or not exists (select 1 from pg_policy p
      where p.polrelid = t.oid and pg_get_expr(p.polqual, p.polrelid) like '%tenant_id%app.tenant%')`,
  ],
  [
    "tenant_id leads every view",
    `select relname as at from pg_class c where relnamespace = 'hub'::regnamespace and relkind = 'v'
      and not exists (select 1 from pg_attribute a
        where a.attrelid = c.oid and a.attnum = 1 and a.attname = 'tenant_id')`,
  ],
];

/** What of the schema `hub` breaks a rule, as `rule: name`. */
export async function lintSchema(sql: postgres.ISql): Promise<string[]> {
  const found: string[] = [];
  for (const [rule, violations] of RULES) {
    const rows = await sql.unsafe<{ at: string }[]>(violations);
    found.push(...rows.map(({ at }) => `${rule}: ${at}`));
  }
  return found;
}

/** What a migration must not say: an older hub goes on beside a newer one, on any of the databases. */
const FORBIDDEN: readonly RegExp[] = [
  /\bdrop\s+(?:table|column|view|schema)\b/i,
  /\brename\s+(?:to|column)\b/i,
  /\balter\s+column\s+\w+\s+(?:set\s+data\s+)?type\b/i,
  /\bset\s+not\s+null\b/i,
  /\badd\s+(?:column\s+)?(?:if\s+not\s+exists\s+)?\w+\s+\w+\s+not\s+null(?!\s+default)\b/i,
  /\badd\s+(?:constraint\s+\w+\s+)?(?:check|unique|primary\s+key|foreign\s+key|exclude)\b/i,
  /\bconcurrently\b/i,
  /\b(?:small|big)?serial\d?\b|\bnextval\b|\bgenerated\s+(?:always|by\s+default)\s+as\s+identity\b/i,
  /\btruncate\b/i,
  /\bcreate\s+(?:or\s+replace\s+)?(?:extension|trigger|rule|type|domain|sequence|materialized|foreign)\b/i,
  /\b(?:temp|temporary|unlogged)\s+table\b/i,
  /\block\s+table\b|advisory|\blisten\b|\bnotify\b/i,
  /^\s*(?:begin|commit|rollback|set)\b/im,
];

/** What in a migration breaks a rule. A `begin` of a `do` block is on a line of its own, without a semicolon. */
export function lintMigration(text: string): string[] {
  const bare = text.replace(/--.*$/gm, "").replace(/^begin\s*$/gim, "");
  return FORBIDDEN.flatMap((pattern) => pattern.exec(bare)?.[0].trim() ?? []);
}
