import type { LoadedProvider } from "./complete_providers.ts";
import { SECRET_VARIABLES } from "./environment.ts";
import type { Reference } from "./expand.ts";
import { type ConfigPath, formatPath } from "./config_path.ts";
import type { Config } from "./schema.ts";

/** Names of headers whose literal values are credentials. */
const SECRET_HEADER = /authorization|cookie|key|password|secret|token|credential/i;

/**
 * Every value of a configuration that no log may show: keys, whatever `${VAR}` put into keys and headers, headers
 * that carry credentials, passwords of database URLs, and the hub's own keys.
 */
export function collectSecrets(
  { providers, database, workspace, agents }: {
    providers: Record<string, LoadedProvider>;
    database: Config["database"];
    workspace?: Config["workspace"];
    agents: Config["agents"];
  },
  { references, env }: {
    references: ReadonlyMap<string, Reference>;
    env: (name: string) => string | undefined;
  },
): string[] {
  const secrets = new Set<string>();
  for (const [name, provider] of Object.entries(providers)) {
    if (provider.apiKey !== undefined) secrets.add(provider.apiKey);
    for (const value of valuesAt(["providers", name, "apiKey"], references)) secrets.add(value);
    for (const [index, key] of provider.apiKeys?.entries() ?? []) {
      const path = ["providers", name, "apiKeys", index];
      for (const value of [key, ...valuesAt(path, references)]) secrets.add(value);
    }
    for (const [header, value] of Object.entries(provider.headers ?? {})) {
      const values = valuesAt(["providers", name, "headers", header], references);
      for (const part of values) secrets.add(part);
      if (values.length === 0 && !SECRET_HEADER.test(header)) continue;
      secrets.add(value);
      const credential = /^(?:bearer|basic|token)\s+(\S+)$/i.exec(value)?.[1];
      if (credential !== undefined) secrets.add(credential);
    }
  }
  const workspaces: [ConfigPath, Config["workspace"] | false][] = [
    [["workspace"], workspace],
    ...Object.entries(agents).map(([name, agent]): [ConfigPath, Config["workspace"] | false] => [
      ["agents", name, "workspace"],
      agent.workspace,
    ]),
  ];
  for (const [path, one] of workspaces) {
    for (const name of Object.keys(one === false ? {} : one?.shell?.env ?? {})) {
      for (const value of valuesAt([...path, "shell", "env", name], references)) secrets.add(value);
    }
  }
  for (const url of [database.url, database.directUrl]) {
    for (const password of passwordsOf(url)) secrets.add(password);
  }
  for (const variable of SECRET_VARIABLES) {
    for (const secret of env(variable)?.split(/[\s,]+/) ?? []) secrets.add(secret);
  }
  secrets.delete("");
  return [...secrets];
}

function valuesAt(path: ConfigPath, references: ReadonlyMap<string, Reference>): readonly string[] {
  return references.get(formatPath(path))?.values ?? [];
}

/** The password of a URL as it is written and as it is meant. */
function passwordsOf(url: string | undefined): string[] {
  if (url === undefined || !URL.canParse(url)) return [];
  const { password, searchParams } = new URL(url);
  const written = [password, searchParams.get("password") ?? ""];
  return written.flatMap((text) => [text, decode(text)]);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // A lone % stands for itself.
    return text;
  }
}
