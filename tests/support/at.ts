import type { Json } from "../../src/core/json.ts";

/** What stands at this path of a JSON value; undefined where the path leads nowhere. */
export function at(value: Json | undefined, ...path: (string | number)[]): Json | undefined {
  let found = value;
  for (const step of path) {
    if (typeof found !== "object" || found === null) return undefined;
    found = Array.isArray(found) ? found.at(Number(step)) : found[String(step)];
  }
  return found;
}

/** The list at this path, empty where there is none. */
export function listAt(value: Json | undefined, ...path: (string | number)[]): Json[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? found : [];
}
