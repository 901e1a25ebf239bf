/** The text of each tagged template of a file, with `$` for what is put in; those inside of others stand for themselves. */
export function taggedTemplates(source: string): string[] {
  const found: string[] = [];
  let at = 0;
  const code = (end: string) => {
    let depth = 0;
    for (; at < source.length; at++) {
      const char = source[at];
      if (source.startsWith("//", at)) at = source.indexOf("\n", at);
      else if (source.startsWith("/*", at)) at = source.indexOf("*/", at) + 1;
      else if (char === '"' || char === "'") skipString(char);
      else if (char === "`") template(/[\w>]$/.test(source.slice(0, at)));
      else if (char === "{") depth++;
      else if (char === end && depth === 0) return;
      else if (char === "}") depth--;
      if (at < 0) return;
    }
  };
  const skipString = (quote: string) => {
    for (at++; source[at] !== quote; at++) if (source[at] === "\\") at++;
  };
  const template = (tagged: boolean) => {
    let text = "";
    for (at++; source[at] !== "`"; at++) {
      if (source.startsWith("${", at)) {
        at += 2;
        code("}");
        text += "$";
      } else {
        if (source[at] === "\\") text += source[at++];
        text += source[at];
      }
    }
    if (tagged) found.push(text);
  };
  code("");
  return found;
}

/** The names of all functions that a statement may call. */
export const calls = (statement: string): string[] =>
  [...statement.matchAll(/\b([a-z_]\w*)\s*\(/g)].map(([, name = ""]) => name);

/** What in a statement, or in a piece of one, breaks a rule; `volatile` holds the names of such functions. */
export function lintStatement(statement: string, volatile: ReadonlySet<string>): string[] {
  const found: string[] = [];
  const text = statement.replace(/--.*$/gm, "").replace(/\s+/g, " ").trim();
  const changed = [...text.matchAll(/\b(?:insert into|update|delete from|merge into) (hub\.\w+)/gi)]
    .map(([, table]) => table ?? "");
  const twice = changed.filter((table, index) => changed.indexOf(table) < index);
  found.push(...twice.map((table) => `changes ${table} twice`));
  found.push(...calls(text).filter((name) => volatile.has(name)).map((name) => `calls ${name}`));
  const first = /^(?:create|alter|drop|truncate|grant|revoke|comment on|vacuum|reindex|lock)\b/i
    .exec(text);
  if (first !== null) found.push("is DDL");
  if (/^(?:set|reset|discard|listen|unlisten|notify|prepare|declare|begin)\b/i.test(text)) {
    found.push("needs a session");
  }
  if (/\bhub\.\w+/.test(text) && !/\btenant_id (?:=|in)|\(tenant_id\b/.test(text)) {
    found.push("goes across tenants");
  }
  for (const [, table = "", name = table, on = ""] of text.matchAll(JOIN)) {
    if (!on.includes(`${name}.tenant_id`)) found.push(`joins ${table} across tenants`);
  }
  return found;
}

const JOIN =
  /\bjoin hub\.(\w+)(?: (?:as )?(?!on\b)(\w+))? on (.*?)(?=\b(?:join|where|order|group)\b|$)/gi;
