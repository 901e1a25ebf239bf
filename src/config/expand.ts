import { isJsonObject, type Json } from "../core/json.ts";
import { type ConfigPath, formatPath } from "./config_path.ts";
import type { ProblemList } from "./problem.ts";

/** A text that came, wholly or in part, from the environment. */
export interface Reference {
  /** The text as the file has it; null when a variable overrode the setting. */
  raw: string | null;
  /** The values of the variables, defaults left out. */
  values: string[];
  /** Names of the variables that were set. */
  variables: string[];
  /** True when the whole text is one reference, so that it may stand for a number or a boolean. */
  whole: boolean;
}

/** A configuration whose texts hold no references any more. */
export interface Expanded {
  value: Json;
  /** The reference that a setting came from, by its formatted path. */
  references: ReadonlyMap<string, Reference>;
}

const TOKEN = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{/g;
/** Shorter values are no secrets, and stand in texts by chance. */
const SHORTEST_HIDDEN = 8;
/** Settings whose references are resolved when they are needed; see `mcp/resolve_variables.ts`. */
const LATE = "mcpServers";
const WHOLE = /^\$\{[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}$/;

/**
 * Replaces `${VAR}` and `${VAR:-default}` in every text (names of settings are left alone). The default is taken when
 * the variable is unset or empty, as in a shell; `$${` stands for a plain `${`. A variable that is not set, and a
 * `${` that is neither form, are problems of that setting, and its text stays as it was.
 */
export function expandVariables(
  value: Json,
  { env, overridden, problems }: {
    env: (name: string) => string | undefined;
    /** Settings that came from a variable as they are, by formatted path, each with its variable. */
    overridden: ReadonlyMap<string, string>;
    problems: ProblemList;
  },
): Expanded {
  const references = new Map<string, Reference>();

  const visit = (node: Json, path: ConfigPath): Json => {
    if (typeof node === "string") return expandText(node, path);
    if (Array.isArray(node)) return node.map((item, index) => visit(item, [...path, index]));
    if (!isJsonObject(node) || path[0] === LATE) return node;
    return Object.fromEntries(
      Object.entries(node).map(([name, member]) => [name, visit(member, [...path, name])]),
    );
  };

  const expandText = (raw: string, path: ConfigPath): string => {
    const variable = overridden.get(formatPath(path));
    if (variable !== undefined) {
      const reference = { raw: null, values: [raw], variables: [variable], whole: true };
      references.set(formatPath(path), reference);
      return raw;
    }
    if (!raw.includes("${")) return raw;
    const reference: Reference = { raw, values: [], variables: [], whole: WHOLE.test(raw) };
    let failed = false;
    const text = raw.replaceAll(TOKEN, (token, name?: string, fallback?: string) => {
      if (token === "$${") return "${";
      if (name === undefined) {
        failed = true;
        problems.add(path, {
          got: "a ${ that names no variable",
          wanted: "${NAME}, ${NAME:-default}, or $${ for a plain ${",
        });
        return token;
      }
      const found = env(name);
      if (fallback !== undefined && (found === undefined || found === "")) return fallback;
      if (found === undefined) {
        failed = true;
        problems.add(path, {
          got: `\${${name}}, which is not set`,
          wanted: `the environment variable ${name}, or \${${name}:-default}`,
        });
        return token;
      }
      reference.values.push(found);
      reference.variables.push(name);
      return found;
    });
    references.set(formatPath(path), reference);
    return failed ? raw : text;
  };

  return { value: visit(value, []), references };
}

/** A text in which what `${VAR}` stood for is written as `${VAR}` again, so that it may be shown. */
export function hideVariables(text: string, references: Iterable<Reference>): string {
  let hidden = text;
  for (const { raw, values, variables } of references) {
    if (raw === null) continue;
    for (const [index, value] of values.entries()) {
      if (value.length < SHORTEST_HIDDEN) continue;
      hidden = hidden.replaceAll(value, `\${${variables[index] ?? ""}}`);
    }
  }
  return hidden;
}
