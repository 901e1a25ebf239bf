/** A server cannot be connected to before its configuration or the environment changes. */
export class NotConfigured extends Error {
  override readonly name = "NotConfigured";
}

/** A text whose `${VAR}` were replaced, and the values that came from the environment. */
export interface Resolved {
  text: string;
  values: string[];
}

const TOKEN = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g;

/**
 * Replaces `${VAR}` and `${VAR:-default}` as the configuration does elsewhere, but at the moment of use: a secret is
 * held by nothing before, and one that was changed counts from the next connect on. Throws for a variable that is not set.
 */
export function resolveVariables(
  text: string,
  env: (name: string) => string | undefined,
): Resolved {
  const values: string[] = [];
  const resolved = text.replaceAll(TOKEN, (token, name?: string, fallback?: string) => {
    if (name === undefined) return token.slice(1);
    const found = env(name);
    if (fallback !== undefined && (found === undefined || found === "")) return fallback;
    if (found === undefined) throw new NotConfigured(`the variable ${name} is not set`);
    values.push(found);
    return found;
  });
  return { text: resolved, values };
}

/** Names of variables and headers whose literal values are credentials. */
const SECRET_NAME = /authorization|cookie|key|password|passwd|secret|token|credential/i;

/** Resolves each value; empty ones are left out, and what may be secret is told. */
export function resolveRecord(
  record: Readonly<Record<string, string>> | undefined,
  { env, addSecret }: {
    env: (name: string) => string | undefined;
    addSecret(secret: string): void;
  },
): Record<string, string> {
  const resolved: Record<string, string> = {};
  for (const [name, raw] of Object.entries(record ?? {})) {
    const { text, values } = resolveVariables(raw, env);
    if (text === "") continue;
    for (const value of values) if (value !== "") addSecret(value);
    if (SECRET_NAME.test(name)) {
      addSecret(text);
      const credential = /^(?:bearer|basic|token)\s+(\S+)$/i.exec(text)?.[1];
      if (credential !== undefined) addSecret(credential);
    }
    resolved[name] = text;
  }
  return resolved;
}
