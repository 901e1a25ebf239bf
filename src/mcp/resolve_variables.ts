import type { ConnectionSecrets } from "./secrets/connection_secrets.ts";
import {
  argumentNames,
  credentialOf,
  isSecretName,
  likelySecrets,
} from "../telemetry/likely_secret.ts";

/** A server cannot be connected to before its configuration or the environment changes. */
export class NotConfigured extends Error {
  override readonly name = "NotConfigured";
}

/** A text whose `${VAR}` were replaced, and the values that came from the environment. */
export interface Resolved {
  text: string;
  values: string[];
  /** Names of the variables that they came from. */
  names: string[];
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
  const names: string[] = [];
  const resolved = text.replaceAll(TOKEN, (token, name?: string, fallback?: string) => {
    if (name === undefined) return token.slice(1);
    const found = env(name);
    if (fallback !== undefined && (found === undefined || found === "")) return fallback;
    if (found === undefined) throw new NotConfigured(`the variable ${name} is not set`);
    values.push(found);
    names.push(name);
    return found;
  });
  return { text: resolved, values, names };
}

/** What resolving touches. */
export interface ResolveOptions {
  env: (name: string) => string | undefined;
  /** Called with what no log may show. */
  addSecret(secret: string): void;
  /** What no text of the server may show. */
  secrets: ConnectionSecrets;
}

/** Resolves each value; empty ones are left out, and what may be secret is told. */
export function resolveRecord(
  record: Readonly<Record<string, string>> | undefined,
  options: ResolveOptions,
): Record<string, string> {
  const resolved: Record<string, string> = {};
  for (const [name, raw] of Object.entries(record ?? {})) {
    const text = resolveOne(raw, [name], options);
    if (text === "") continue;
    if (isSecretName(name)) { for (const part of credentialOf(text)) options.addSecret(part); }
    resolved[name] = text;
  }
  return resolved;
}

/** Resolves the arguments of a program, and tells what may be secret of them by their flags. */
export function resolveArguments(args: readonly string[], options: ResolveOptions): string[] {
  return args.map((raw, index) => {
    const text = resolveOne(raw, [], options);
    const { name, value } = argumentNames(text, args[index - 1]);
    tell(likelySecrets(value, [name]), options);
    return text;
  });
}

/** Resolves an address, and tells what may be secret of it. */
export function resolveAddress(raw: string, options: ResolveOptions): string {
  return resolveOne(raw, [], options);
}

function resolveOne(raw: string, names: readonly string[], options: ResolveOptions): string {
  const { text, values, names: variables } = resolveVariables(raw, options.env);
  for (const value of values) if (value !== "") options.addSecret(value);
  for (const [index, value] of values.entries()) {
    const variable = variables[index];
    tell(likelySecrets(value, variable === undefined ? names : [...names, variable]), options);
  }
  // What is not secret by its name or form may still hold what is, such as the password of a URL.
  tell(likelySecrets(text, values.length === 0 ? names : [...names, ...variables]), options);
  return text;
}

function tell(found: readonly string[], { addSecret, secrets }: ResolveOptions): void {
  for (const secret of found) addSecret(secret);
  secrets.add(found);
}
