/** Names of settings whose members are named by the user. */
const RECORDS: ReadonlySet<string> = new Set([
  "providers",
  "models",
  "agents",
  "headers",
  "keySources",
  "mcpServers",
  "env",
  "effect",
]);

/**
 * Freezes a configuration to its depths. Objects whose members the user names lose their prototype: looking up the
 * name that a client sent (`constructor`, `toString`) must find nothing.
 */
export function freezeConfig<T>(config: T): T {
  return freezeMember("", config) as T;
}

function freezeMember(name: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return Object.freeze(value.map((item) => freezeMember("", item)));
  const out: Record<string, unknown> = RECORDS.has(name) ? Object.create(null) : {};
  for (const [key, member] of Object.entries(value)) out[key] = freezeMember(key, member);
  return Object.freeze(out);
}
