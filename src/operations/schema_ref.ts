import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { escapeToken, fragmentTokens } from "./json_pointer.ts";
import { eachSubschema } from "./subschemas.ts";

/** Where a `$ref` leads: a JSON pointer into the same document (`""` is the root) and the schema there. */
export interface RefTarget {
  pointer: string;
  schema: JsonObject | boolean;
}

/** Resolves a `$ref` inside its own document; null for remote, malformed, dangling and circular ones. */
export type ResolveRef = (ref: string) => RefTarget | null;

const MAX_ALIASES = 32;

/**
 * Makes the resolver of one schema document. Understands JSON pointer fragments (RFC 6901) and names given by
 * `$id` or `$anchor` inside the document, which is how TypeBox writes recursion. Nothing is ever fetched.
 */
export function createRefResolver(root: Json): ResolveRef {
  let named: Map<string, RefTarget> | null = null;
  const look = (ref: string): RefTarget | null => {
    if (ref === "" || ref === "#") return isJsonObject(root) ? { pointer: "", schema: root } : null;
    if (ref.startsWith("#/")) return followPointer(root, ref);
    named ??= indexNames(root);
    return named.get(ref.startsWith("#") ? ref.slice(1) : ref) ?? null;
  };
  const known = new Map<string, RefTarget | null>();
  const resolve = (ref: string) => {
    const first = look(ref);
    let target = first;
    const seen = new Set<string>();
    while (
      target !== null && isJsonObject(target.schema) && typeof target.schema.$ref === "string"
    ) {
      if (seen.has(target.pointer) || seen.size >= MAX_ALIASES) return null;
      seen.add(target.pointer);
      target = look(target.schema.$ref);
    }
    return target === null ? null : first;
  };
  return (ref) => {
    let target = known.get(ref);
    if (target === undefined) known.set(ref, target = resolve(ref));
    return target;
  };
}

function followPointer(root: Json, ref: string): RefTarget | null {
  const tokens = fragmentTokens(ref);
  if (tokens === null) return null;
  let place: Json | undefined = root;
  for (const token of tokens) {
    if (Array.isArray(place)) place = /^\d+$/.test(token) ? place[Number(token)] : undefined;
    else if (isJsonObject(place) && Object.hasOwn(place, token)) place = place[token];
    else return null;
  }
  if (typeof place !== "boolean" && !isJsonObject(place)) return null;
  return { pointer: tokens.map((token) => `/${escapeToken(token)}`).join(""), schema: place };
}

function indexNames(root: Json): Map<string, RefTarget> {
  const names = new Map<string, RefTarget>();
  eachSubschema(root, (schema, pointer) => {
    for (const name of [schema.$id, schema.$anchor]) {
      if (typeof name === "string" && !names.has(name)) names.set(name, { pointer, schema });
    }
  });
  return names;
}
